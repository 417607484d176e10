// The weight formats of GGUF files that the kernels take, and how a block of each is read.
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
#include "ggml.h"
#include <string.h>

namespace {

struct Values {
    uint8_t  q[256];      // the weights' codes, unsigned
    int8_t   scale[16];   // s of each run
    uint8_t  min[16];     // m of each run
    uint16_t d, dmin;     // halves; dmin is m of a small block
};

struct Format {
    int  type;            // ggml's number
    int  block;           // weights a block
    int  bytes;           // of a block in the file
    int  run;             // weights an integer scale, 0: none
    int  low, high;       // bits of a code in the first and in the second plane (layout.h)
    int  offset;          // subtracted from each code
    bool mins;            // has m
    bool codebook;        // a code is an index into CODEBOOK
    constexpr int bits() const { return low + high; }
    constexpr bool floats() const { return bits() == 0; }
    // A code of one bit is 0 or 2, so that less the offset it is -1 or 1.
    constexpr int left() const { return bits() == 1; }
};

// w + 128 of the 4-bit codebook of IQ4_NL and IQ4_XS.
constexpr uint8_t CODEBOOK[16] = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241 };

constexpr int SIGNS = 1 << 16;

constexpr Format FORMATS[] = {
    // type       block bytes run low high offset mins   codebook
    { TYPE_Q8_0,   32,  34,   0,  8,  0,  128, false, false },
    { TYPE_Q4_0,   32,  18,   0,  4,  0,    8, false, false },
    { TYPE_Q4_1,   32,  20,   0,  4,  0,    0, true,  false },
    { TYPE_Q5_0,   32,  22,   0,  4,  1,   16, false, false },
    { TYPE_Q5_1,   32,  24,   0,  4,  1,    0, true,  false },
    { TYPE_IQ4_NL, 32,  18,   0,  4,  0,  128, false, true },
    { SIGNS,       32,   6,   0,  1,  0,    1, false, false },
    { TYPE_Q2_K,  256,  84,  16,  2,  0,    0, true,  false },
    { TYPE_Q3_K,  256, 110,  16,  2,  1,    4, false, false },
    { TYPE_Q4_K,  256, 144,  32,  4,  0,    0, true,  false },
    { TYPE_Q5_K,  256, 176,  32,  4,  1,    0, true,  false },
    { TYPE_Q6_K,  256, 210,  16,  4,  2,   32, false, false },
    { TYPE_IQ4_XS, 256, 136, 32,  4,  0,  128, false, true },
    { TYPE_F32,     8,  32,   0,  0,  0,    0, false, false },
    { TYPE_F16,     8,  16,   0,  0,  0,    0, false, false },
    { TYPE_BF16,    8,  16,   0,  0,  0,    0, false, false },
};
constexpr int N_FORMATS = sizeof(FORMATS)/sizeof(FORMATS[0]);

// The index of a type in FORMATS, or -1.
constexpr int format_of(int type) {
    for (int i = 0; i < N_FORMATS; i++) if (FORMATS[i].type == type) return i;
    return -1;
}

inline uint16_t half_at(const uint8_t * p) { uint16_t v; memcpy(&v, p, 2); return v; }

// Weight i is the low half of byte i, weight i + 16 the high one.
inline void read_nibbles_32(const uint8_t * p, uint8_t * q) {
    for (int i = 0; i < 16; i++) { q[i] = p[i] & 15; q[i + 16] = p[i] >> 4; }
}

inline void read_fifth_bits_32(const uint8_t * p, uint8_t * q) {
    uint32_t bits; memcpy(&bits, p, 4);
    for (int i = 0; i < 32; i++) q[i] |= (bits >> i & 1) << 4;
}

// Q4_K, Q5_K: eight 6-bit scales and minima in 12 bytes.
inline void read_scales_k4(const uint8_t * p, Values & v) {
    for (int i = 0; i < 4; i++) {
        v.scale[i] = p[i] & 63;
        v.min[i]   = p[i + 4] & 63;
        v.scale[i + 4] = (p[i + 8] & 15) | (p[i] >> 6) << 4;
        v.min[i + 4]   = (p[i + 8] >> 4) | (p[i + 4] >> 6) << 4;
    }
}

