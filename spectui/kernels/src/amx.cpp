// AMX: 16 rows times 16 columns by one operation, for passes over many columns (Intel servers since Sapphire Rapids).
//
// A part of a tile is widened to what tile registers take, and multiplied with all columns. In super-blocks a run's scale is
// multiplied into its codes first: s (q - offset) is 128 high + low, a byte each, so that tile registers add up a whole super-block.
// The sums are the integers that avx512.cpp computes, and what follows is the same: so are the bits.
#include "avx512.h"
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using V = Avx512;
using I = V::I;

constexpr int MANY = 32;                               // columns: for fewer the widening is not worth it
constexpr int ROWS = V::LANES, HALF = 16, GROUP = 32;  // columns of a tile register, and of a group
constexpr int PART = 6;                                // Wide at a time: they stay in the L2 cache

// 256 weights of each row: a super-block, or eight small blocks.
struct Wide {
    alignas(64) uint8_t codes[2][256*ROWS];            // high and low; of small blocks q - offset in the first
    alignas(64) int32_t mins[8][ROWS];                 // of two runs, a half of each
    alignas(64) float d[8][ROWS], m[8][ROWS];          // of each block
};
// What tile registers have added up: of high and low, or of two small blocks.
struct Sums { alignas(64) int32_t of[2][GROUP][ROWS]; };
struct Outputs { alignas(64) float of[GROUP][ROWS]; };

