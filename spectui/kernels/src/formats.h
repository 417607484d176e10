// The weight formats of GGUF files that the kernels multiply, and how a block of each is read.
//
// A block becomes plain numbers first (`Values`); layout.h writes these into tiles, so that a format is told here alone.
// SIGNS is no type of files: signs.h makes it of the others.
// Three families:
//   small blocks, 32 weights with a scale d:       w = d (q - offset)  or  w = d q + m
//   super-blocks, 256 weights in runs of 16 or 32: w = d s (q - offset)  or  w = d s q - dmin m, with small integers s and m a run
//   floats, eight of which count as a block:       as they are, times activations as they are: a mixture's router, a hybrid's gates
// Every file that includes this is compiled for another instruction set: all here has internal linkage, so that the
// linker cannot merge code of one set into another.
#pragma once
#include "ggml_abi.h"
#include <string.h>

#define INLINE inline __attribute__((always_inline))

namespace {

struct Values {
    uint8_t  q[256];      // the weights' codes, unsigned
    int8_t   scale[16];   // s of each run
    uint8_t  min[16];     // m of each run
    uint16_t d, dmin;     // halves; dmin is m of a small block
};

// Some bits of all codes of a block: those of code i and code i + apart are beside each other in a byte.
struct Plane { int bits, at, apart; };

struct Format {
    int   type;           // ggml's number
    int   block;          // weights a block
    int   bytes;          // of a block in the file
    int   run;            // weights an integer scale, 0: none
    Plane low, high;      // where the file has the codes; the tiles have the same planes (layout.h)
    int   offset;         // subtracted from each code
    bool  mins;           // has m
    bool  codebook;       // a code is an index into CODEBOOK
    int   d, dmin;        // where they are
    constexpr int bits() const { return low.bits + high.bits; }
    constexpr bool floats() const { return bits() == 0; }
    // A code of one bit is 0 or 2, so that less the offset it is -1 or 1.
    constexpr int left() const { return bits() == 1; }
};

// w + 128 of the 4-bit codebook of IQ4_NL and IQ4_XS.
constexpr uint8_t CODEBOOK[16] = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241 };

constexpr int SIGNS = 1 << 16;

constexpr Format FORMATS[] = {
    // type            block bytes run  low           high         offset mins codebook d dmin
    { GGML_TYPE_Q8_0,   32,  34,   0, { 8,  2, 32 }, { 0, 0,  0 }, 128, false, false,   0,  0 },
    { GGML_TYPE_Q4_0,   32,  18,   0, { 4,  2, 16 }, { 0, 0,  0 },   8, false, false,   0,  0 },
    { GGML_TYPE_Q4_1,   32,  20,   0, { 4,  4, 16 }, { 0, 0,  0 },   0, true,  false,   0,  2 },
    { GGML_TYPE_Q5_0,   32,  22,   0, { 4,  6, 16 }, { 1, 2,  1 },  16, false, false,   0,  0 },
    { GGML_TYPE_Q5_1,   32,  24,   0, { 4,  8, 16 }, { 1, 4,  1 },   0, true,  false,   0,  2 },
    { GGML_TYPE_IQ4_NL, 32,  18,   0, { 4,  2, 16 }, { 0, 0,  0 }, 128, false, true,    0,  0 },
    { SIGNS,            32,   6,   0, { 1,  2,  1 }, { 0, 0,  0 },   1, false, false,   0,  0 },
    { GGML_TYPE_Q2_K,  256,  84,  16, { 2, 16, 32 }, { 0, 0,  0 },   0, true,  false,  80, 82 },
    { GGML_TYPE_Q3_K,  256, 110,  16, { 2, 32, 32 }, { 1, 0, 32 },   4, false, false, 108,  0 },
    { GGML_TYPE_Q4_K,  256, 144,  32, { 4, 16, 32 }, { 0, 0,  0 },   0, true,  false,   0,  2 },
    { GGML_TYPE_Q5_K,  256, 176,  32, { 4, 48, 32 }, { 1, 16, 32 },  0, true,  false,   0,  2 },
    { GGML_TYPE_Q6_K,  256, 210,  16, { 4,  0, 64 }, { 2, 128, 32 }, 32, false, false, 208, 0 },
    { GGML_TYPE_IQ4_XS, 256, 136, 32, { 4,  8, 16 }, { 0, 0,  0 }, 128, false, true,    0,  0 },
    { GGML_TYPE_F32,     8,  32,   0, { 0,  0,  0 }, { 0, 0,  0 },   0, false, false,   0,  0 },
    { GGML_TYPE_F16,     8,  16,   0, { 0,  0,  0 }, { 0, 0,  0 },   0, false, false,   0,  0 },
    { GGML_TYPE_BF16,    8,  16,   0, { 0,  0,  0 }, { 0, 0,  0 },   0, false, false,   0,  0 },
};
constexpr int N_FORMATS = sizeof(FORMATS)/sizeof(FORMATS[0]);

