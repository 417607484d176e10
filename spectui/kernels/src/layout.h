// How weights and activations lie in memory.
//
// A tile is as many output rows as a register has 32-bit lanes (R: 8 or 16), over the whole of k, in the order in which the
// kernels read it. Four weights that follow each other in k are an operand: one 32-bit lane of a register whose lanes are the
// tile's rows. Codes are in planes of 1, 2, 4 or 8 bits, as in the file: word v of a plane of B bits holds the operands v*(8/B) ... at
// bit B*i, so that a register gives 8/B operands by shifts and masks.
//
//   small blocks:  [d: blocks x R halves] [m: the same, if any] to 64 bytes, then for each block [bits words x R]
//   super-blocks:  for each [scales: pairs of runs x R x 2 bytes] [mins: the same, if any] [d: R halves] [dmin: the same]
//                  to 32 bytes, then for each 32 weights [bits words x R]
//   floats:        for each column of weights [R floats, of the file's type]
//
// Activations are quantised as ggml does (Q8_0 for small blocks, Q8_K for super-blocks) and lie in groups of up to as many
// columns as the kernels keep in registers. A record is what a kernel reads of one block for the NC columns of its group:
//   small block:  [NC x 32 int8] [NC int32: minus their sum] [NC float: scale]
//   super-block:  [NC x 256 int8] [NC x 16 int16: sums of 16] [NC x 8 int16: sums of 32] [NC float: scale]
//   floats:       [NC x 8 float], not quantised
#pragma once
#include "formats.h"

namespace {

constexpr size_t up_to(size_t n, size_t multiple) { return (n + multiple - 1)/multiple*multiple; }

// Q2_K has scales and minima of 4 bits: both lie in one byte.
constexpr bool merged(const Format & f) { return f.run == 16 && f.mins; }

constexpr size_t words_bytes(const Format & f, int R) { return (size_t) f.bits()*R*4; }   // of 32 weights
constexpr size_t scales_bytes(const Format & f, int R) { return f.run ? (size_t) 256/f.run*R : 0; }
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
    for (int v = 0; v < f.bits(); v++) {
        const bool second = v >= f.low.bits;
        const int bits = second ? f.high.bits : f.low.bits, each = 8/bits, first = (second ? v - f.low.bits : v)*each;
        const int shift = second ? f.low.bits : f.left();
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
            read_block(f, rows + r*row_bytes + b*f.bytes, v);
            uint8_t * head = tile + (f.block == 32 ? 2*b*R : b*super_bytes(f, R)), * words = head + super_head(f, R);
            if (f.block == 32) words = tile + small_head(f, R, k) + b*words_bytes(f, R);
            for (int s = 0; f.run && s < 256/f.run; s++) {
                const size_t at = (s/2*R + r)*2 + s % 2;
                head[at] = merged(f) ? v.scale[s] | v.min[s] << 4 : v.scale[s];
                if (f.mins && !merged(f)) head[scales_bytes(f, R) + at] = v.min[s];
            }
            uint16_t * d = (uint16_t *) (head + scales_bytes(f, R)*(f.mins && !merged(f) ? 2 : 1));
            d[r] = v.d;
            if (f.mins) d[(f.block == 32 ? k/32 : 1)*R + r] = v.dmin;
            for (int g = 0; g < f.block/32; g++) pack_words<R, W>(v.q + 32*g, (uint32_t *) (words + g*words_bytes(f, R)), r);
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

} // namespace
