// Attention: FLASH_ATTN_EXT over cells in halves or Q8_0. How it is cut into items and how its rows are numbered; attend.h computes.
#pragma once
#include "ggml.h"
#include <string.h>

namespace {

constexpr int STRIP = 16;                        // cells whose keys are multiplied together
constexpr int CHUNK = 256, STRIPS = CHUNK/STRIP; // cells that have one softmax
constexpr int VALUE_STRIPS = 4;                  // whose values are widened together
constexpr int WIDEST = 256;                      // values of a head at most
constexpr int64_t QUERIES = 96;                  // query rows of a block at most: their scores of a chunk stay in the L2 cache

// A query row is a row of the pass with one of its heads. They are numbered by sequence, K/V head, row of the pass, and head of
// those that share the K/V head. A block is all query rows of some rows of the pass that share a K/V head.
struct Block { int64_t stream, head, first_row, last_row, first_query, queries, chunk; };

struct Shape {
    const ggml_tensor * op, * q, * k, * v, * mask, * sinks;
    int dk, dv, padded, group;                   // padded: dv up to a register's end; group: heads that share a K/V head
    int64_t n, shared, streams, cells;           // rows of the pass, K/V heads, sequences
    float scale, cap;                            // scores are cap tanh(q k scale), without a cap (0) q k scale

    explicit Shape(const ggml_tensor * op) : op(op), q(op->src[0]), k(op->src[1]), v(op->src[2]), mask(op->src[3]),
        sinks(op->src[4]), dk((int) k->ne[0]), dv((int) v->ne[0]), padded((dv + 15)/16*16), group((int) (q->ne[2]/k->ne[2])),
        n(q->ne[1]), shared(k->ne[2]), streams(q->ne[3]), cells(k->ne[1]) {
        memcpy(&scale, op->op_params, 4);
        memcpy(&cap, op->op_params + 2, 4);
        if (cap != 0) scale /= cap;
    }

    static const char * at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
        return (const char *) t->data + i1*t->nb[1] + i2*t->nb[2] + i3*t->nb[3];
    }
    int64_t partial() const { return padded + 16; }   // floats of a query row's partial sums: the values'; M; L
    int64_t row(const Block & b, int64_t i) const { return b.first_row + i/group; }
    const float * query(const Block & b, int64_t i) const { return (const float *) at(q, row(b, i), b.head*group + i % group, b.stream); }
    const char * mask_of(const Block & b, int64_t row) const { return at(mask, row, 0, b.stream % mask->ne[3]); }
    const char * key(const Block & b, int64_t cell) const { return at(k, cell, b.head, b.stream); }
    const char * value(const Block & b, int64_t cell) const { return at(v, cell, b.head, b.stream); }
    int64_t head(int64_t query) const { return query/(n*group) % shared*group + query % group; }
    float * out(int64_t query) const { return (float *) at(op, head(query), query % (n*group)/group, query/(n*group)/shared); }
};

// What a thread has for itself.
struct Scratch {
    float * q, * scores, * keys, * values, * part, * whole, * seen;
    static constexpr int64_t ROWS = QUERIES*WIDEST, SUMS = QUERIES*(WIDEST + 16), CELLS = STRIP*WIDEST;
    static constexpr int64_t FLOATS = ROWS + QUERIES*CHUNK + CELLS + VALUE_STRIPS*CELLS + 2*SUMS + QUERIES*STRIPS/2;
    explicit Scratch(float * p) : q(p), scores(q + ROWS), keys(scores + QUERIES*CHUNK), values(keys + CELLS),
        part(values + VALUE_STRIPS*CELLS), whole(part + SUMS), seen(whole + SUMS) {}
};

} // namespace

// A chunk always begins at the same cells, a query row's sums in it have an order of their own, and the chunks' sums are added
// in order. So a row's bits depend neither on how many rows the pass has nor on how many threads compute it.
struct Attention {
    const ggml_tensor * op = nullptr;
    int64_t queries = 0, chunks = 0, blocks = 0, rows_of_block = 0, items = 0;   // blocks: of a K/V head
    bool divided = false;                        // an item is one chunk of a block: `combine` adds them up

    static bool supports(const ggml_tensor * op);
    Attention() = default;
    Attention(const ggml_tensor * op, int threads);
    int64_t floats() const;                      // of the partial sums of all items
};

namespace {

inline Block block_of(const Attention & a, const Shape & s, int64_t item) {
    Block b;
    b.chunk = a.divided ? item % a.chunks : 0;
    if (a.divided) item /= a.chunks;
    b.head = item/a.blocks % s.shared;
    b.stream = item/a.blocks/s.shared;
    b.first_row = item % a.blocks*a.rows_of_block;
    b.last_row = b.first_row + a.rows_of_block < s.n ? b.first_row + a.rows_of_block : s.n;
    b.first_query = ((b.stream*s.shared + b.head)*s.n + b.first_row)*s.group;
    b.queries = (b.last_row - b.first_row)*s.group;
    return b;
}

} // namespace