// GCC does not know what memory the operations with tile registers read and write.
INLINE void in_memory(const void * p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// llama.cpp's own kernels say once in a thread what their tile registers hold, so that is said again when these have ended.
struct Configuration {
    alignas(64) uint8_t before[64] = {};
    Configuration() { in_memory(before); _tile_storeconfig(before); in_memory(before); }
    ~Configuration() { if (before[0]) _tile_loadconfig(before); else _tile_release(); }
};

INLINE void store(void * p, I v) { _mm512_storeu_si512(p, v); }

template <int W, int J> INLINE I signed_codes(const uint8_t * w) {
    return _mm512_sub_epi8(codes<V, W, J>(w), _mm512_set1_epi8((char) FORMATS[W].offset));
}

template <int W> void widen_super(const uint8_t * block, Wide & to) {
    constexpr Format f = FORMATS[W];
    constexpr size_t row = words_bytes(f, ROWS);
    const uint8_t * w = block + super_head(f, ROWS), * d = block + scales_bytes(f, ROWS)*(f.mins && !merged(f) ? 2 : 1);
    V::store(to.d[0], V::halves(d));
    if constexpr (f.mins) V::store(to.m[0], V::halves(d + 2*ROWS));
    uint8_t * high = to.codes[0], * low = to.codes[1];
    for (int p = 0; p < 128/f.run; p++, w += f.run/16*row) {
        I scales, mins;
        read_scales<V, W>(block, p, scales, mins);
        store(to.mins[p], mins);
        repeat<2>([&](auto h) INLINE_LAMBDA {
            const I s = V::template lane_scale<h>(scales);
            const I twice = V::either(V::shift_32<16>(s), _mm512_and_si512(s, _mm512_set1_epi32(0xFFFF)));
            repeat<f.run/4>([&](auto i) INLINE_LAMBDA {
                const I q = signed_codes<W, i + (f.run == 16 ? 4*h : 0)>(w + (f.run == 16 ? 0 : h*row));
                const I even = _mm512_mullo_epi16(_mm512_srai_epi16(V::shift<8>(q), 8), twice);
                const I odd = _mm512_mullo_epi16(_mm512_srai_epi16(q, 8), twice);
                store(high, V::either(V::bits_16(V::shift<-7>(even), 255), V::shift<8>(V::shift<-7>(odd))));
                store(low, V::either(V::bits_16(even, 127), V::shift<8>(V::bits_16(odd, 127))));
                high += 4*ROWS;
                low += 4*ROWS;
            });
        });
    }
}

// Small blocks [first, first + count) of a tile.
template <int W> void widen_small(const uint8_t * tile, int64_t k, int64_t first, int64_t count, Wide & to) {
    constexpr Format f = FORMATS[W];
    const uint8_t * d = tile + first*2*ROWS, * w = tile + small_head(f, ROWS, k) + first*words_bytes(f, ROWS);
    for (int64_t b = 0; b < count; b++, d += 2*ROWS, w += words_bytes(f, ROWS)) {
        V::store(to.d[b], V::halves(d));
        if constexpr (f.mins) V::store(to.m[b], V::halves(d + k/32*ROWS*2));
        repeat<8>([&](auto j) INLINE_LAMBDA { store(to.codes[0] + (32*b + 4*j)*ROWS, signed_codes<W, j>(w)); });
    }
}

// Add a block's sums to the outputs of columns [first, last) of nc.
template <int W> INLINE void add_super(const Wide & w, const Sums & sums, const uint8_t * x, int nc, int first, int last, Outputs & acc) {
    constexpr Format f = FORMATS[W];
    const V::F d = V::load_floats(w.d[0]), m = V::load_floats(w.m[0]);
    UNROLL for (int c = first; c < last; c++) {
        const V::F dx = V::set(float_at(x + 304*nc + 4*c));
        const I total = V::add(V::shift_32<7>(V::load(sums.of[0][c])), V::load(sums.of[1][c]));
        V::F a = V::fma(V::mul(d, dx), V::floats(total), V::load_floats(acc.of[c]));
        if constexpr (f.mins) {
            const uint8_t * pairs = f.run == 16 ? x + 256*nc + 32*c : x + 288*nc + 16*c;
            I of_mins = V::zero();
            UNROLL for (int p = 0; p < 128/f.run; p++) of_mins = V::add_pairs(of_mins, V::load(w.mins[p]), V::broadcast(pairs + 4*p));
            a = V::fnma(V::mul(m, dx), V::floats(of_mins), a);
        }
        V::store(acc.of[c], a);
    }
}

template <int W> INLINE void add_small(const Wide & w, int b, const int32_t (*sums)[ROWS], const uint8_t * x, int nc, Outputs & acc) {
    const V::F d = V::load_floats(w.d[b]), m = V::load_floats(w.m[b]);
    UNROLL for (int c = 0; c < nc; c++) {
        const V::F dx = V::set(float_at(x + 36*nc + 4*c));
        V::F a = V::fma(V::mul(d, dx), V::floats(V::load(sums[c])), V::load_floats(acc.of[c]));
        if constexpr (FORMATS[W].mins) a = V::fnma(V::mul(m, dx), V::floats(V::broadcast(x + 32*nc + 4*c)), a);
        V::store(acc.of[c], a);
    }
}

// What tile registers hold: 0 to 3 sums, 4 and 5 the halves of a group's columns, 6 and 7 weights.
void configure(int block, int columns) {
    struct { uint8_t palette = 1, unused[15] = {}; uint16_t bytes[16] = {}; uint8_t rows[16] = {}; } c;
    const uint8_t rest = (uint8_t) (columns > HALF ? columns - HALF : 1), k = block == 32 ? 8 : 16;   // no register may be empty
    const uint8_t of_super[8] = { HALF, HALF, rest, rest, HALF, rest, k, k }, of_small[8] = { HALF, rest, HALF, rest, HALF, rest, k, k };
    memcpy(c.rows, block == 32 ? of_small : of_super, 8);
    for (int t = 0; t < 8; t++) c.bytes[t] = t == 4 || t == 5 ? 4*k : 64;
    in_memory(&c);
    _tile_loadconfig(&c);
}

// While the tile registers multiply a block, the sums of the one before are added to the outputs.
template <int W> INLINE void multiply_super(const Wide * wide, int64_t count, const uint8_t * x, int nc, Outputs & acc) {
    Sums sums[2];
    const size_t record = record_bytes(256)*nc;
    for (int64_t b = 0; b <= count; b++, x += record) {
        if (b < count) { _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); }
        UNROLL for (int j = 0; j < 4; j++) {
            if (b < count) {
                _tile_loadd(4, x + 64*j, 256);
                _tile_loadd(5, x + 256*HALF + 64*j, 256);
                _tile_loadd(6, wide[b].codes[0] + 64*ROWS*j, 64);
                _tile_loadd(7, wide[b].codes[1] + 64*ROWS*j, 64);
                _tile_dpbssd(0, 4, 6);
                _tile_dpbssd(1, 4, 7);
                _tile_dpbssd(2, 5, 6);
                _tile_dpbssd(3, 5, 7);
            }
            if (b > 0) add_super<W>(wide[b - 1], sums[(b - 1) % 2], x - record, nc, nc*j/4, nc*(j + 1)/4, acc);
        }
        if (b == count) break;
        Sums & to = sums[b % 2];
        _tile_stored(0, to.of[0], 64);
        _tile_stored(1, to.of[1], 64);
        _tile_stored(2, to.of[0] + HALF, 64);
        _tile_stored(3, to.of[1] + HALF, 64);
    }
}

// The same with two small blocks at a time.
template <int W> INLINE void multiply_small(const Wide * wide, int64_t count, const uint8_t * x, int nc, Outputs & acc) {
    Sums sums[2];
    const size_t record = record_bytes(32)*nc;
    for (int64_t b = 0; b < count + 2; b += 2, x += 2*record) {
        if (b < count) {
            const uint8_t * w = wide[b/8].codes[0] + b % 8*32*ROWS;
            _tile_zero(0);
            _tile_zero(1);
            _tile_loadd(4, x, 32);
            _tile_loadd(5, x + 32*HALF, 32);
            _tile_loadd(6, w, 64);
            _tile_dpbssd(0, 4, 6);
            _tile_dpbssd(1, 5, 6);
            if (b + 1 < count) {
                _tile_zero(2);
                _tile_zero(3);
                _tile_loadd(4, x + record, 32);
                _tile_loadd(5, x + record + 32*HALF, 32);
                _tile_loadd(7, w + 32*ROWS, 64);
                _tile_dpbssd(2, 4, 7);
                _tile_dpbssd(3, 5, 7);
            }
        }
        if (b > 0) {
            const Sums & from = sums[b/2 % 2 ^ 1];
            add_small<W>(wide[(b - 2)/8], (b - 2) % 8, from.of[0], x - 2*record, nc, acc);
            if (b - 1 < count) add_small<W>(wide[(b - 1)/8], (b - 1) % 8, from.of[1], x - record, nc, acc);
        }
        if (b >= count) break;
        Sums & to = sums[b/2 % 2];
        _tile_stored(0, to.of[0], 64);
        _tile_stored(1, to.of[0] + HALF, 64);
        _tile_stored(2, to.of[1], 64);
        _tile_stored(3, to.of[1] + HALF, 64);
    }
}

