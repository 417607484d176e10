// The matrix products: one tile of R rows times one group of NC columns.
//
// Written once for all instruction sets: a set V (avx2.cpp, avxvnni.cpp, avx512.cpp) gives the register types and some twenty
// operations. For an output element the order of all operations depends on the format and on V alone, never on NC or on the
// number of columns: a pass over one token computes the same bits as a pass over sixty.
//
// Registers: small blocks have an integer and a float sum a column, and V::GROUP is the largest NC of which these and the operands fit
// (16 registers: 4, 32: 8). Super-blocks have three integer sums a column: with NC = V::GROUP the compiler keeps the float sums and a
// few others on the stack, and 2 to 6 % of the inner loop's instructions fetch them.
//
// Integer sums. V::dot multiplies unsigned codes with signed activations and adds four neighbours. With VNNI it adds to 32-bit
// lanes. With AVX2 it adds to pairs of 16-bit lanes, which hold V::safe_operands(bits) products safely: 127 x 2 x (2^bits - 1) each;
// then they are widened. Codes of 8 bits do not fit even once, and become two nibbles.
#pragma once
#include "quantise.h"
#include "set.h"
#include <utility>

namespace {

template <int N> struct Constant { static constexpr int value = N; constexpr operator int() const { return N; } };

template <class F, int... I> INLINE void unrolled(F && f, std::integer_sequence<int, I...>) { (f(Constant<I>()), ...); }

// f(0), f(1) ... f(N - 1), each with its number as a compile-time constant.
template <int N, class F> INLINE void repeat(F && f) { unrolled(f, std::make_integer_sequence<int, N>()); }

// Operand J of the 32 weights whose words begin at w: its codes, from one plane or two.
template <class V, int W, int J> INLINE typename V::I codes(const uint8_t * w) {
    constexpr Format f = FORMATS[W];
    constexpr int low = f.low.bits, high = f.high.bits, each = 8/low, word = V::LANES*4;
    typename V::I q = V::load(w + J/each*word);
    if constexpr (low < 8) q = V::bits(V::template shift<f.left() - low*(J % each)>(q), ((1 << low) - 1) << f.left());
    if constexpr (high > 0) {
        constexpr int of_high = 8/high;
        const typename V::I h = V::load(w + (low + J/of_high)*word);
        q |= V::bits(V::template shift<low - high*(J % of_high)>(h), ((1 << high) - 1) << low);
    }
    if constexpr (f.codebook) q = V::look_up(q);
    return q;
}

// Codes of 8 bits, which V may have to multiply as two nibbles.
constexpr bool eight_bits(const Format & f) { return f.codebook || f.bits() == 8; }
template <class V, int W> constexpr bool split() { return !V::WIDE && eight_bits(FORMATS[W]); }

// Add operands J0 ... J0 + COUNT of 32 weights times each column's activations to the lanes of V::dot. Where codes are split, sum
// is that of their low nibbles and high that of their high ones.
template <class V, int W, int NC, int J0, int COUNT, int STRIDE>
INLINE void dots(const uint8_t * w, const uint8_t * x, typename V::I (&sum)[NC], typename V::I (&high)[NC]) {
    repeat<COUNT>([&](auto i) INLINE_LAMBDA {
        constexpr int j = J0 + i;
        const typename V::I q = codes<V, W, j>(w);
        if constexpr (split<V, W>()) {
            const typename V::I l = V::bits(q, 15), h = V::bits(V::template shift<-4>(q), 15);
            UNROLL for (int c = 0; c < NC; c++) {
                const typename V::I a = V::broadcast(x + STRIDE*c + 4*j);
                sum[c] = V::dot(sum[c], l, a);
                high[c] = V::dot(high[c], h, a);
            }
        } else {
            UNROLL for (int c = 0; c < NC; c++) sum[c] = V::dot(sum[c], q, V::broadcast(x + STRIDE*c + 4*j));
        }
    });
}

// Ask for what follows V::AHEAD bytes later, so that memory is read while this part is computed: the CPU by itself does not look
// far enough, above all past a page's end.
template <class V> INLINE void fetch(const uint8_t * p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *) p + V::AHEAD + i, _MM_HINT_T1);
}

