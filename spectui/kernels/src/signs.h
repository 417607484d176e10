// A draft's output matrix mostly read in one bit a weight. A draft needs the products of the likeliest tokens alone, so a pass over
// one token multiplies the signs of all rows first, with a scale for each 32 weights, and then as they are the tiles
// where these products are largest (as the SVD-softmax of Shim et al., NIPS 2017, does with a matrix of lower rank). The other
// products stay those of the signs. A target's matrix is always read as it is: its products decide the text.
#pragma once
#include "plugin.h"
#include <vector>

constexpr int SIGNS_FORMAT = format_of(SIGNS);

// Whether a tensor that is allocated now has signs behind its weights: an output matrix of many rows.
bool has_signs(const ggml_tensor * t);

// Tiles [first, last) of the signs, from a matrix in the file's layout.
void pack_signs(int format, int64_t k, int64_t rows, const uint8_t * data, uint8_t * packed, int64_t first, int64_t last);

// The tiles with the largest products, in ascending order; `largest` is memory for the largest product of each.
void choose_tiles(const float * products, int64_t rows, std::vector<float> & largest, std::vector<int64_t> & chosen);
