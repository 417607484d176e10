// Attention: FLASH_ATTN_EXT over cells in halves or Q8_0. How it is cut into items and how its queries are numbered; attend.h computes.
#pragma once
#include "formats.h"

namespace {

constexpr int STRIP = 16;                        // cells whose keys are multiplied together
constexpr int CHUNK = 256, STRIPS = CHUNK/STRIP; // cells that have one softmax
constexpr int VALUE_STRIPS = 4;                  // whose values are widened together
constexpr int WIDEST = 256;                      // values of a head at most
constexpr int64_t QUERIES = 96;                  // of a slice at most: their scores of a chunk stay in the L2 cache
constexpr int64_t MOST_FLOATS = 1 << 24;         // of partial sums

// A query is a head of a token. They are numbered by sequence, K/V head, token, and head of those that share the K/V head. A slice
// is all queries of some tokens that share a K/V head.
struct Slice { int64_t stream, head, first_token, last_token, first_query, queries, chunk; };

// What a thread has for itself.
struct Scratch {
    float * q, * scores, * keys, * values, * part, * whole, * seen;
    static constexpr int64_t OF_QUERIES = QUERIES*WIDEST, SUMS = QUERIES*(WIDEST + 16), CELLS = STRIP*WIDEST;
    static constexpr int64_t FLOATS = OF_QUERIES + QUERIES*CHUNK + CELLS + VALUE_STRIPS*CELLS + 2*SUMS + QUERIES*STRIPS/2;
    explicit Scratch(float * p) : q(p), scores(q + OF_QUERIES), keys(scores + QUERIES*CHUNK), values(keys + CELLS),
        part(values + VALUE_STRIPS*CELLS), whole(part + SUMS), seen(whole + SUMS) {}
};

} // namespace

// A chunk always begins at the same cells, a query's sums in it have an order of their own, and the chunks' sums are added in
// order. So a query's bits depend neither on how many tokens the pass has nor on how many threads compute it.
struct Attention {
    const ggml_tensor * op, * q, * k, * v, * mask, * sinks;
    int     dk, dv, padded, gqa;                 // padded: dv up to a register's end; gqa: heads that share a K/V head
    int64_t tokens, kv_heads, streams, cells;
    float   scale, cap;                          // scores are cap tanh(q k scale), without a cap (0) q k scale
    int64_t queries, chunks, slices, tokens_of_slice, items;   // slices: of a K/V head
    bool    divided;                             // an item is one chunk of a slice: `combine` adds them up

    INLINE int64_t partial() const { return padded + 16; }     // floats of a query's partial sums: the values'; M; L
    INLINE int64_t partials() const { return divided ? queries*chunks*partial() : 0; }   // of all items
    INLINE int64_t token(const Slice & s, int64_t i) const { return s.first_token + i/gqa; }
    INLINE const float * query(const Slice & s, int64_t i) const {
        return (const float *) row_at(q, token(s, i), s.head*gqa + i % gqa, s.stream);
    }
    INLINE const char * mask_of(const Slice & s, int64_t token) const { return row_at(mask, token, 0, s.stream % mask->ne[3]); }
    INLINE const char * key(const Slice & s, int64_t cell) const { return row_at(k, cell, s.head, s.stream); }
    INLINE const char * value(const Slice & s, int64_t cell) const { return row_at(v, cell, s.head, s.stream); }
    INLINE int64_t head(int64_t query) const { return query/(tokens*gqa) % kv_heads*gqa + query % gqa; }
    INLINE float * out(int64_t query) const {
        return (float *) row_at(op, head(query), query % (tokens*gqa)/gqa, query/(tokens*gqa)/kv_heads);
    }
    INLINE Slice slice(int64_t item) const {
        Slice s;
        s.chunk = divided ? item % chunks : 0;
        if (divided) item /= chunks;
        s.head = item/slices % kv_heads;
        s.stream = item/slices/kv_heads;
        s.first_token = item % slices*tokens_of_slice;
        s.last_token = s.first_token + tokens_of_slice < tokens ? s.first_token + tokens_of_slice : tokens;
        s.first_query = ((s.stream*kv_heads + s.head)*tokens + s.first_token)*gqa;
        s.queries = (s.last_token - s.first_token)*gqa;
        return s;
    }
};

bool supports_attention(const ggml_tensor * op);
Attention attention_of(const ggml_tensor * op, int threads);
