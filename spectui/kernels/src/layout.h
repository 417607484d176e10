// How weights and activations lie in memory.
//
// A tile is as many output rows as a register has 32-bit lanes (R: 8 or 16), over the whole of k, in the order in which the
// kernels read it. Four weights that follow each other in k are an operand: one 32-bit lane of a register whose lanes are the
// tile's rows. Codes are cut into planes of 1, 2, 4 or 8 bits: word v of a plane of B bits holds the operands v*(8/B) ... at
// bit B*i, so that a register gives 8/B operands by shifts and masks.
//
//   small blocks:  [d: blocks x R halves] [m: the same, if any] to 64 bytes, then for each block [(low + high) words x R]
//   super-blocks:  for each [scales: pairs of runs x R x 2 bytes] [mins: the same, if any] [d: R halves] [dmin: the same]
//                  to 32 bytes, then for each 32 weights [(low + high) words x R]
//   floats:        for each column of weights [R floats, of the file's type]
//
// Activations are quantised as ggml does (Q8_0 for small blocks, Q8_K for super-blocks) and lie in groups of up to as many
// columns as the kernels keep in registers. A record is what a kernel reads of one block for the NC columns of its group:
//   small block:  [NC x 32 int8] [NC int32: minus their sum] [NC float: scale]
//   super-block:  [NC x 256 int8] [NC x 16 int16: sums of 16] [NC x 8 int16: sums of 32] [NC float: scale]
//   floats:       [NC x 8 float], not quantised
#pragma once
#include "formats.h"
#include <immintrin.h>

namespace {

constexpr size_t up_to(size_t n, size_t multiple) { return (n + multiple - 1)/multiple*multiple; }

// Q2_K has scales and minima of 4 bits: both lie in one byte.
constexpr bool merged(const Format & f) { return f.run == 16 && f.mins; }

constexpr size_t words_bytes(const Format & f, int R) { return (size_t) (f.low + f.high)*R*4; }   // of 32 weights
constexpr size_t scales_bytes(const Format & f, int R) { return (size_t) 256/f.run*R; }
constexpr size_t super_head(const Format & f, int R) {
    return up_to(scales_bytes(f, R)*(f.mins && !merged(f) ? 2 : 1) + 2*R*(f.mins ? 2 : 1), 32);
}
constexpr size_t super_bytes(const Format & f, int R) { return super_head(f, R) + 8*words_bytes(f, R); }
constexpr size_t small_head(const Format & f, int R, int64_t k) { return up_to((size_t) k/32*R*2*(f.mins ? 2 : 1), 64); }

constexpr size_t tile_bytes(const Format & f, int R, int64_t k) {
    if (f.floats()) return (size_t) k/f.block*f.bytes*R;
    return f.block == 32 ? small_head(f, R, k) + (size_t) k/32*words_bytes(f, R) : (size_t) k/256*super_bytes(f, R);
}

// Write the codes of 32 weights of row r into their planes.
template <int R, int W> inline void pack_words(const uint8_t * q, uint32_t * words, int r) {
    constexpr Format f = FORMATS[W];
    uint32_t operand[8];
    memcpy(operand, q, 32);
    for (int v = 0; v < f.low + f.high; v++) {
        const bool second = v >= f.low;
        const int bits = second ? f.high : f.low, each = 8/bits, first = (second ? v - f.low : v)*each, shift = second ? f.low : f.left();
        const uint32_t mask = 0x01010101u*((1u << bits) - 1);
        uint32_t word = 0;
        for (int i = 0; i < each; i++) word |= (operand[first + i] >> shift & mask) << bits*i;
        words[v*R + r] = word;
    }
}

// Rows r0 .. r0 + n of a matrix -> one tile. Rows past n are zero.
template <int R, int W> void pack_tile(int64_t k, const uint8_t * rows, size_t row_bytes, int n, uint8_t * tile) {
    constexpr Format f = FORMATS[W];
    memset(tile, 0, tile_bytes(f, R, k));
    if constexpr (f.floats()) {
        constexpr int size = f.bytes/f.block;
        for (int64_t i = 0; i < k; i++)
            for (int r = 0; r < n; r++) memcpy(tile + (i*R + r)*size, rows + r*row_bytes + i*size, size);
        return;
    }
    Values v;
    for (int64_t b = 0; b < k/f.block; b++) {
        for (int r = 0; r < n; r++) {
            read_block(f.type, rows + r*row_bytes + b*f.bytes, v);
            if (f.block == 32) {
                uint16_t * d = (uint16_t *) tile + b*R;
                d[r] = v.d;
                if (f.mins) d[k/32*R + r] = v.dmin;
                pack_words<R, W>(v.q, (uint32_t *) (tile + small_head(f, R, k) + b*words_bytes(f, R)), r);
                continue;
            }
            uint8_t * head = tile + b*super_bytes(f, R);
            for (int s = 0; s < 256/f.run; s++) {
                const size_t at = (s/2*R + r)*2 + s % 2;
                head[at] = merged(f) ? v.scale[s] | v.min[s] << 4 : v.scale[s];
                if (f.mins && !merged(f)) head[scales_bytes(f, R) + at] = v.min[s];
            }
            uint16_t * d = (uint16_t *) (head + scales_bytes(f, R)*(f.mins && !merged(f) ? 2 : 1));
            d[r] = v.d;
            if (f.mins) d[R + r] = v.dmin;
            for (int g = 0; g < 8; g++)
                pack_words<R, W>(v.q + 32*g, (uint32_t *) (head + super_head(f, R) + g*words_bytes(f, R)), r);
        }
    }
}

// ---------------------------------------------------------------- activations

constexpr size_t record_bytes(int block) { return block == 8 ? 8*4 : block == 32 ? 32 + 4 + 4 : 256 + 32 + 16 + 4; }   // for each column
constexpr size_t columns_bytes(int block, int64_t k, int n) { return (size_t) k/block*record_bytes(block)*n; }

// n columns in as few groups of at most `most` as possible, all of about the same size.
struct Groups {
    int n, count, base, longer;
    Groups(int n, int most) : n(n), count((n + most - 1)/most), base(n ? n/count : 0), longer(n ? n % count : 0) {}
    int size(int g) const { return base + (g < longer); }
    int first(int g) const { return g*base + (g < longer ? g : longer); }
    int of(int column) const {
        const int cut = longer*(base + 1);
        return column < cut ? column/(base + 1) : longer + (column - cut)/base;
    }
};

inline __m256 absolute(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

inline float largest(__m256 v) {
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

// 16 values times `scale`, rounded to the nearest even integer; returns their sum.
inline int round_16(const float * x, float scale, int8_t * q) {
    const __m256 s = _mm256_set1_ps(scale);
    const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), s));
    const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), s));
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    _mm_storeu_si128((__m128i *) q, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
    const __m256i t = _mm256_madd_epi16(w, _mm256_set1_epi16(1));
    __m128i u = _mm_add_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1));
    u = _mm_add_epi32(u, _mm_shuffle_epi32(u, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(u, _mm_shuffle_epi32(u, 0xB1)));
}

