// The kernels of one instruction set against a reference in double, for random weights, shapes and numbers of columns.
//
//   check SET [SEED]           every format: error of the products, and bit-equality of one column with several
//   check SET bench THREADS [TYPE]   time of a product by format and number of columns (the caller measures alone); in the
//                              environment K and ROWS for another matrix: one that fits the L2 cache shows the kernels' own speed
#include "../../spectui/kernels/src/layout.h"
#include "../../spectui/kernels/src/set.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#ifndef EMULATED   // in AVX2: see emulated/immintrin.h
#define EMULATED false
#endif

static const KernelSet * SETS[] = { &amx_set, &avx512_set, &avxvnni_set, &avx2_set };
static std::mt19937 rng(1);

static int64_t tiles(const KernelSet & set, int64_t rows) { return (rows + set.lanes - 1)/set.lanes; }
static size_t packed_bytes(const KernelSet & set, int format, int64_t k, int64_t rows) {
    return tiles(set, rows)*tile_bytes(FORMATS[format], set.lanes, k);
}

static int number(int most) { return (int) (rng() % (uint32_t) most); }
static float value() { return std::normal_distribution<float>()(rng); }

// Half <-> float by arithmetic, so that the reference shares nothing with the kernels.
static float from_half(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const float v = e ? std::ldexp(1.f + m/1024.f, e - 15) : std::ldexp(m/1024.f, -14);
    return h & 0x8000 ? -v : v;
}
static uint16_t some_half() { return (uint16_t) (number(2) << 15 | (5 + number(12)) << 10 | number(1024)); }

// A random block, its scales finite. The offsets of the halves are those of the format.
static void random_block(const Format & f, uint8_t * p) {
    if (f.floats()) {
        for (int i = 0; i < f.block; i++) {
            const float v = value();
            const uint16_t h = f.type == GGML_TYPE_F16 ? some_half() : 0;
            if (f.type == GGML_TYPE_F16) memcpy(p + 2*i, &h, 2);
            else memcpy(p + f.bytes/8*i, (const uint8_t *) &v + 4 - f.bytes/8, f.bytes/8);
        }
        return;
    }
    for (int i = 0; i < f.bytes; i++) p[i] = (uint8_t) rng();
    std::vector<int> halves;
    switch (f.type) {
    case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_1: case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K: halves = { 0, 2 }; break;
    case GGML_TYPE_Q2_K: halves = { 80, 82 }; break;
    case GGML_TYPE_Q3_K: halves = { 108 }; break;
    case GGML_TYPE_Q6_K: halves = { 208 }; break;
    default: halves = { 0 };
    }
    for (int at : halves) { const uint16_t h = some_half(); memcpy(p + at, &h, 2); }
}

// The weights of a block as floats. Formats are read by formats.h, which test_formats compares with gguf's own readers.
static void weights_of(const Format & f, const uint8_t * p, double * w) {
    if (f.floats()) {
        for (int i = 0; i < f.block; i++) {
            uint16_t h; memcpy(&h, p + 2*i, 2);
            float v = 0; memcpy((uint8_t *) &v + 4 - f.bytes/8, p + f.bytes/8*i, f.bytes/8);
            w[i] = f.type == GGML_TYPE_F16 ? from_half(h) : v;
        }
        return;
    }
    Values v; memset(&v, 0, sizeof v);
    read_block(f, p, v);
    const double d = from_half(v.d), m = from_half(v.dmin);
    for (int i = 0; i < f.block; i++) {
        const int q = f.codebook ? CODEBOOK[v.q[i]] : v.q[i];
        const double s = f.run ? v.scale[i/f.run] : 1;
        w[i] = d*s*(q - f.offset);
        if (f.mins) w[i] += f.run ? -m*v.min[i/f.run] : m;
    }
}

// Bytes that end where a page begins that nobody may touch: a kernel that reads or writes past them ends the program.
struct Fenced {
    static constexpr size_t PAGE = 4096;
    size_t all;
    uint8_t * pages, * begin;
    explicit Fenced(size_t size) : all((size + PAGE - 1)/PAGE*PAGE) {
        pages = (uint8_t *) mmap(nullptr, all + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + all, PAGE, PROT_NONE) != 0) { perror("mmap"); exit(1); }
        begin = pages + all - size;
    }
    Fenced(const Fenced &) = delete;
    ~Fenced() { munmap(pages, all + PAGE); }
};

struct Matrix {
    int format; int64_t k, rows;
    size_t bytes;
    Fenced file, packed;
    Matrix(const KernelSet & set, int format, int64_t k, int64_t rows) : format(format), k(k), rows(rows),
        bytes(k/FORMATS[format].block*FORMATS[format].bytes*rows), file(bytes), packed(packed_bytes(set, format, k, rows)) {
        for (size_t at = 0; at < bytes; at += FORMATS[format].bytes) random_block(FORMATS[format], file.begin + at);
        set.pack(format, k, rows, file.begin, packed.begin, 0, tiles(set, rows));
    }
};

static std::vector<float> product(const KernelSet & set, const Matrix & m, const float * x, int n) {
    const Fenced columns(columns_bytes(FORMATS[m.format].block, m.k, n)), values(4*n*m.k), results(4*n*m.rows);
    memcpy(values.begin, x, 4*n*m.k);
    float * out = (float *) results.begin;
    std::vector<float *> at;
    for (int c = 0; c < n; c++) {
        set.quantise(m.format, m.k, n, c, 0, m.k/FORMATS[m.format].block, (const float *) values.begin + c*m.k, columns.begin);
        at.push_back(out + c*m.rows);
    }
    set.multiply(m.format, m.k, m.rows, m.packed.begin, n, columns.begin, at.data(), 0, tiles(set, m.rows));
    return std::vector<float>(out, out + n*m.rows);
}