// sum over blocks of (d dx) (q - offset) x, and of m dx (sum of x)
template <class V, int W, int NC> void small_tile(const uint8_t * tile, int64_t k, const uint8_t * x, typename V::F (&acc)[NC]) {
    using I = typename V::I;
    constexpr Format f = FORMATS[W];
    constexpr int safe = V::safe_operands(eight_bits(f) ? 4 : f.bits()), R = V::LANES;
    const uint8_t * d = tile, * w = tile + small_head(f, R, k);
    for (int64_t b = 0; b < k/32; b++, d += 2*R, w += words_bytes(f, R), x += record_bytes(32)*NC) {
        I total[NC];
        fetch<V>(w, words_bytes(f, R));
        if constexpr (V::WIDE) {
            UNROLL for (int c = 0; c < NC; c++) total[c] = I{};
            dots<V, W, NC, 0, 8, 32>(w, x, total, total);
        } else repeat<8/safe>([&](auto part) INLINE_LAMBDA {
            I sum[NC], high[NC];
            UNROLL for (int c = 0; c < NC; c++) sum[c] = high[c] = I{};
            dots<V, W, NC, part*safe, safe, 32>(w, x, sum, high);
            UNROLL for (int c = 0; c < NC; c++) {
                if constexpr (part == 0) total[c] = V::scaled(sum[c], I{} + 0x00010001);
                else total[c] = V::add(total[c], V::scaled(sum[c], I{} + 0x00010001));
                if constexpr (split<V, W>()) total[c] = V::add(total[c], V::scaled(high[c], I{} + 0x00100010));
            }
        });
        const typename V::F scale = V::halves(d);
        UNROLL for (int c = 0; c < NC; c++) {
            if constexpr (f.offset) total[c] = V::add(total[c], f.offset*V::broadcast(x + 32*NC + 4*c));
            const float dx = float_at(x + 36*NC + 4*c);
            acc[c] = V::fma(scale*dx, V::floats(total[c]), acc[c]);
            if constexpr (f.mins) acc[c] = V::fnma(V::halves(d + k/32*R*2)*dx, V::floats(V::broadcast(x + 32*NC + 4*c)), acc[c]);
        }
    }
}

// s and m of a super-block's runs 2p and 2p + 1, a half of each lane; s for m where there is none.
template <class V, int W> INLINE void read_scales(const uint8_t * block, int p, typename V::I & scales, typename V::I & mins) {
    constexpr Format f = FORMATS[W];
    scales = mins = V::template bytes_to_16<!merged(f)>(block + p*2*V::LANES);
    if constexpr (merged(f)) { mins = V::template shift<-4>(scales); scales &= 0x000F000F; }
    else if constexpr (f.mins) mins = V::template bytes_to_16<true>(block + scales_bytes(f, V::LANES) + p*2*V::LANES);
}

