// AVX-512 VNNI: registers of 512 bits, 32 of them (Intel servers since Ice Lake, AMD since Zen 4).
//
// As AVX-VNNI, with 16 rows a tile and 8 columns at once.
#pragma once
#include "kernels.h"

namespace {

struct Avx512 {
    using I = __m512i;
    using F = __m512;
    static constexpr int LANES = 16, GROUP = 8, TILE_ROWS = 6;
    static constexpr bool WIDE = true;
    static constexpr size_t AHEAD = 8192; // on an Emerald Rapids Xeon 10 to 24 % less for one column of Q4_K than with 2048
    static constexpr int steps(int bits) { return bits == 4 ? 4 : 8; }

    static INLINE I zero() { return _mm512_setzero_si512(); }
    static INLINE I load(const void * p) { return _mm512_loadu_si512(p); }
    static INLINE I broadcast(const void * p) { int v; memcpy(&v, p, 4); return _mm512_set1_epi32(v); }
    static INLINE I add(I a, I b) { return _mm512_add_epi32(a, b); }
    static INLINE I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
    static INLINE I either(I a, I b) { return _mm512_or_si512(a, b); }
    static INLINE I bits(I a, int mask) { return _mm512_and_si512(a, _mm512_set1_epi8((char) mask)); }
    static INLINE I bits_16(I a, int mask) { return _mm512_and_si512(a, _mm512_set1_epi16((short) mask)); }
    template <int N> static INLINE I shift(I a) {
        if constexpr (N > 0) return _mm512_slli_epi16(a, N);
        else if constexpr (N < 0) return _mm512_srli_epi16(a, -N);
        else return a;
    }
    template <int N> static INLINE I shift_32(I a) { return _mm512_slli_epi32(a, N); }
    template <bool SIGNED> static INLINE I bytes_to_16(const void * p) {
        const __m256i a = _mm256_loadu_si256((const __m256i *) p);
        return SIGNED ? _mm512_cvtepi8_epi16(a) : _mm512_cvtepu8_epi16(a);
    }
    // The sum of 8 operands of 3 bits or 4 of 4 bits has 16 bits: one operation multiplies it by the scale and adds it.
    template <int BITS> static INLINE I add_scaled(I total, I sum, I scale) {
        if constexpr (BITS <= 4) return add_pairs(total, sum, _mm512_and_si512(scale, _mm512_set1_epi32(0xFFFF)));
        else return add(total, _mm512_mullo_epi32(sum, scale));
    }
    template <int H> static INLINE I lane_scale(I a) { return _mm512_srai_epi32(H ? a : _mm512_slli_epi32(a, 16), 16); }

    static INLINE F floats_zero() { return _mm512_setzero_ps(); }
    static INLINE F set(float v) { return _mm512_set1_ps(v); }
    static INLINE F floats(I a) { return _mm512_cvtepi32_ps(a); }
    static INLINE F halves(const void * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
    template <int TYPE> static INLINE F floats_of(const void * p) {
        if constexpr (TYPE == TYPE_F32) return _mm512_loadu_ps(p);
        else if constexpr (TYPE == TYPE_F16) return halves(p);
        else return _mm512_castsi512_ps(shift_32<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) p))));
    }
    static INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
    static INLINE void store(float * p, F a) { _mm512_storeu_ps(p, a); }

    static INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
    static INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
    static INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
    static INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
    static INLINE F divide(F a, F b) { return _mm512_div_ps(a, b); }
    static INLINE F load_floats(const float * p) { return _mm512_loadu_ps(p); }
    static INLINE F repeat_4(const float * p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
    static INLINE F low_pairs(F a, F b) { return _mm512_unpacklo_ps(a, b); }
    static INLINE F high_pairs(F a, F b) { return _mm512_unpackhi_ps(a, b); }
    static INLINE F low_halves(F a, F b) { return _mm512_shuffle_ps(a, b, 0x44); }
    static INLINE F high_halves(F a, F b) { return _mm512_shuffle_ps(a, b, 0xEE); }
    static INLINE F where(unsigned bits, F a, F b) { return _mm512_mask_blend_ps((__mmask16) bits, b, a); }
    static INLINE F times_power(F a, F n) {
        return mul(a, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(n), _mm512_set1_epi32(127)), 23)));
    }
    // Four halves of each of some cells, and the four behind them.
    static INLINE void four_halves(const char * p, size_t apart, float * first, float * second) {
        const __m256i a = _mm256_loadu2_m128i((const __m128i *) (p + 2*apart), (const __m128i *) p);
        const __m256i b = _mm256_loadu2_m128i((const __m128i *) (p + 3*apart), (const __m128i *) (p + apart));
        store(first, _mm512_cvtph_ps(_mm256_unpacklo_epi64(a, b)));
        store(second, _mm512_cvtph_ps(_mm256_unpackhi_epi64(a, b)));
    }

    static INLINE I dot(I sum, I codes, I x) { return _mm512_dpbusd_epi32(sum, codes, x); }
    static INLINE I add_pairs(I sum, I a, I b) { return _mm512_dpwssd_epi32(sum, a, b); }
    static INLINE I look_up(I q) {
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) CODEBOOK)), q);
    }
};

} // namespace
