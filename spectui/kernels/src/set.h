// What an instruction set offers to plugin.cpp: functions, one set of which is chosen at run time.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct Attention;

struct KernelSet {
    const char * name;
    bool (*supported)();                    // does this CPU have it?
    int  lanes;                                // rows of a tile
    // Tiles [first, last) of a matrix, from the file's layout.
    void (*pack)(int format, int64_t k, int64_t rows, const uint8_t * data, uint8_t * packed, int64_t first, int64_t last);
    // Blocks [first, last) of one of n columns, whose values begin at x.
    void (*quantise)(int format, int64_t k, int n, int column, int64_t first, int64_t last, const float * x, uint8_t * columns);
    // Tiles [first, last) times n columns; out[i] is where the rows of column i begin.
    void (*multiply)(int format, int64_t k, int64_t rows, const uint8_t * packed, int n, const uint8_t * columns,
                     float * const * out, int64_t first, int64_t last);
    // An item of an attention, and what follows when all are computed: attention.h.
    void (*attend)(const Attention & a, int64_t item, float * scratch, float * partials);
    void (*combine)(const Attention & a, int64_t query, const float * partials);
};

// Weak: the compiler may lack a set, whose address is null then (build.py).
extern __attribute__((weak)) const KernelSet avx2_set, avxvnni_set, avx512_set, amx_set;