// sum over super-blocks of d dx (sum over runs of s (q - offset) x), minus dmin dx (sum over runs of m (sum of x))
template <class V, int W, int NC> void super_tile(const uint8_t * tile, int64_t k, const uint8_t * x, typename V::F (&acc)[NC]) {
    using I = typename V::I;
    constexpr Format f = FORMATS[W];
    constexpr int R = V::LANES, operands = f.run/4, bits = split<V, W>() ? 4 : eight_bits(f) ? 8 : f.bits();
    constexpr int most = V::safe_operands(bits), safe = most < operands ? most : operands;
    constexpr size_t words = words_bytes(f, R);
    for (int64_t b = 0; b < k/256; b++, tile += super_bytes(f, R), x += record_bytes(256)*NC) {
        const uint8_t * w = tile + super_head(f, R);
        I total[NC], sums[NC];                                               // of s q x; of m or s times the sums of x
        UNROLL for (int c = 0; c < NC; c++) total[c] = sums[c] = I{};
        for (int p = 0; p < 128/f.run; p++, w += f.run/16*words) {           // two runs
            fetch<V>(w, f.run/16*words);
            I scales, mins;
            read_scales<V, W>(tile, p, scales, mins);
            repeat<2>([&](auto h) INLINE_LAMBDA {
                constexpr int first = f.run == 16 ? 4*h : 0;
                const uint8_t * ws = w + (f.run == 16 ? 0 : h*words), * xs = x + 2*f.run*p + (f.run == 16 ? 0 : 32*h);
                const I scale = V::template lane_scale<h>(scales);
                repeat<operands/safe>([&](auto part) INLINE_LAMBDA {
                    I sum[NC], high[NC];
                    UNROLL for (int c = 0; c < NC; c++) sum[c] = high[c] = I{};
                    dots<V, W, NC, first + part*safe, safe, 256>(ws, xs, sum, high);
                    UNROLL for (int c = 0; c < NC; c++) {
                        total[c] = V::template add_scaled<bits>(total[c], sum[c], scale);
                        if constexpr (split<V, W>()) total[c] = V::template add_scaled<bits>(total[c], high[c], V::template shift<4>(scale));
                    }
                });
            });
            if constexpr (f.mins || f.offset) UNROLL for (int c = 0; c < NC; c++) {
                const uint8_t * pair = f.run == 16 ? x + 256*NC + 32*c + 4*p : x + 288*NC + 16*c + 4*p;
                sums[c] = V::add_pairs(sums[c], mins, V::broadcast(pair));
            }
        }
        const uint8_t * d = tile + scales_bytes(f, R)*(f.mins && !merged(f) ? 2 : 1);
        UNROLL for (int c = 0; c < NC; c++) {
            const float dx = float_at(x + 304*NC + 4*c);
            if constexpr (f.offset) total[c] -= f.offset*sums[c];
            acc[c] = V::fma(V::halves(d)*dx, V::floats(total[c]), acc[c]);
            if constexpr (f.mins) acc[c] = V::fnma(V::halves(d + 2*R)*dx, V::floats(sums[c]), acc[c]);
        }
    }
}

// A register of floats of this type of weights.
template <class V, int TYPE> INLINE typename V::F read_floats(const uint8_t * p) {
    if constexpr (TYPE == GGML_TYPE_F32) return V::load_floats((const float *) p);
    else if constexpr (TYPE == GGML_TYPE_F16) return V::halves(p);
    else return V::bfloats(p);
}

// sum over weights of w x: the even ones in one sum, the odd ones in another, so that one waits half as long for the last addition
template <class V, int W, int NC> void float_tile(const uint8_t * tile, int64_t k, const uint8_t * x, typename V::F (&acc)[NC]) {
    using F = typename V::F;
    constexpr size_t column = FORMATS[W].bytes/8*V::LANES;
    F odd[NC];
    UNROLL for (int c = 0; c < NC; c++) odd[c] = F{};
    for (int64_t b = 0; b < k/8; b++, tile += 8*column, x += record_bytes(8)*NC) {
        fetch<V>(tile, 8*column);
        repeat<8>([&](auto i) INLINE_LAMBDA {
            const F w = read_floats<V, FORMATS[W].type>(tile + i*column);
            F (&sum)[NC] = i % 2 ? odd : acc;
            UNROLL for (int c = 0; c < NC; c++) sum[c] = V::fma(w, V::splat(float_at(x + 32*c + 4*i)), sum[c]);
        });
    }
    UNROLL for (int c = 0; c < NC; c++) acc[c] += odd[c];
}

