// Stands before the compiler's <immintrin.h>: what the kernels use of AVX-512, AVX-VNNI and AMX, written in AVX2, so that any CPU with
// AVX2 and FMA runs avx512.cpp, avxvnni.cpp and amx.cpp. A register of 512 bits is two of 256, of whose operators the compiler knows
// that by itself. Operations have Intel's definitions.
#pragma once
#include_next <immintrin.h>
#include <stdlib.h>
#include <string.h>

namespace emulated {

inline __m256 half(__m512 x, int i) { __m256 h; memcpy(&h, (const char *) &x + 32*i, 32); return h; }
inline __m256i half(__m512i x, int i) { __m256i h; memcpy(&h, (const char *) &x + 32*i, 32); return h; }
inline __m128i half(__m256i x, int i) { __m128i h; memcpy(&h, (const char *) &x + 16*i, 16); return h; }

// f of the first halves of x, and of the second ones.
template <class To, class F, class... X> inline To twice(F f, X... x) {
    To to;
    for (int i = 0; i < 2; i++) {
        const auto part = f(half(x, i)...);
        memcpy((char *) &to + 32*i, &part, 32);
    }
    return to;
}

// Four products of unsigned with signed bytes, added to each 32-bit lane.
inline __m256i dpbusd(__m256i sum, __m256i x, __m256i y) {
    for (int i = 0; i < 4; i++) {
        const __m256i of_x = _mm256_and_si256(_mm256_srli_epi32(x, 8*i), _mm256_set1_epi32(255));
        const __m256i of_y = _mm256_srai_epi32(_mm256_slli_epi32(y, 24 - 8*i), 24);
        sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(of_x, of_y));
    }
    return sum;
}
// Two products of signed 16-bit numbers, added to each 32-bit lane.
inline __m256i dpwssd(__m256i sum, __m256i x, __m256i y) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, y)); }

inline __m512 blend(unsigned bits, __m512 x, __m512 y) {
    for (int i = 0; i < 16; i++) if (bits >> i & 1) x[i] = y[i];
    return x;
}
inline __m512 load_some(unsigned bits, const float * p) {
    __m512 x = {};
    for (int i = 0; i < 16; i++) if (bits >> i & 1) x[i] = p[i];
    return x;
}
inline void store_some(float * p, unsigned bits, __m512 x) {
    for (int i = 0; i < 16; i++) if (bits >> i & 1) p[i] = x[i];
}

// Tile registers.
struct Tile { int rows = 0, bytes = 0; int8_t of[16][64] = {}; };
inline thread_local Tile tiles[8];
inline thread_local uint8_t configuration[64] = {};
inline void configure(const void * p) {
    memcpy(configuration, p, 64);
    for (int t = 0; t < 8; t++) { tiles[t].rows = configuration[48 + t]; tiles[t].bytes = configuration[16 + 2*t]; }
}
inline void tile_load(int t, const void * p, size_t apart) {
    for (int r = 0; r < tiles[t].rows; r++) memcpy(tiles[t].of[r], (const char *) p + r*apart, tiles[t].bytes);
}
inline void tile_store(int t, void * p, size_t apart) {
    for (int r = 0; r < tiles[t].rows; r++) memcpy((char *) p + r*apart, tiles[t].of[r], tiles[t].bytes);
}
inline void tile_dot(int to, int x, int y) {
    Tile & s = tiles[to], & a = tiles[x], & b = tiles[y];
    if (s.rows == 0 || s.rows != a.rows || s.bytes != b.bytes || a.bytes != 4*b.rows) abort();
    for (int r = 0; r < s.rows; r++)
        for (int c = 0; c < s.bytes/4; c++) {
            int32_t sum;
            memcpy(&sum, s.of[r] + 4*c, 4);
            for (int k = 0; k < a.bytes; k++) sum += a.of[r][k]*b.of[k/4][4*c + k % 4];
            memcpy(s.of[r] + 4*c, &sum, 4);
        }
}

} // namespace emulated

#define TWICE(TO, F, ...) emulated::twice<TO>([](auto... h) { return F(h...); }, __VA_ARGS__)
#define SHUFFLED(N) [](__m256 x, __m256 y) { return _mm256_shuffle_ps(x, y, N); }

#define _mm256_dpbusd_avx_epi32 emulated::dpbusd
#define _mm256_dpwssd_avx_epi32 emulated::dpwssd
#define _mm512_dpbusd_epi32(s, x, y)  TWICE(__m512i, emulated::dpbusd, s, x, y)
#define _mm512_dpwssd_epi32(s, x, y)  TWICE(__m512i, emulated::dpwssd, s, x, y)
#define _mm512_broadcast_i32x4(x)     ((__m512i) _mm512_broadcast_f32x4((__m128) (x)))
#define _mm512_shuffle_epi8(x, y)     TWICE(__m512i, _mm256_shuffle_epi8, x, y)
#define _mm512_cvtepi8_epi16(x)       TWICE(__m512i, _mm256_cvtepi8_epi16, x)
#define _mm512_cvtepu8_epi16(x)       TWICE(__m512i, _mm256_cvtepu8_epi16, x)
#define _mm512_cvtepu16_epi32(x)      TWICE(__m512i, _mm256_cvtepu16_epi32, x)
#define _mm512_cvtepi32_ps(x)         TWICE(__m512, _mm256_cvtepi32_ps, x)
#define _mm512_cvtph_ps(x)            TWICE(__m512, _mm256_cvtph_ps, x)
#define _mm512_fmadd_ps(x, y, z)      TWICE(__m512, _mm256_fmadd_ps, x, y, z)
#define _mm512_fnmadd_ps(x, y, z)     TWICE(__m512, _mm256_fnmadd_ps, x, y, z)
#define _mm512_broadcast_f32x4(x)     emulated::twice<__m512>([v = x] { return _mm256_set_m128(v, v); })
#define _mm512_unpacklo_ps(x, y)      TWICE(__m512, _mm256_unpacklo_ps, x, y)
#define _mm512_unpackhi_ps(x, y)      TWICE(__m512, _mm256_unpackhi_ps, x, y)
#undef  _mm512_shuffle_ps
#define _mm512_shuffle_ps(x, y, n)    emulated::twice<__m512>(SHUFFLED(n), x, y)
#define _mm512_mask_blend_ps          emulated::blend
#define _mm512_maskz_loadu_ps         emulated::load_some
#define _mm512_mask_storeu_ps         emulated::store_some
#define _tile_loadconfig       emulated::configure
#define _tile_storeconfig(p)   memcpy(p, emulated::configuration, 64)
#define _tile_release()        memset(emulated::configuration, 0, 64)
#undef  _tile_zero
#define _tile_zero(t)          memset(emulated::tiles[t].of, 0, sizeof emulated::tiles[t].of)
#undef  _tile_loadd
#define _tile_loadd            emulated::tile_load
#undef  _tile_stored
#define _tile_stored           emulated::tile_store
#undef  _tile_dpbssd
#define _tile_dpbssd           emulated::tile_dot
