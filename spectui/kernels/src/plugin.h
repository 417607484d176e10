// What the parts of the plug-in share: ggml's functions, the chosen instruction set, and how large a weight's tensor is.
#pragma once
#include "formats.h"
#include "set.h"

extern ggml_functions ggml;
extern const KernelSet * kernels;
extern ggml_buffer_type weights_type;   // weights.cpp
extern ggml_device weights_device;      // plugin.cpp

namespace {

// The index in FORMATS of a tensor whose rows are whole blocks, or -1.
inline int format_of_weights(const ggml_tensor * t) {
    const int f = format_of(t->type);
    return f >= 0 && t->ne[0] > 0 && t->ne[0] % FORMATS[f].block == 0 ? f : -1;
}
inline int64_t matrices(const ggml_tensor * t) { return t->ne[2]*t->ne[3]; }
inline size_t matrix_bytes(const ggml_tensor * t, int f) { return kernels->tensor_bytes(f, t->ne[0], t->ne[1]); }

} // namespace