// Rows [row, row + rows) of the columns' outputs, or what a part of k adds to them. `rows`: as many as the tile has, fewer at a
// matrix's end.
template <class V, int W, int NC>
void tile_times_group(const uint8_t * tile, int64_t k, const uint8_t * x, float * const * out, int64_t row, int rows, bool adds) {
    typename V::F acc[NC];
    UNROLL for (int c = 0; c < NC; c++) {
        if (!adds) { acc[c] = typename V::F{}; continue; }
        if (rows == V::LANES) { acc[c] = V::load_floats(out[c] + row); continue; }
        float rest[V::LANES] = {};
        memcpy(rest, out[c] + row, 4*rows);
        acc[c] = V::load_floats(rest);
    }
    if constexpr (FORMATS[W].floats()) float_tile<V, W, NC>(tile, k, x, acc);
    else if constexpr (FORMATS[W].block == 32) small_tile<V, W, NC>(tile, k, x, acc);
    else super_tile<V, W, NC>(tile, k, x, acc);
    UNROLL for (int c = 0; c < NC; c++) {
        if (rows == V::LANES) { V::store(out[c] + row, acc[c]); continue; }
        float rest[V::LANES];
        V::store(rest, acc[c]);
        memcpy(out[c] + row, rest, 4*rows);
    }
}

// ---------------------------------------------------------------- the functions of KernelSet

// f(Constant<format>()), so that what it calls is compiled for each format.
template <class F> INLINE void with_format(int format, F && f) {
    repeat<N_FORMATS>([&](auto W) INLINE_LAMBDA { if (format == W) f(W); });
}

template <class V>
void pack(int format, int64_t k, int64_t rows, const uint8_t * data, uint8_t * packed, int64_t first, int64_t last) {
    const size_t row_bytes = (size_t) k/FORMATS[format].block*FORMATS[format].bytes;
    for (int64_t i = first; i < last; i++) {
        const int64_t row = i*V::LANES, n = rows - row < V::LANES ? rows - row : V::LANES;
        uint8_t * tile = packed + i*tile_bytes(FORMATS[format], V::LANES, k);
        with_format(format, [&](auto W) INLINE_LAMBDA { pack_tile<V::LANES, W>(k, data + row*row_bytes, row_bytes, (int) n, tile); });
    }
}

template <class V>
void quantise(int format, int64_t k, int n, int column, int64_t first, int64_t last, const float * x, uint8_t * buffer) {
    const Groups groups(n, V::GROUP);
    const int block = FORMATS[format].block;
    for (int64_t b = first; b < last; b++) quantise_block(block, k, groups, column, b, x + b*block, buffer);
}

// tile_times_group for nc columns.
template <class V, int W, int... C> INLINE auto kernel(int nc, std::integer_sequence<int, C...>) {
    static constexpr decltype(&tile_times_group<V, W, 1>) of[] = { tile_times_group<V, W, C + 1>... };
    return of[nc - 1];
}

constexpr size_t NEAR = 1 << 20;   // bytes of columns that stay in the L2 cache while the tiles are multiplied with them

// Of super-blocks a part of k after the other: all columns of more would not stay near.
template <class V, int W>
void multiply_format(int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
                     int64_t first, int64_t last) {
    const Groups groups(n, V::GROUP);
    constexpr Format f = FORMATS[W];
    const int64_t blocks = k/f.block, near = NEAR/columns_bytes(256, 256, n), part = f.block < 256 ? blocks : near < 1 ? 1 : near;
    for (int64_t b = 0; b < blocks; b += part) {
        const int64_t count = b + part < blocks ? part : blocks - b;
        for (int64_t i = first; i < last; i++) {
            const int64_t row = i*V::LANES, left = rows - row;
            const uint8_t * tile = packed + i*tile_bytes(f, V::LANES, k) + (b ? b*super_bytes(f, V::LANES) : 0);
            for (int g = 0; g < groups.count; g++) {
                const int nc = groups.size(g), c = groups.first(g), here = left < V::LANES ? (int) left : V::LANES;
                const uint8_t * x = buffer + columns_bytes(f.block, k, c) + b*record_bytes(f.block)*nc;
                kernel<V, W>(nc, std::make_integer_sequence<int, V::GROUP>())(tile, count*f.block, x, out + c, row, here, b > 0);
            }
        }
    }
}

template <class V>
void multiply(int format, int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
              int64_t first, int64_t last) {
    with_format(format, [&](auto W) INLINE_LAMBDA { multiply_format<V, W>(k, rows, packed, n, buffer, out, first, last); });
}

} // namespace
