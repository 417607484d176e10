// What the parts of the plug-in share: ggml's functions, the chosen instruction set, what is asked for, and how large a weight's
// tensor is.
#pragma once
#include "layout.h"
#include "set.h"

extern ggml_functions ggml;
extern const KernelSet * kernels;
extern ggml_backend_buffer_type weights_type;   // weights.cpp
extern ggml_backend_buffer_type mapped_type;    // weights.cpp
extern ggml_backend_device weights_device;      // plugin.cpp

// What is asked for of the models and contexts that this thread makes. llama.cpp makes each in the thread that calls it.
struct Request {
    int  threads = 0;        // that repack a model's weights; 0: the weights stay ggml's
    bool signs = false;      // of a model's output matrix: signs.h
    bool attention = false;  // of a context's passes
    bool mapped = false;     // the weights stay in the mapped file too, and `extra` is their repacked copy
};
extern thread_local Request request;    // plugin.cpp

// The computing of a backend: all operations of a graph in one team of threads. Its memory is kept between graphs.
struct Pass {
    int threads = 1;
    bool (*abort_asked)(void *) = nullptr;
    void * abort_data = nullptr;
    virtual ggml_status compute(ggml_cgraph * graph) = 0;
    virtual ~Pass() = default;
};
Pass * new_pass();   // pass.cpp

ggml_backend_buffer_t buffer_of_mapping(ggml_backend_dev_t, void * base, size_t size, size_t largest);   // weights.cpp

namespace {

// The index in FORMATS of the type of these weights, or -1 if they stay ggml's: rows that are no whole blocks, and single rows of
// floats. Those may be scales, which llama.cpp does not multiply as it says when it loads them, and ggml's products with both have
// the same bits for any number of columns.
inline int format_of_weights(int type, int64_t k, int64_t rows) {
    const int f = format_of(type);
    return f >= 0 && k > 0 && k % FORMATS[f].block == 0 && (rows > 1 || !FORMATS[f].floats()) ? f : -1;
}
inline int format_of_weights(const ggml_tensor * t) { return format_of_weights(t->type, t->ne[0], t->ne[1]); }
inline int64_t matrices(const ggml_tensor * t) { return t->ne[2]*t->ne[3]; }
inline bool is_mapped(const ggml_tensor * w) { return w->buffer->buft == &mapped_type; }
inline const void * repacked(const ggml_tensor * w) { return is_mapped(w) ? w->extra : w->data; }
inline int64_t tiles(int64_t rows) { return (rows + kernels->lanes - 1)/kernels->lanes; }
inline size_t matrix_bytes(int f, int64_t k, int64_t rows) { return tiles(rows)*tile_bytes(FORMATS[f], kernels->lanes, k); }
inline size_t matrix_bytes(const ggml_tensor * t, int f) { return matrix_bytes(f, t->ne[0], t->ne[1]); }

} // namespace
