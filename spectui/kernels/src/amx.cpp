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
using I16 = V::I16;
typedef uint8_t Bytes __attribute__((vector_size(64)));

constexpr int MANY = 32;                               // columns: for fewer the widening is not worth it
constexpr int ROWS = V::LANES, HALF = 16, GROUP = 32;  // columns of a tile register, and of a group
constexpr int PART = 6;                                // Wide at a time: they stay in the L2 cache

// 256 weights of each row: a super-block, or eight small blocks.
struct Wide {
    alignas(64) uint8_t codes[2][256*ROWS];            // high and low; of small blocks q - offset in the first
    alignas(64) int32_t mins[8][ROWS];                 // of two runs, a half of each
    alignas(64) float d[8][ROWS], m[8][ROWS];          // of each block
};
// What tile registers have added up: of high and low, or of a small block.
struct Sums { alignas(64) int32_t of[2][GROUP][ROWS]; };

// GCC does not know what memory the operations with tile registers read and write.
INLINE void in_memory(const void * p) { __asm__ volatile("" : : "r"(p) : "memory"); }

// llama.cpp's own kernels say once in a thread what their tile registers hold, so that is said again when these have ended.
struct Configuration {
    alignas(64) uint8_t before[64] = {};
    Configuration() { in_memory(before); _tile_storeconfig(before); in_memory(before); }
    ~Configuration() { if (before[0]) _tile_loadconfig(before); else _tile_release(); }
};

