// Registers of 32-bit lanes as the compiler's vectors: operators work on all lanes, and a number beside a vector stands in each of
// its lanes. What has no operator is a function of the width: Avx256 here, Avx512 in avx512.h.
#pragma once
#include "formats.h"
#include <immintrin.h>

#define INLINE_LAMBDA __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

namespace {

INLINE float float_at(const void * p) { float v; memcpy(&v, p, 4); return v; }

template <int N> struct Registers {
    static constexpr int LANES = N;
    typedef int32_t  I       __attribute__((vector_size(4*N)));
    typedef int16_t  I16     __attribute__((vector_size(4*N)));
    typedef uint16_t Bits16  __attribute__((vector_size(4*N)));
    typedef float    F       __attribute__((vector_size(4*N)));

    static INLINE I load(const void * p) { I a; memcpy(&a, p, sizeof a); return a; }
    static INLINE F load_floats(const void * p) { F a; memcpy(&a, p, sizeof a); return a; }
    template <class T> static INLINE void store(void * p, T a) { memcpy(p, &a, sizeof a); }
    static INLINE I broadcast(const void * p) { int32_t v; memcpy(&v, p, 4); return v + I{}; }
    static INLINE F splat(float v) { return v - F{}; }

    static INLINE I bits(I a, int mask) { return a & mask*0x01010101; }   // of each byte
    // Within 16-bit halves: left by S, right where S is negative. Bits from the neighbouring byte have to be masked out.
    template <int S> static INLINE I shift(I a) {
        if constexpr (S >= 0) return (I) ((Bits16) a << S);
        else return (I) ((Bits16) a >> -S);
    }

    // The second where one is no number.
    static INLINE F max(F a, F b) { return a > b ? a : b; }
    static INLINE F min(F a, F b) { return a < b ? a : b; }
    static INLINE F times_power(F a, F n) { return a*(F) (((I) n + 127) << 23); }   // a 2^n, where n is 1.5 2^23 + a whole number
};

// What the sets V with VNNI share: 32-bit sums, and one operation that adds products of pairs of 16 bits.
template <class R, class V> struct Vnni : R {
    using I = typename R::I;
    static constexpr bool WIDE = true;
    static constexpr int safe_operands(int bits) { return bits == 4 ? 4 : 8; }
    // The sum of 8 operands of 3 bits or 4 of 4 bits has 16 bits: one operation multiplies it by the scale and adds it.
    template <int BITS> static INLINE I add_scaled(I total, I sum, I scale) {
        if constexpr (BITS <= 4) return V::add_pairs(total, sum, scale & 0xFFFF);
        else return V::add(total, sum*scale);
    }
    // The low (0) or the high (1) half of each lane, widened.
    template <int H> static INLINE I lane_scale(I a) { return (H ? a : a << 16) >> 16; }
};

// What AVX2 and AVX-VNNI share.
struct Avx256 : Registers<8> {
    static constexpr int GROUP = 4, QUERIES_AT_ONCE = 3;
    static constexpr size_t AHEAD = 2048; // on Zen 3 20 to 30 % less time for 1 to 4 columns than without

    // GCC would keep many products and add them later, which takes more registers than there are.
    static INLINE I at_once(I a) { __asm__ volatile("" : "+x"(a)); return a; }
    static INLINE I add(I a, I b) { return at_once(a + b); }

    template <bool SIGNED> static INLINE I bytes_to_16(const void * p) {
        const __m128i a = _mm_loadu_si128((const __m128i *) p);
        return (I) (SIGNED ? _mm256_cvtepi8_epi16(a) : _mm256_cvtepu8_epi16(a));
    }
    static INLINE F floats(I a) { return _mm256_cvtepi32_ps((__m256i) a); }
    static INLINE F halves(const void * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
    static INLINE F bfloats(const void * p) { return (F) ((I) _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) p)) << 16); }
    static INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static INLINE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
    static INLINE F repeat_4(const float * p) { return _mm256_broadcast_ps((const __m128 *) p); }
    static INLINE F low_pairs(F a, F b) { return _mm256_unpacklo_ps(a, b); }
    static INLINE F high_pairs(F a, F b) { return _mm256_unpackhi_ps(a, b); }
    static INLINE F low_halves(F a, F b) { return _mm256_shuffle_ps(a, b, 0x44); }
    static INLINE F high_halves(F a, F b) { return _mm256_shuffle_ps(a, b, 0xEE); }
    static INLINE F where(unsigned bits, F a, F b) {
        const I bit = { 1, 2, 4, 8, 16, 32, 64, 128 };
        return ((int) bits & bit) != 0 ? a : b;
    }
    // Four halves of each of some cells, and the four behind them.
    static INLINE void four_halves(const char * p, size_t apart, float * first, float * second) {
        const __m128i a = _mm_loadu_si128((const __m128i *) p), b = _mm_loadu_si128((const __m128i *) (p + apart));
        store(first, _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)));
        store(second, _mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)));
    }
    static INLINE I look_up(I q) {
        return (I) _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) CODEBOOK)), (__m256i) q);
    }
};

} // namespace
