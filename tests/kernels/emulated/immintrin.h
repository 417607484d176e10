// Stands before the compiler's <immintrin.h>: what the kernels use of AVX-512, AVX-VNNI and AMX, written in AVX2, so that any CPU with
// AVX2 and FMA runs avx512.cpp, avxvnni.cpp and amx.cpp. A register of 512 bits is two of 256. Operations have Intel's definitions.
#pragma once
#include_next <immintrin.h>
#include <stdlib.h>
#include <string.h>

namespace emulated {

struct Integers { __m256i a, b; };
struct Floats { __m256 a, b; };

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

inline Integers dpbusd(Integers s, Integers x, Integers y) { return { dpbusd(s.a, x.a, y.a), dpbusd(s.b, x.b, y.b) }; }
inline Integers dpwssd(Integers s, Integers x, Integers y) { return { dpwssd(s.a, x.a, y.a), dpwssd(s.b, x.b, y.b) }; }

inline Integers zero() { return { _mm256_setzero_si256(), _mm256_setzero_si256() }; }
inline Integers set_8(char v) { return { _mm256_set1_epi8(v), _mm256_set1_epi8(v) }; }
inline Integers set_16(short v) { return { _mm256_set1_epi16(v), _mm256_set1_epi16(v) }; }
inline Integers set_32(int v) { return { _mm256_set1_epi32(v), _mm256_set1_epi32(v) }; }
inline Integers load(const void * p) { return { _mm256_loadu_si256((const __m256i *) p), _mm256_loadu_si256((const __m256i *) p + 1) }; }
inline Integers repeat_128(__m128i v) { return { _mm256_broadcastsi128_si256(v), _mm256_broadcastsi128_si256(v) }; }
inline Integers add(Integers x, Integers y) { return { _mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b) }; }
inline Integers sub(Integers x, Integers y) { return { _mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b) }; }
inline Integers mullo(Integers x, Integers y) { return { _mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b) }; }
inline Integers either(Integers x, Integers y) { return { _mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b) }; }
inline Integers both(Integers x, Integers y) { return { _mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b) }; }
inline Integers left_16(Integers x, int n) { return { _mm256_slli_epi16(x.a, n), _mm256_slli_epi16(x.b, n) }; }
inline Integers right_16(Integers x, int n) { return { _mm256_srli_epi16(x.a, n), _mm256_srli_epi16(x.b, n) }; }
inline Integers left_32(Integers x, int n) { return { _mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n) }; }
inline Integers right_32(Integers x, int n) { return { _mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n) }; }
inline Integers shuffle(Integers x, Integers by) { return { _mm256_shuffle_epi8(x.a, by.a), _mm256_shuffle_epi8(x.b, by.b) }; }
inline Integers widen(__m256i v) { return { _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)) }; }
inline Integers widen_unsigned(__m256i v) { return { _mm256_cvtepu8_epi16(_mm256_castsi256_si128(v)), _mm256_cvtepu8_epi16(_mm256_extracti128_si256(v, 1)) }; }

inline Floats zeros() { return { _mm256_setzero_ps(), _mm256_setzero_ps() }; }
inline Floats set(float v) { return { _mm256_set1_ps(v), _mm256_set1_ps(v) }; }
inline Floats floats(Integers x) { return { _mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b) }; }
inline Floats from_halves(__m256i v) { return { _mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)) }; }
inline Integers widen_unsigned_16(__m256i v) { return { _mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)) }; }
inline Floats bits_of(Integers x) { return { _mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b) }; }
inline Floats load_floats(const void * p) { return bits_of(load(p)); }
inline Floats mul(Floats x, Floats y) { return { _mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b) }; }
inline Floats fma(Floats x, Floats y, Floats z) { return { _mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b) }; }
inline Floats fnma(Floats x, Floats y, Floats z) { return { _mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b) }; }
inline Floats add_floats(Floats x, Floats y) { return { _mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b) }; }
inline Floats sub_floats(Floats x, Floats y) { return { _mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b) }; }
inline Floats max(Floats x, Floats y) { return { _mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b) }; }
inline Floats min(Floats x, Floats y) { return { _mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b) }; }
inline Floats divide(Floats x, Floats y) { return { _mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b) }; }
inline Floats repeat_floats(__m128 v) { return { _mm256_set_m128(v, v), _mm256_set_m128(v, v) }; }
inline Floats low_pairs(Floats x, Floats y) { return { _mm256_unpacklo_ps(x.a, y.a), _mm256_unpacklo_ps(x.b, y.b) }; }
inline Floats high_pairs(Floats x, Floats y) { return { _mm256_unpackhi_ps(x.a, y.a), _mm256_unpackhi_ps(x.b, y.b) }; }
template <int N> inline Floats shuffle(Floats x, Floats y) { return { _mm256_shuffle_ps(x.a, y.a, N), _mm256_shuffle_ps(x.b, y.b, N) }; }
inline __m256 blend(int bits, __m256 x, __m256 y) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_blendv_ps(x, y, _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), bit), bit)));
}
inline Floats blend(unsigned bits, Floats x, Floats y) { return { blend((int) bits, x.a, y.a), blend((int) (bits >> 8), x.b, y.b) }; }
inline Integers integers_of(Floats x) { return { _mm256_castps_si256(x.a), _mm256_castps_si256(x.b) }; }
inline Integers sub_8(Integers x, Integers y) { return { _mm256_sub_epi8(x.a, y.a), _mm256_sub_epi8(x.b, y.b) }; }
inline Integers mullo_16(Integers x, Integers y) { return { _mm256_mullo_epi16(x.a, y.a), _mm256_mullo_epi16(x.b, y.b) }; }
inline Integers right_signed_16(Integers x, int n) { return { _mm256_srai_epi16(x.a, n), _mm256_srai_epi16(x.b, n) }; }
inline void store_integers(void * p, Integers x) { memcpy(p, &x, 64); }
inline Floats load_some(unsigned bits, const float * p) {
    alignas(32) float v[16] = {};
    for (int i = 0; i < 16; i++) if (bits >> i & 1) v[i] = p[i];
    return load_floats(v);
}
inline void store(float * p, Floats x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }

inline void store_some(float * p, unsigned bits, Floats x) {
    float v[16];
    store(v, x);
    for (int i = 0; i < 16; i++) if (bits >> i & 1) p[i] = v[i];
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

#define __m512i                emulated::Integers
#define __m512                 emulated::Floats
#define _mm256_dpbusd_avx_epi32 emulated::dpbusd
#define _mm256_dpwssd_avx_epi32 emulated::dpwssd
#define _mm512_dpbusd_epi32    emulated::dpbusd
#define _mm512_dpwssd_epi32    emulated::dpwssd
#define _mm512_setzero_si512   emulated::zero
#define _mm512_set1_epi8       emulated::set_8
#define _mm512_set1_epi16      emulated::set_16
#define _mm512_set1_epi32      emulated::set_32
#define _mm512_loadu_si512     emulated::load
#define _mm512_broadcast_i32x4 emulated::repeat_128
#define _mm512_add_epi32       emulated::add
#define _mm512_sub_epi32       emulated::sub
#define _mm512_mullo_epi32     emulated::mullo
#define _mm512_or_si512        emulated::either
#define _mm512_and_si512       emulated::both
#undef  _mm512_slli_epi16
#define _mm512_slli_epi16      emulated::left_16
#undef  _mm512_srli_epi16
#define _mm512_srli_epi16      emulated::right_16
#undef  _mm512_slli_epi32
#define _mm512_slli_epi32      emulated::left_32
#undef  _mm512_srai_epi32
#define _mm512_srai_epi32      emulated::right_32
#define _mm512_shuffle_epi8    emulated::shuffle
#define _mm512_cvtepi8_epi16   emulated::widen
#define _mm512_cvtepu8_epi16   emulated::widen_unsigned
#define _mm512_setzero_ps      emulated::zeros
#define _mm512_set1_ps         emulated::set
#define _mm512_cvtepi32_ps     emulated::floats
#define _mm512_cvtph_ps        emulated::from_halves
#define _mm512_mul_ps          emulated::mul
#define _mm512_fmadd_ps        emulated::fma
#define _mm512_fnmadd_ps       emulated::fnma
#define _mm512_storeu_ps       emulated::store
#define _mm512_cvtepu16_epi32  emulated::widen_unsigned_16
#define _mm512_castsi512_ps    emulated::bits_of
#define _mm512_loadu_ps        emulated::load_floats
#define _mm512_add_ps          emulated::add_floats
#define _mm512_sub_ps          emulated::sub_floats
#define _mm512_max_ps          emulated::max
#define _mm512_min_ps          emulated::min
#define _mm512_div_ps          emulated::divide
#define _mm512_broadcast_f32x4 emulated::repeat_floats
#define _mm512_unpacklo_ps     emulated::low_pairs
#define _mm512_unpackhi_ps     emulated::high_pairs
#undef  _mm512_shuffle_ps
#define _mm512_shuffle_ps(x, y, n) emulated::shuffle<n>(x, y)
#define _mm512_mask_blend_ps(m, x, y) emulated::blend((unsigned) (m), x, y)
#define _mm512_castps_si512    emulated::integers_of
#define _mm512_sub_epi8        emulated::sub_8
#define _mm512_mullo_epi16     emulated::mullo_16
#undef  _mm512_srai_epi16
#define _mm512_srai_epi16      emulated::right_signed_16
#define _mm512_storeu_si512    emulated::store_integers
#define _mm512_maskz_loadu_ps  emulated::load_some
#define _mm512_mask_storeu_ps  emulated::store_some
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
