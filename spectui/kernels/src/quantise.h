// Activations, quantised as ggml does for products with the same weights.
#pragma once
#include "layout.h"
#include "registers.h"

namespace {

inline float largest_magnitude(const float * x, int n) {
    __m256 m = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 8) m = _mm256_max_ps(m, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x + i)));
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
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
    const float most = largest_magnitude(x, 32), inverse = most != 0 ? 127.f/most : 0;
    int8_t * q = (int8_t *) record + 32*c;
    const int32_t minus_sum = -(round_16(x, inverse, q) + round_16(x + 16, inverse, q + 16));
    const float d = _cvtsh_ss(_cvtss_sh(most/127.f, 0));
    memcpy(record + 32*nc + 4*c, &minus_sum, 4);
    memcpy(record + 36*nc + 4*c, &d, 4);
}

// As ggml's quantize_row_q8_K_ref: the first value of the largest magnitude becomes -127.
inline void quantise_256(const float * x, uint8_t * record, int nc, int c) {
    const float most = largest_magnitude(x, 256);
    int8_t * q = (int8_t *) record + 256*c;
    int16_t * of_16 = (int16_t *) (record + 256*nc) + 16*c, * of_32 = (int16_t *) (record + 288*nc) + 8*c;
    int at = 0;
    while (most > 0 && x[at] != most && x[at] != -most) at++;
    const float inverse = most > 0 ? -127.f/x[at] : 0, d = most > 0 ? 1/inverse : 0;
    for (int i = 0; i < 16; i++) of_16[i] = (int16_t) round_16(x + 16*i, inverse, q + 16*i);
    for (int i = 0; i < 8; i++) of_32[i] = of_16[2*i] + of_16[2*i + 1];
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