template <int W>
INLINE void multiply_group(const Wide * wide, int64_t count, const uint8_t * x, int nc, Outputs & acc) {
    if constexpr (FORMATS[W].block == 32) multiply_small<W>(wide, count, x, nc, acc);
    else multiply_super<W>(wide, count, x, nc, acc);
}

template <int W>
void multiply_many(int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
                   int64_t first, int64_t last) {
    constexpr Format f = FORMATS[W];
    constexpr int64_t in_part = PART*256/f.block;
    const Groups groups(n, GROUP);
    const Configuration of_others;
    Wide wide[PART];
    Outputs acc;
    int configured = 0;
    for (int64_t b = 0; b < k/f.block; b += in_part) {
        const int64_t count = b + in_part < k/f.block ? in_part : k/f.block - b;
        for (int64_t i = first; i < last; i++) {
            const int64_t row = i*ROWS;
            const __mmask16 there = rows - row < ROWS ? (__mmask16) ((1 << (rows - row)) - 1) : 0xFFFF;
            const uint8_t * tile = packed + i*tile_bytes(f, ROWS, k);
            if constexpr (f.block == 32)
                for (int64_t p = 0; p < count; p += 8) widen_small<W>(tile, k, b + p, count - p < 8 ? count - p : 8, wide[p/8]);
            else for (int64_t p = 0; p < count; p++) widen_super<W>(tile + (b + p)*super_bytes(f, ROWS), wide[p]);
            in_memory(wide);
            for (int g = 0; g < groups.count; g++) {
                const int nc = groups.size(g);
                float * const * to = out + groups.first(g);
                const uint8_t * x = buffer + columns_bytes(f.block, k, groups.first(g)) + b*record_bytes(f.block)*nc;
                if (nc != configured) configure(f.block, configured = nc);
                for (int c = 0; c < nc; c++) V::store(acc.of[c], b ? _mm512_maskz_loadu_ps(there, to[c] + row) : V::floats_zero());
                if (nc == GROUP) multiply_group<W>(wide, count, x, GROUP, acc);   // a number that the compiler knows
                else multiply_group<W>(wide, count, x, nc, acc);
                for (int c = 0; c < nc; c++) _mm512_mask_storeu_ps(to[c] + row, there, V::load_floats(acc.of[c]));
            }
        }
    }
}

// ---------------------------------------------------------------- the functions of KernelSet

bool many(int format, int n) { return n >= MANY && !FORMATS[format].floats(); }

void quantise(int format, int64_t k, int n, int column, int64_t first, int64_t last, const float * x, uint8_t * buffer) {
    if (!many(format, n)) return avx512_set.quantise(format, k, n, column, first, last, x, buffer);
    const Groups groups(n, GROUP);
    const int block = FORMATS[format].block;
    for (int64_t b = first; b < last; b++) quantise_block(block, k, groups, column, b, x + b*block, buffer);
}

struct Multiply {
    decltype(&multiply_many<0>) of[N_FORMATS] = {};
    template <int W> constexpr void fill() { if constexpr (!FORMATS[W].floats()) of[W] = multiply_many<W>; }
    template <int... W> constexpr Multiply(std::integer_sequence<int, W...>) { (fill<W>(), ...); }
};
constexpr Multiply MULTIPLY(std::make_integer_sequence<int, N_FORMATS>{});

void multiply(int format, int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
              int64_t first, int64_t last) {
    const auto function = many(format, n) ? MULTIPLY.of[format] : nullptr;
    if (function) function(k, rows, packed, n, buffer, out, first, last);
    else avx512_set.multiply(format, k, rows, packed, n, buffer, out, first, last);
}

// Linux gives tile registers to a process that asks for them.
bool supported() {
    constexpr int REQUEST = 0x1023, TILES = 18;
    unsigned a = 7, b, c = 0, d;
    if (!&avx512_set || !avx512_set.supported()) return false;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d >> 24 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
}

KernelSet beside(KernelSet set) {
    set.name = "amx";
    set.supported = supported;
    set.quantise = quantise;
    set.multiply = multiply;
    return set;
}

} // namespace

extern const KernelSet amx_set = &avx512_set ? beside(avx512_set) : KernelSet {};
