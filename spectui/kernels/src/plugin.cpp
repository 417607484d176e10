// The kernels as a backend of ggml: a device of type ACCEL, which llama.cpp asks for each weight before it takes the CPU.
//
// Weights whose type is in formats.h get a buffer type of their own and are repacked as they are loaded (weights.cpp). The
// scheduler then gives this backend the products with them (pass.cpp), and what a layer has between them unless some layers are on
// GPUs, and leaves everything else to the CPU's backend. Results stay in the CPU's memory.
#include "plugin.h"
#include "attention.h"
#include "pass.h"
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
bool usable(const KernelSet * set) { return set && set->supported(); }

// ---------------------------------------------------------------- what is taken

// What a context's backend computes beside products, of tensors in host memory: its device's `context`.
enum Computes : intptr_t { PRODUCTS_ALONE, ATTENTION, LAYERS };
bool computes(const ggml_device * d, Computes what) { return (intptr_t) d->context >= what; }

bool is_ours(const ggml_tensor * t) {
    return t->buffer && (t->buffer->type == &weights_type || t->buffer->type == &mapped_type) && !t->view_src;
}

// llama.cpp asks the device that it knows before it loads a weight, and a context's own device ever after.
bool multiplies(ggml_device * d, const ggml_tensor * w) {
    return is_ours(w) && format_of_weights(w) >= 0 && (d != &weights_device || request.threads > 0);
}

