#include "signs.h"
#include <algorithm>
#include <functional>
#include <immintrin.h>
#include <math.h>

namespace {

constexpr int64_t EXACT = 16;           // one in so many tiles is read as it is: with one in 64 a gemma-3-270m misses the largest product
                                        // of 2 % of the tokens, with this one of .5 %; a Qwen2.5 0.5B of none either way
constexpr int64_t LEAST = 1 << 16;      // rows: an output matrix of fewer is too small a part of a draft

// The weights of a block: the arithmetic of formats.h.
void read_weights(const Format & f, const uint8_t * p, float * w) {
    Values v;
    read_block(f, p, v);
    const float d = _cvtsh_ss(v.d);
    for (int i = 0; i < f.block; i++) {
        const int q = (f.codebook ? CODEBOOK[v.q[i]] : v.q[i]) - f.offset;
        w[i] = f.run ? d*v.scale[i/f.run]*q : d*q;
        if (f.mins) w[i] += f.run ? -_cvtsh_ss(v.dmin)*v.min[i/f.run] : _cvtsh_ss(v.dmin);
    }
}

// 32 weights as a block of SIGNS. The mean magnitude is the scale of least error (Rastegari et al., arXiv 1603.05279).
void write_signs(const float * w, uint8_t * block) {
    float sum = 0;
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) { sum += fabsf(w[i]); bits |= (uint32_t) (w[i] > 0) << i; }
    const uint16_t d = _cvtss_sh(sum/32, 0);
    memcpy(block, &d, 2);
    memcpy(block + 2, &bits, 4);
}

} // namespace

bool has_signs(const ggml_tensor * t) {
    const bool output = strcmp(t->name, "output.weight") == 0 || strcmp(t->name, "token_embd.weight") == 0;   // some have one for both
    return request.signs && output && matrices(t) == 1 && t->ne[1] >= LEAST && !FORMATS[format_of(t->type)].floats();
}

void pack_signs(int format, int64_t k, int64_t rows, const uint8_t * data, uint8_t * packed, int64_t first, int64_t last) {
    const Format & f = FORMATS[format], & signs = FORMATS[SIGNS_FORMAT];
    const size_t row_bytes = k/f.block*f.bytes, signs_bytes = k/32*signs.bytes, tile_bytes = ::tile_bytes(signs, kernels->lanes, k);
    std::vector<uint8_t> tile(kernels->lanes*signs_bytes);
    std::vector<float> w(f.block);
    for (int64_t i = first; i < last; i++) {
        const int64_t row = i*kernels->lanes, n = std::min<int64_t>(kernels->lanes, rows - row);
        for (int64_t r = 0; r < n; r++)
            for (int64_t b = 0; b < k/f.block; b++) {
                read_weights(f, data + (row + r)*row_bytes + b*f.bytes, w.data());
                for (int part = 0; part < f.block/32; part++)
                    write_signs(&w[32*part], &tile[r*signs_bytes + (b*f.block/32 + part)*signs.bytes]);
            }
        kernels->pack(SIGNS_FORMAT, k, n, tile.data(), packed + i*tile_bytes, 0, 1);
    }
}

void choose_tiles(const float * products, int64_t rows, std::vector<float> & largest, std::vector<int64_t> & chosen) {
    const int64_t lanes = kernels->lanes, all = tiles(rows), exact = (all + EXACT - 1)/EXACT;
    largest.resize(2*all);
    for (int64_t i = 0; i < all; i++) {
        float most = -INFINITY;   // also of products that are no numbers
        for (int64_t r = i*lanes; r < std::min(rows, (i + 1)*lanes); r++) most = products[r] > most ? products[r] : most;
        largest[i] = largest[all + i] = most;
    }
    std::nth_element(&largest[all], &largest[all + exact - 1], &largest[all] + all, std::greater<float>());
    const float least = largest[all + exact - 1];
    chosen.clear();
    for (int64_t i = 0; i < all; i++) if (largest[i] >= least) chosen.push_back(i);
}