// Four runs of 32 two-bit codes share 32 bytes.
inline void read_pairs_256(const uint8_t * p, uint8_t * q) {
    for (int h = 0; h < 2; h++)
        for (int s = 0; s < 4; s++)
            for (int i = 0; i < 32; i++) q[128*h + 32*s + i] = p[32*h + i] >> 2*s & 3;
}

// Two runs of 32 nibbles share 32 bytes.
inline void read_nibbles_256(const uint8_t * p, uint8_t * q) {
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < 32; i++) { q[64*s + i] = p[32*s + i] & 15; q[64*s + 32 + i] = p[32*s + i] >> 4; }
}

inline void read_block(int type, const uint8_t * p, Values & v) {
    switch (type) {
    case TYPE_Q8_0:
        v.d = half_at(p);
        for (int i = 0; i < 32; i++) v.q[i] = p[2 + i] ^ 0x80;
        break;
    case TYPE_Q4_0: case TYPE_IQ4_NL:
        v.d = half_at(p);
        read_nibbles_32(p + 2, v.q);
        break;
    case TYPE_Q4_1:
        v.d = half_at(p); v.dmin = half_at(p + 2);
        read_nibbles_32(p + 4, v.q);
        break;
    case TYPE_Q5_0:
        v.d = half_at(p);
        read_nibbles_32(p + 6, v.q); read_fifth_bits_32(p + 2, v.q);
        break;
    case TYPE_Q5_1:
        v.d = half_at(p); v.dmin = half_at(p + 2);
        read_nibbles_32(p + 8, v.q); read_fifth_bits_32(p + 4, v.q);
        break;
    case SIGNS:
        v.d = half_at(p);
        for (int i = 0; i < 32; i++) v.q[i] = (p[2 + i/8] >> i % 8 & 1) << 1;
        break;
    case TYPE_Q2_K:
        for (int i = 0; i < 16; i++) { v.scale[i] = p[i] & 15; v.min[i] = p[i] >> 4; }
        read_pairs_256(p + 16, v.q);
        v.d = half_at(p + 80); v.dmin = half_at(p + 82);
        break;
    case TYPE_Q3_K:
        read_pairs_256(p + 32, v.q);
        for (int s = 0; s < 8; s++)
            for (int i = 0; i < 32; i++) v.q[32*s + i] |= (p[i] >> s & 1) << 2;
        for (int i = 0; i < 16; i++)   // the low four bits in nibbles, the high two in the last four bytes
            v.scale[i] = (int8_t) (((p[96 + i % 8] >> 4*(i/8) & 15) | (p[104 + i % 4] >> 2*(i/4) & 3) << 4) - 32);
        v.d = half_at(p + 108);
        break;
    case TYPE_Q4_K:
        v.d = half_at(p); v.dmin = half_at(p + 2);
        read_scales_k4(p + 4, v);
        read_nibbles_256(p + 16, v.q);
        break;
    case TYPE_Q5_K:
        v.d = half_at(p); v.dmin = half_at(p + 2);
        read_scales_k4(p + 4, v);
        read_nibbles_256(p + 48, v.q);
        for (int s = 0; s < 8; s++)
            for (int i = 0; i < 32; i++) v.q[32*s + i] |= (p[16 + i] >> s & 1) << 4;
        break;
    case TYPE_Q6_K:
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 32; i++) {
                const uint8_t * low = p + 64*h, bits = p[128 + 32*h + i];
                uint8_t * q = v.q + 128*h + i;
                q[0]  = (low[i] & 15)      | (bits & 3) << 4;
                q[32] = (low[i + 32] & 15) | (bits >> 2 & 3) << 4;
                q[64] = low[i] >> 4        | (bits >> 4 & 3) << 4;
                q[96] = low[i + 32] >> 4   | (bits >> 6) << 4;
            }
        memcpy(v.scale, p + 192, 16);
        v.d = half_at(p + 208);
        break;
    case TYPE_IQ4_XS:
        v.d = half_at(p);
        for (int s = 0; s < 8; s++) {
            v.scale[s] = (int8_t) (((p[4 + s/2] >> 4*(s % 2) & 15) | (half_at(p + 2) >> 2*s & 3) << 4) - 32);
            read_nibbles_32(p + 8 + 16*s, v.q + 32*s);
        }
        break;
    }
}

} // namespace
