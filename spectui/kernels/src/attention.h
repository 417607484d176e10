// Attention of short passes: FLASH_ATTN_EXT for fewer rows than llama.cpp has a tiled kernel for.
#pragma once
#include "ggml.h"

// Cells are taken in chunks that always begin at the same cells, and a chunk in blocks. A row's sums run over its chunk's blocks
// in order, and the chunks' sums are added in order. So its bits depend neither on how many rows the pass has nor on how
// many threads compute it.
struct Attention {
    const ggml_tensor * op;

    static bool supports(const ggml_tensor * op);
    int64_t chunks() const;
    int64_t items() const;       // independent pieces of work
    int64_t rows() const;        // of the output: query rows times heads
    int64_t partial() const;     // floats of a row's partial sums in one chunk
    int64_t floats() const { return rows()*chunks()*partial(); }
    void compute(int64_t item, float * partials) const;
    void combine(int64_t row, const float * partials) const;   // when all items are computed
};