// The activations of a column as a kernel takes them, as floats, found from the definition of ggml's Q8_0 and Q8_K.
static std::vector<double> quantised(const float * x, int64_t k, int block) {
    std::vector<double> y(x, x + k);
    if (block == 8) return y;
    y.assign(k, 0);
    for (int64_t b = 0; b < k; b += block) {
        float most = 0, signed_most = 0;
        for (int i = 0; i < block; i++) if (std::fabs(x[b + i]) > most) { most = std::fabs(x[b + i]); signed_most = x[b + i]; }
        if (most == 0) continue;
        const float inverse = block == 32 ? 127.f/most : -127.f/signed_most;
        double d = block == 32 ? most/127.f : 1/inverse;
        if (block == 32) {                                  // to the nearest half, by trying its neighbours
            int e; std::frexp(d, &e);
            const double unit = std::ldexp(1., std::max(e - 11, -24));
            d = std::nearbyint(d/unit)*unit;
        }
        for (int i = 0; i < block; i++) y[b + i] = d*std::nearbyint(x[b + i]*inverse);
    }
    return y;
}

static bool check(const KernelSet & set, int format) {
    const Format & f = FORMATS[format];
    double worst = 0;
    int unequal = 0;
    for (int trial = 0; trial < 4; trial++) {
        const int64_t blocks = trial == 1 ? 50 : 1 + number(f.block == 32 ? 40 : 6), k = f.block*blocks, rows = 1 + number(70);   // 50: k in parts
        const Matrix m(set, format, k, rows);
        std::vector<float> x(70*k);
        for (float & v : x) v = value();
        if (trial == 0) for (int64_t i = 0; i < k; i++) x[2*k + i] = 0;      // a column of zeros
        const std::vector<float> all = product(set, m, x.data(), 70);
        for (int n : { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64 }) {
            const int first = number(70 - n + 1);
            const std::vector<float> some = product(set, m, x.data() + first*k, n);
            for (int64_t i = 0; i < n*rows; i++) unequal += memcmp(&some[i], &all[first*rows + i], 4) != 0;
        }
        std::vector<double> w(k);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t b = 0; b < k/f.block; b++) weights_of(f, m.file.begin + (r*(k/f.block) + b)*f.bytes, &w[b*f.block]);
            for (int c = 0; c < 70; c += 9) {
                const std::vector<double> q = quantised(&x[c*k], k, f.block);
                double sum = 0, size = 0;
                for (int64_t i = 0; i < k; i++) { sum += w[i]*q[i]; size += std::fabs(w[i]*q[i]); }
                worst = std::max(worst, std::fabs(sum - all[c*rows + r])/(size + 1e-30));
            }
        }
    }
    printf("%s type %d: error %.2g of the sum of magnitudes, %d values differ by the number of columns\n", set.name, f.type, worst, unequal);
    return worst < 1e-6 && unequal == 0;
}

static double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static void bench(const KernelSet & set, int threads, int only) {
    for (int format = 0; format < N_FORMATS; format++) {
        if (only >= 0 && FORMATS[format].type != only) continue;
        const int64_t k = getenv("K") ? atol(getenv("K")) : 1536, rows = getenv("ROWS") ? atol(getenv("ROWS")) : (int64_t) 1024*128;
        const size_t bytes = packed_bytes(set, format, k, rows);
        std::vector<uint8_t> packed(bytes);
        for (size_t i = 0; i < bytes; i++) packed[i] = (uint8_t) (0x11 + i % 7);
        printf("%s type %d, %.0f MB:", set.name, FORMATS[format].type, bytes/1e6);
        for (int n : { 1, 2, 3, 4, 6, 8, 12, 16 }) {
            std::vector<float> x(n*k);
            for (float & v : x) v = value();
            std::vector<uint8_t> buffer(columns_bytes(FORMATS[format].block, k, n));
            for (int c = 0; c < n; c++) set.quantise(format, k, n, c, 0, k/FORMATS[format].block, &x[c*k], buffer.data());
            std::vector<float> out(n*rows);
            std::vector<float *> at;
            for (int c = 0; c < n; c++) at.push_back(&out[c*rows]);
            double best = 1e9;
            for (int run = 0; run < 7; run++) {
                const double begun = seconds();
                std::vector<std::thread> all;
                const int64_t count = tiles(set, rows);
                for (int i = 0; i < threads; i++)
                    all.emplace_back([&, i] { for (int64_t z = 0; z < 1024*128/rows; z++) set.multiply(format, k, rows, packed.data(), n, buffer.data(), at.data(), count*i/threads, count*(i + 1)/threads); });
                for (auto & t : all) t.join();
                best = std::min(best, seconds() - begun);
            }
            printf("  n=%d %.2f ms (%.1f GB/s, %.0f products/ns)", n, best*1e3, bytes/best/1e9, k*1024*128/1e9*n/best);
            fflush(stdout);
        }
        printf("\n");
    }
}

int main(int argc, char ** argv) {
    if (argc < 2) return 2;
    for (const KernelSet * set : SETS) {
        if (!set || set->name != std::string(argv[1])) continue;
        const KernelSet & needed = EMULATED ? avx2_set : *set;
        if (!needed.supported()) { printf("this CPU lacks %s\n", needed.name); return 3; }
        if (argc > 3) { bench(*set, atoi(argv[3]), argc > 4 ? atoi(argv[4]) : -1); return 0; }
        if (argc > 2) rng.seed((uint32_t) atoi(argv[2]));
        bool well = true;
        for (int format = 0; format < N_FORMATS; format++) well &= check(*set, format);
        return well ? 0 : 1;
    }
    return 2;
}
