// Registers of 256 bits: what AVX2 and AVX-VNNI share.
#pragma once
#include "attend.h"
#include "kernels.h"

namespace {

struct Avx256 {
    using I = __m256i;
    using F = __m256;
    static constexpr int LANES = 8, GROUP = 4, TILE_ROWS = 3;
    static constexpr size_t AHEAD = 2048; // on Zen 3 20 to 30 % less time for 1 to 4 columns than without

    // GCC would keep many products and add them later, which takes more registers than there are.
    static INLINE I at_once(I a) { __asm__ volatile("" : "+x"(a)); return a; }

    static INLINE I zero() { return _mm256_setzero_si256(); }
    static INLINE I load(const void * p) { return _mm256_loadu_si256((const __m256i *) p); }
    static INLINE I broadcast(const void * p) { int v; memcpy(&v, p, 4); return _mm256_set1_epi32(v); }
    static INLINE I add(I a, I b) { return at_once(_mm256_add_epi32(a, b)); }
    static INLINE I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
    static INLINE I either(I a, I b) { return _mm256_or_si256(a, b); }
    static INLINE I bits(I a, int mask) { return _mm256_and_si256(a, _mm256_set1_epi8((char) mask)); }
    static INLINE I bits_16(I a, int mask) { return _mm256_and_si256(a, _mm256_set1_epi16((short) mask)); }
    // Within 16-bit lanes: left by N, right where N is negative. Bits from the neighbouring byte have to be masked out.
    template <int N> static INLINE I shift(I a) {
        if constexpr (N > 0) return _mm256_slli_epi16(a, N);
        else if constexpr (N < 0) return _mm256_srli_epi16(a, -N);
        else return a;
    }
    template <int N> static INLINE I shift_32(I a) { return _mm256_slli_epi32(a, N); }
    template <bool SIGNED> static INLINE I bytes_to_16(const void * p) {
        const __m128i a = _mm_loadu_si128((const __m128i *) p);
        return SIGNED ? _mm256_cvtepi8_epi16(a) : _mm256_cvtepu8_epi16(a);
    }

    static INLINE F floats_zero() { return _mm256_setzero_ps(); }
    static INLINE F set(float v) { return _mm256_set1_ps(v); }
    static INLINE F floats(I a) { return _mm256_cvtepi32_ps(a); }
    static INLINE F halves(const void * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
    // A register of floats of this type of weights.
    template <int TYPE> static INLINE F floats_of(const void * p) {
        if constexpr (TYPE == TYPE_F32) return _mm256_loadu_ps((const float *) p);
        else if constexpr (TYPE == TYPE_F16) return halves(p);
        else return _mm256_castsi256_ps(shift_32<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p))));
    }
    static INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static INLINE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
    static INLINE void store(float * p, F a) { _mm256_storeu_ps(p, a); }
    static INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
    static INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
    static INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
    static INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }
    static INLINE F divide(F a, F b) { return _mm256_div_ps(a, b); }
    static INLINE F load_floats(const float * p) { return _mm256_loadu_ps(p); }
    static INLINE F repeat_4(const float * p) { return _mm256_broadcast_ps((const __m128 *) p); }
    static INLINE F low_pairs(F a, F b) { return _mm256_unpacklo_ps(a, b); }
    static INLINE F high_pairs(F a, F b) { return _mm256_unpackhi_ps(a, b); }
    static INLINE F low_halves(F a, F b) { return _mm256_shuffle_ps(a, b, 0x44); }
    static INLINE F high_halves(F a, F b) { return _mm256_shuffle_ps(a, b, 0xEE); }
    static INLINE F where(unsigned bits, F a, F b) {
        const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int) bits), bit), bit)));
    }
    static INLINE F times_power(F a, F n) {
        return mul(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(n), _mm256_set1_epi32(127)), 23)));
    }
    // Four halves of each of some cells, and the four behind them.
    static INLINE void four_halves(const char * p, size_t apart, float * first, float * second) {
        const __m128i a = _mm_loadu_si128((const __m128i *) p), b = _mm_loadu_si128((const __m128i *) (p + apart));
        store(first, _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)));
        store(second, _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)));
    }
    static INLINE I look_up(I q) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) CODEBOOK)), q); }
};

} // namespace