bool in_host_memory(const ggml_tensor * t) {
    const ggml_buffer * b = t->view_src ? t->view_src->buffer : t->buffer;
    return !b || ggml.ggml_backend_buft_is_host(b->type);
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

bool supports_product(ggml_device * d, const ggml_tensor * op) {
    const ggml_tensor * w = op->src[0], * x = op->src[1];
    if (!multiplies(d, w)) return false;
    if (is_mapped(w) && d != &weights_device && (!w->extra || op->ne[op->op == OP_MUL_MAT ? 1 : 2] >= from_tokens())) return false;
    if (x->type != TYPE_F32 || x->nb[0] != 4 || !in_host_memory(x)) return false;
    if (op->type != TYPE_F32 || op->nb[0] != 4) return false;
    if (op->op == OP_MUL_MAT) return matrices(w) == 1;
    return w->ne[3] == 1 && op->src[2]->type == TYPE_I32 && in_host_memory(op->src[2]);
}

bool supports_op(ggml_device * d, const ggml_tensor * op) {
    switch (op->op) {
    case OP_NONE: case OP_RESHAPE: case OP_VIEW: case OP_PERMUTE: case OP_TRANSPOSE: return true;
    case OP_MUL_MAT: case OP_MUL_MAT_ID: return supports_product(d, op);
    case OP_FLASH_ATTN_EXT: return computes(d, ATTENTION) && Attention::supports(op) && has_host_operands(op);
    default: return computes(d, LAYERS) && supports_rows(op) && has_host_operands(op);
    }
}

// ---------------------------------------------------------------- device and registry

const char * name_of_backend(ggml_backend *) { return "SPECTUI"; }
thread_local ggml_device * latest = nullptr;   // of the context that this thread made last
void free_backend(ggml_backend * b) {
    if (latest == b->device) latest = nullptr;
    delete_pass((Pass *) b->context);
    delete b->device;
    delete b;
}
void set_backend_threads(ggml_backend * b, int n) { set_threads((Pass *) b->context, n); }
void set_abort_callback(ggml_backend * b, bool (*asked)(void *), void * data) { set_abort((Pass *) b->context, asked, data); }
int graph_compute(ggml_backend * b, ggml_graph * graph) {
    try { return compute((Pass *) b->context, graph); } catch (const std::bad_alloc &) { return STATUS_ALLOC_FAILED; }
}

const char * name_of_device(ggml_device *) { return "SPECTUI"; }
const char * describe(ggml_device *) { return kernels->name; }
void memory_of(ggml_device *, size_t * free, size_t * total) { *free = *total = 0; }
int type_of(ggml_device *) { return DEVICE_ACCEL; }
void properties(ggml_device * d, ggml_device_properties * p) {
    memset(p, 0, sizeof *p);
    p->name = name_of_device(d);
    p->description = describe(d);
    p->type = DEVICE_ACCEL;
    p->mmap_support = true;
    p->buffer_from_host_ptr = request.mapped;
}
bool supports_buft(ggml_device *, ggml_buffer_type * type) { return type == &weights_type || ggml.ggml_backend_buft_is_host(type); }
ggml_backend * init_backend(ggml_device *, const char *);

const char * name_of_registry(ggml_registry *) { return "SPECTUI"; }
size_t count(ggml_registry *) { return 1; }
ggml_device * device_at(ggml_registry *, size_t) { return &weights_device; }
void * function_at(ggml_registry *, const char * name) {
    if (strcmp(name, "ggml_backend_set_n_threads") == 0) return (void *) set_backend_threads;
    return strcmp(name, "ggml_backend_set_abort_callback") == 0 ? (void *) set_abort_callback : nullptr;
}
ggml_buffer_type * type_of_weights(ggml_device *) { return request.mapped ? &mapped_type : &weights_type; }
// The scheduler allocates a backend's results in its device's buffer type, and llama.cpp takes the weights' buffer type from the
// same function. Results must lie in host memory, or each would be copied. So each backend, which is a context's, has a device of
// its own, which is not registered.
ggml_buffer_type * type_of_results(ggml_device *) {
    return ggml.ggml_backend_dev_buffer_type(ggml.ggml_backend_dev_by_type(DEVICE_CPU));
}

ggml_registry registry = { GGML_API_VERSION, name_of_registry, count, device_at, function_at, nullptr };

ggml_device device(ggml_buffer_type * (*buffer_type)(ggml_device *)) {
    ggml_device d = {};
    d.registry = &registry;
    d.get_name = name_of_device; d.get_description = describe; d.get_memory = memory_of; d.get_type = type_of; d.get_props = properties;
    d.init_backend = init_backend; d.get_buffer_type = buffer_type; d.supports_op = supports_op; d.supports_buft = supports_buft;
    d.buffer_from_host_ptr = buffer_of_mapping;
    return d;
}

ggml_backend * init_backend(ggml_device *, const char *) {
    static uint8_t guid[16] = { 0x9d, 0x44, 0x1f, 0x6e, 0x02, 0xb7, 0x4c, 0x8a, 0xb1, 0x35, 0x77, 0xd0, 0x5c, 0xe9, 0x60, 0x2f };
    ggml_device * d = latest = new ggml_device(device(type_of_results));
    d->context = (void *) (request.attention ? LAYERS : PRODUCTS_ALONE);
    ggml_backend * b = new ggml_backend { &guid, {}, d, new_pass() };
    b->functions.get_name = name_of_backend;
    b->functions.free = free_backend;
    b->functions.graph_compute = graph_compute;
    return b;
}

} // namespace

ggml_device weights_device = device(type_of_weights);

EXPORT int spectui_kernels_abi(void) { return 3; }

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

EXPORT void spectui_kernels_request(int threads, int signs, int attention) { request = { threads, signs != 0, attention != 0, false }; }

// Of the model that is loaded next, after the request for it.
EXPORT void spectui_kernels_keep_mapped(void) { request.mapped = true; }

// The context that this thread made last computes attention from now on.
EXPORT void spectui_kernels_attend(void) { if (latest && !computes(latest, ATTENTION)) latest->context = (void *) ATTENTION; }

EXPORT size_t spectui_kernels_bytes(int type, int64_t k, int64_t rows, int64_t matrices) {
    const int f = format_of_weights(type, k, rows);
    return kernels && f >= 0 ? kernels->tensor_bytes(f, k, rows)*matrices : 0;
}

EXPORT int ggml_backend_score(void) { return kernels != nullptr; }
EXPORT ggml_registry * ggml_backend_init(void) { return kernels ? &registry : nullptr; }
