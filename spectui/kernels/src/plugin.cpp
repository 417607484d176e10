// The kernels as a backend of ggml: a device of type ACCEL, which llama.cpp asks for each weight before it takes the CPU.
//
// Weights whose type is in formats.h get a buffer type of their own and are repacked as they are loaded (weights.cpp). The
// scheduler then gives this backend the products with them (pass.cpp), and what a layer has between them unless some layers are on
// GPUs, and leaves everything else to the CPU's backend. Results stay in the CPU's memory.
#include "plugin.h"
#include "attention.h"
#include "rows.h"
#include "signs.h"
#include <new>
#include <stdlib.h>
#include <string>
#include <string.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

ggml_functions ggml;
const KernelSet * kernels;           // the chosen set
thread_local Request request;

namespace {

const KernelSet * const SETS[] = { &amx_set, &avx512_set, &avxvnni_set, &avx2_set };   // the best first
bool usable(const KernelSet * set) { return set && set->supported && set->supported(); }

// ---------------------------------------------------------------- which operations are the plug-in's

// What a context's backend computes beside products, of tensors in host memory: its device's `context`.
enum Computes : intptr_t { PRODUCTS_ALONE, ATTENTION, LAYERS };
bool computes(ggml_backend_dev_t d, Computes what) { return (intptr_t) d->context >= what; }

// llama.cpp asks the device that it knows before it loads a weight, and a context's own device ever after.
bool multiplies(ggml_backend_dev_t d, const ggml_tensor * w) {
    const bool ours = w->buffer && (w->buffer->buft == &weights_type || is_mapped(w)) && !w->view_src;
    return ours && format_of_weights(w) >= 0 && (d != &weights_device || request.threads > 0);
}

bool in_host_memory(const ggml_tensor * t) {
    const ggml_backend_buffer_t b = t->view_src ? t->view_src->buffer : t->buffer;
    return !b || ggml.ggml_backend_buft_is_host(b->buft);
}

// Passes over so many tokens are the GPU's, if it can read the weights: the number that ggml's backends have.
int64_t from_tokens() {
    static const char * const named = getenv("GGML_OP_OFFLOAD_MIN_BATCH");
    static const int64_t number = named ? atoi(named) : 32;
    return number;
}

bool has_host_operands(const ggml_tensor * op) {
    for (const ggml_tensor * t : op->src) if (t && !in_host_memory(t)) return false;
    return true;
}

bool supports_product(ggml_backend_dev_t d, const ggml_tensor * op) {
    const ggml_tensor * w = op->src[0], * x = op->src[1];
    if (!multiplies(d, w)) return false;
    if (is_mapped(w) && d != &weights_device && (!w->extra || op->ne[op->op == GGML_OP_MUL_MAT ? 1 : 2] >= from_tokens())) return false;
    if (!has_floats(x) || !in_host_memory(x) || !has_floats(op)) return false;
    if (op->op == GGML_OP_MUL_MAT) return matrices(w) == 1;
    return w->ne[3] == 1 && op->src[2]->type == GGML_TYPE_I32 && in_host_memory(op->src[2]);
}

bool supports_op(ggml_backend_dev_t d, const ggml_tensor * op) {
    switch (op->op) {
    case GGML_OP_NONE: case GGML_OP_RESHAPE: case GGML_OP_VIEW: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE: return true;
    case GGML_OP_MUL_MAT: case GGML_OP_MUL_MAT_ID: return supports_product(d, op);
    case GGML_OP_FLASH_ATTN_EXT: return computes(d, ATTENTION) && supports_attention(op) && has_host_operands(op);
    default: return computes(d, LAYERS) && supports_rows(op) && has_host_operands(op);
    }
}

// ---------------------------------------------------------------- device and registry

template <class T> const char * name(T) { return "SPECTUI"; }   // of the backend, its device and its registry
thread_local ggml_backend_dev_t latest = nullptr;   // of the context that this thread made last
void free_backend(ggml_backend_t b) {
    if (latest == b->device) latest = nullptr;
    delete (Pass *) b->context;
    delete b->device;
    delete b;
}
void set_backend_threads(ggml_backend_t b, int n) { ((Pass *) b->context)->threads = n; }
void set_abort_callback(ggml_backend_t b, bool (*asked)(void *), void * data) {
    Pass * pass = (Pass *) b->context;
    pass->abort_asked = asked;
    pass->abort_data = data;
}
ggml_status graph_compute(ggml_backend_t b, ggml_cgraph * graph) {
    try { return ((Pass *) b->context)->compute(graph); } catch (const std::bad_alloc &) { return GGML_STATUS_ALLOC_FAILED; }
}

const char * describe(ggml_backend_dev_t) { return kernels->name; }
void memory_of(ggml_backend_dev_t, size_t * free, size_t * total) { *free = *total = 0; }
int type_of(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
void properties(ggml_backend_dev_t d, ggml_backend_dev_props * p) {
    memset(p, 0, sizeof *p);
    p->name = name(d);
    p->description = describe(d);
    p->type = GGML_BACKEND_DEVICE_TYPE_ACCEL;
    p->caps.mmap_support = true;
    p->caps.buffer_from_host_ptr = request.mapped;
}
bool supports_buft(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return type == &weights_type || ggml.ggml_backend_buft_is_host(type);
}
ggml_backend_t init_backend(ggml_backend_dev_t, const char *);

size_t device_count(ggml_backend_reg_t) { return 1; }
ggml_backend_dev_t device_at(ggml_backend_reg_t, size_t) { return &weights_device; }
void * function_at(ggml_backend_reg_t, const char * name) {
    if (strcmp(name, "ggml_backend_set_n_threads") == 0) return (void *) set_backend_threads;
    return strcmp(name, "ggml_backend_set_abort_callback") == 0 ? (void *) set_abort_callback : nullptr;
}
ggml_backend_buffer_type_t type_of_weights(ggml_backend_dev_t) { return request.mapped ? &mapped_type : &weights_type; }
// The scheduler allocates a backend's results in its device's buffer type, and llama.cpp takes the weights' buffer type from the
// same function. Results must lie in host memory, or each would be copied. So each backend, which is a context's, has a device of
// its own, which is not registered.
ggml_backend_buffer_type_t type_of_results(ggml_backend_dev_t) {
    return ggml.ggml_backend_dev_buffer_type(ggml.ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
}

ggml_backend_reg registry = { GGML_BACKEND_API_VERSION, { name<ggml_backend_reg_t>, device_count, device_at, function_at }, nullptr };

ggml_backend_device device(ggml_backend_buffer_type_t (*buffer_type)(ggml_backend_dev_t)) {
    return { { name<ggml_backend_dev_t>, describe, memory_of, type_of, properties, init_backend, buffer_type, nullptr, buffer_of_mapping,
               supports_op, supports_buft, {} }, &registry, nullptr };
}

ggml_backend_t init_backend(ggml_backend_dev_t, const char *) {
    static uint8_t guid[16] = { 0x9d, 0x44, 0x1f, 0x6e, 0x02, 0xb7, 0x4c, 0x8a, 0xb1, 0x35, 0x77, 0xd0, 0x5c, 0xe9, 0x60, 0x2f };
    ggml_backend_dev_t d = latest = new ggml_backend_device(device(type_of_results));
    d->context = (void *) (request.attention ? LAYERS : PRODUCTS_ALONE);
    ggml_backend_t b = new ggml_backend { &guid, {}, d, new_pass() };
    b->iface.get_name = name<ggml_backend_t>;
    b->iface.free = free_backend;
    b->iface.graph_compute = graph_compute;
    return b;
}

} // namespace

ggml_backend_device weights_device = device(type_of_weights);

EXPORT int spectui_kernels_abi(void) { return 4; }

EXPORT const char * spectui_kernels_sets(void) {
    static std::string names;
    names.clear();
    for (const KernelSet * set : SETS)
        if (usable(set)) names += (names.empty() ? "" : " ") + std::string(set->name);
    return names.c_str();
}

EXPORT int spectui_kernels_bind(const ggml_functions * functions, const char * name) {
    for (const KernelSet * set : SETS) {
        if (!usable(set) || (*name && strcmp(name, set->name) != 0)) continue;
        ggml = *functions;
        kernels = set;
        return 0;
    }
    return 1;
}

EXPORT void spectui_kernels_request(int threads, int signs, int attention, int mapped) {
    request = { threads, signs != 0, attention != 0, mapped != 0 };
}

// The context that this thread made last computes attention from now on.
EXPORT void spectui_kernels_attend(void) { if (latest && !computes(latest, ATTENTION)) latest->context = (void *) ATTENTION; }

EXPORT size_t spectui_kernels_bytes(int type, int64_t k, int64_t rows, int64_t matrices) {
    const int f = format_of_weights(type, k, rows);
    return kernels && f >= 0 ? matrix_bytes(f, k, rows)*matrices : 0;
}

EXPORT int ggml_backend_score(void) { return kernels != nullptr; }
EXPORT ggml_backend_reg_t ggml_backend_init(void) { return kernels ? &registry : nullptr; }