template <int W, int J> INLINE I signed_codes(const uint8_t * w) {
    return (I) ((Bytes) codes<V, W, J>(w) - (uint8_t) FORMATS[W].offset);
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
        V::store(to.mins[p], mins);
        repeat<2>([&](auto h) INLINE_LAMBDA {
            const I s = V::template lane_scale<h>(scales);
            const I16 twice = (I16) (s << 16 | (s & 0xFFFF));
            repeat<f.run/4>([&](auto i) INLINE_LAMBDA {
                const I16 q = (I16) signed_codes<W, i + (f.run == 16 ? 4*h : 0)>(w + (f.run == 16 ? 0 : h*row));
                const I16 even = (q << 8 >> 8)*twice, odd = (q >> 8)*twice;
                V::store(high, (I) ((even >> 7 & 255) | odd >> 7 << 8));
                V::store(low, (I) ((even & 127) | (odd & 127) << 8));
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
        repeat<8>([&](auto j) INLINE_LAMBDA { V::store(to.codes[0] + (32*b + 4*j)*ROWS, signed_codes<W, j>(w)); });
    }
}

// Add the sums of block b of w to the outputs of columns [first, last) of nc.
template <int W>
INLINE void add(const Wide & w, int b, const Sums & sums, const uint8_t * x, int nc, int first, int last, float (&acc)[GROUP][ROWS]) {
    constexpr Format f = FORMATS[W];
    const V::F d = V::load_floats(w.d[b]), m = V::load_floats(w.m[b]);
    UNROLL for (int c = first; c < last; c++) {
        const float dx = float_at(x + (record_bytes(f.block) - 4)*nc + 4*c);
        I total = V::load(sums.of[0][c]), of_mins = {};
        if constexpr (f.block == 256) total = (total << 7) + V::load(sums.of[1][c]);
        V::F a = V::fma(d*dx, V::floats(total), V::load_floats(acc[c]));
        if constexpr (f.mins && f.block == 32) of_mins = V::broadcast(x + 32*nc + 4*c);
        else if constexpr (f.mins) {
            const uint8_t * pairs = f.run == 16 ? x + 256*nc + 32*c : x + 288*nc + 16*c;
            UNROLL for (int p = 0; p < 128/f.run; p++) of_mins = V::add_pairs(of_mins, V::load(w.mins[p]), V::broadcast(pairs + 4*p));
        }
        if constexpr (f.mins) a = V::fnma(m*dx, V::floats(of_mins), a);
        V::store(acc[c], a);
    }
}

// What tile registers hold: 0 to 3 sums, 4 and 5 the halves of a group's columns, 6 and 7 weights.
void configure(int block, int columns) {
    struct { uint8_t palette = 1, unused[15] = {}; uint16_t bytes[16] = {}; uint8_t rows[16] = {}; } c;
    const int rest = columns > HALF ? columns - HALF : 1, k = block == 32 ? 8 : 16;   // no register may be empty
    for (int t = 0; t < 8; t++) {
        c.bytes[t] = (uint16_t) (t == 4 || t == 5 ? 4*k : 64);
        c.rows[t] = (uint8_t) (t > 5 ? k : t % 2 ? rest : HALF);
    }
    in_memory(&c);
    _tile_loadconfig(&c);
}

// While the tile registers multiply a block, the sums of the one before are added to the outputs.
template <int W> INLINE void multiply_group(const Wide * wide, int64_t count, const uint8_t * x, int nc, float (&acc)[GROUP][ROWS]) {
    constexpr int block = FORMATS[W].block, in_wide = 256/block, parts = block == 32 ? 1 : 4;
    Sums sums[2];
    const size_t record = record_bytes(block)*nc;
    for (int64_t b = 0; b <= count; b++, x += record) {
        const Wide & w = wide[b/in_wide];
        if (b < count) { _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); }
        UNROLL for (int j = 0; j < parts; j++) {
            if (b < count) {
                _tile_loadd(4, x + 64*j, block);
                _tile_loadd(5, x + block*HALF + 64*j, block);
                _tile_loadd(6, w.codes[0] + (b % in_wide*32 + 64*j)*ROWS, 64);
                _tile_dpbssd(0, 4, 6);
                _tile_dpbssd(1, 5, 6);
                if constexpr (block == 256) {
                    _tile_loadd(7, w.codes[1] + 64*ROWS*j, 64);
                    _tile_dpbssd(2, 4, 7);
                    _tile_dpbssd(3, 5, 7);
                }
            }
            if (const int64_t a = b - 1; a >= 0)
                add<W>(wide[a/in_wide], (int) (a % in_wide), sums[a % 2], x - record, nc, nc*j/parts, nc*(j + 1)/parts, acc);
        }
        if (b == count) break;
        Sums & to = sums[b % 2];
        _tile_stored(0, to.of[0], 64);
        _tile_stored(1, to.of[0] + HALF, 64);
        if constexpr (block == 256) {
            _tile_stored(2, to.of[1], 64);
            _tile_stored(3, to.of[1] + HALF, 64);
        }
    }
}

template <int W> __attribute__((noinline))
void multiply_many(int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
                   int64_t first, int64_t last) {
    constexpr Format f = FORMATS[W];
    constexpr int64_t in_part = PART*256/f.block;
    const Groups groups(n, GROUP);
    const Configuration of_others;
    Wide wide[PART];
    alignas(64) float acc[GROUP][ROWS];
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
                for (int c = 0; c < nc; c++) V::store(acc[c], b ? (V::F) _mm512_maskz_loadu_ps(there, to[c] + row) : V::F{});
                if (nc == GROUP) multiply_group<W>(wide, count, x, GROUP, acc);   // a number that the compiler knows
                else multiply_group<W>(wide, count, x, nc, acc);
                for (int c = 0; c < nc; c++) _mm512_mask_storeu_ps(to[c] + row, there, V::load_floats(acc[c]));
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

void multiply(int format, int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * buffer, float * const * out,
              int64_t first, int64_t last) {
    if (!many(format, n)) return avx512_set.multiply(format, k, rows, packed, n, buffer, out, first, last);
    with_format(format, [&](auto W) INLINE_LAMBDA {
        if constexpr (!FORMATS[W].floats()) multiply_many<W>(k, rows, packed, n, buffer, out, first, last);
    });
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