// The index of a type in FORMATS, or -1.
constexpr int format_of(int type) {
    for (int i = 0; i < N_FORMATS; i++) if (FORMATS[i].type == type) return i;
    return -1;
}

inline uint16_t half_at(const uint8_t * p) { uint16_t v; memcpy(&v, p, 2); return v; }

INLINE void read_plane(const Plane & plane, int weights, const uint8_t * block, int left, uint8_t * q) {
    const uint8_t * bytes = block + plane.at;
    for (int i = 0; i < weights; bytes += plane.apart)
        for (int shift = 0; shift < 8; shift += plane.bits)
            for (int j = 0; j < plane.apart; j++, i++) q[i] |= (bytes[j] >> shift & ((1 << plane.bits) - 1)) << left;
}

// s and m of a super-block's runs.
INLINE void read_scales(int type, const uint8_t * p, Values & v) {
    switch (type) {
    case GGML_TYPE_Q2_K:
        for (int i = 0; i < 16; i++) { v.scale[i] = p[i] & 15; v.min[i] = p[i] >> 4; }
        break;
    case GGML_TYPE_Q3_K:   // the low four bits in nibbles, the high two in the last four bytes
        for (int i = 0; i < 16; i++)
            v.scale[i] = (int8_t) (((p[96 + i % 8] >> 4*(i/8) & 15) | (p[104 + i % 4] >> 2*(i/4) & 3) << 4) - 32);
        break;
    case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K:   // six bits each
        for (int i = 0; i < 4; i++) {
            v.scale[i] = p[4 + i] & 63;
            v.min[i]   = p[8 + i] & 63;
            v.scale[i + 4] = (p[12 + i] & 15) | (p[4 + i] >> 6) << 4;
            v.min[i + 4]   = (p[12 + i] >> 4) | (p[8 + i] >> 6) << 4;
        }
        break;
    case GGML_TYPE_Q6_K:
        memcpy(v.scale, p + 192, 16);
        break;
    case GGML_TYPE_IQ4_XS:
        for (int s = 0; s < 8; s++) v.scale[s] = (int8_t) (((p[4 + s/2] >> 4*(s % 2) & 15) | (half_at(p + 2) >> 2*s & 3) << 4) - 32);
        break;
    }
}

INLINE void read_block(const Format & f, const uint8_t * p, Values & v) {
    memset(v.q, 0, f.block);
    read_plane(f.low, f.block, p, f.left(), v.q);
    if (f.high.bits) read_plane(f.high, f.block, p, f.low.bits, v.q);
    if (f.low.bits == 8) for (uint8_t & q : v.q) q ^= 0x80;
    read_scales(f.type, p, v);
    v.d = half_at(p + f.d);
    if (f.mins) v.dmin = half_at(p + f.dmin);
}

} // namespace
