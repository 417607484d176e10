// What a layer has between its products and its attention: operations on rows of floats. A row's bits depend on that row alone.
//
// The elements of an operation are counted through all its rows, and any run of them can be computed by itself that begins and ends
// where a unit does: a row where an element needs all of it, else a line of the cache.
#pragma once
#include "ggml_abi.h"

constexpr int64_t LINE = 16;      // floats

namespace {

// The row of t that belongs to a row of `of`: t's rows are repeated where it has fewer.
inline char * row_of(const ggml_tensor * t, const ggml_tensor * of, int64_t row) {
    const int64_t i1 = row % of->ne[1], i2 = row/of->ne[1] % of->ne[2], i3 = row/of->ne[1]/of->ne[2];
    return row_at(t, i1 % t->ne[1], i2 % t->ne[2], i3 % t->ne[3]);
}

} // namespace

bool    supports_rows(const ggml_tensor * op);
int64_t elements_of(const ggml_tensor * op);
int64_t unit_of(const ggml_tensor * op);

// Of a ROPE: cosines and sines of a row's positions, for each of `rotated` elements one of both. Layers have them in common.
int  rotated(const ggml_tensor * op);
bool same_rotation(const ggml_tensor * a, const ggml_tensor * b);
void rotation(const ggml_tensor * op, float * table);

// Elements [first, last). `table`: the rotation of all positions.
void compute_rows(const ggml_tensor * op, int64_t first, int64_t last, const float * table);