// As ggml's quantize_row_q8_0 on x86: the scale is rounded to a half, the codes are those of the unrounded one.
inline void quantise_32(const float * x, uint8_t * record, int nc, int c) {
    __m256 m = _mm256_setzero_ps();
    for (int i = 0; i < 32; i += 8) m = _mm256_max_ps(m, absolute(_mm256_loadu_ps(x + i)));
    const float most = largest(m), inverse = most != 0 ? 127.f/most : 0;
    int8_t * q = (int8_t *) record + 32*c;
    const int32_t minus_sum = -(round_16(x, inverse, q) + round_16(x + 16, inverse, q + 16));
    const float d = _cvtsh_ss(_cvtss_sh(most/127.f, 0));
    memcpy(record + 32*nc + 4*c, &minus_sum, 4);
    memcpy(record + 36*nc + 4*c, &d, 4);
}

// As ggml's quantize_row_q8_K_ref: the first value of the largest magnitude becomes -127.
inline void quantise_256(const float * x, uint8_t * record, int nc, int c) {
    __m256 m = _mm256_setzero_ps();
    for (int i = 0; i < 256; i += 8) m = _mm256_max_ps(m, absolute(_mm256_loadu_ps(x + i)));
    const float most = largest(m);
    int8_t * q = (int8_t *) record + 256*c;
    int16_t * of_16 = (int16_t *) (record + 256*nc) + 16*c, * of_32 = (int16_t *) (record + 288*nc) + 8*c;
    float d = 0;
    if (most > 0) {
        int at = 0;
        while (x[at] != most && x[at] != -most) at++;
        const float inverse = -127.f/x[at];
        for (int i = 0; i < 16; i++) of_16[i] = (int16_t) round_16(x + 16*i, inverse, q + 16*i);
        for (int i = 0; i < 8; i++) of_32[i] = of_16[2*i] + of_16[2*i + 1];
        d = 1/inverse;
    } else {
        memset(q, 0, 256); memset(of_16, 0, 32); memset(of_32, 0, 16);
    }
    memcpy(record + 304*nc + 4*c, &d, 4);
}

// Quantise one block of one column, whose values begin at x, into the buffer of all groups.
inline void quantise_block(int block, int64_t k, const Groups & groups, int column, int64_t b, const float * x, uint8_t * buffer) {
    const int g = groups.of(column), first = groups.first(g), nc = groups.size(g);
    uint8_t * record = buffer + columns_bytes(block, k, first) + b*record_bytes(block)*nc;
    if (block == 8)       memcpy(record + 32*(column - first), x, 32);
    else if (block == 32) quantise_32(x, record, nc, column - first);
    else                  quantise_256(x, record, nc, column - first);
}

} // namespace
