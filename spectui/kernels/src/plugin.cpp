// The kernels as a backend of ggml: a device of type ACCEL, which llama.cpp asks for each weight before it takes the CPU.
//
// Weights whose type is in formats.h get a buffer type of their own and are repacked as they are loaded. The scheduler then
// gives this backend the products with them, and leaves everything else to the CPU's backend. Results stay in the CPU's memory.
#include "attention.h"
#include "ggml.h"
#include "formats.h"
#include "set.h"
#include <atomic>
#include <map>
#include <new>
#include <omp.h>
#include <stdlib.h>
#include <string>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const KernelSet * const SETS[] = {   // the best first
#ifndef SPECTUI_NO_AVX512
    &avx512_set,
#endif
#ifndef SPECTUI_NO_AVXVNNI
    &avxvnni_set,
#endif
    &avx2_set,
};

ggml_functions ggml;
const KernelSet * kernels;           // the chosen set
std::atomic<bool> taking{ false };   // whether weights that are loaded now come here
std::atomic<bool> attending{ false };   // whether attention of short passes does
extern ggml_buffer_type weights_type;

int format_of_weights(const ggml_tensor * t) {
    const int f = format_of(t->type);
    return f >= 0 && t->ne[0] > 0 && t->ne[0] % FORMATS[f].block == 0 ? f : -1;
}
int64_t matrices(const ggml_tensor * t) { return t->ne[2]*t->ne[3]; }
size_t matrix_bytes(const ggml_tensor * t, int f) { return kernels->tensor_bytes(f, t->ne[0], t->ne[1]); }
size_t file_bytes(const ggml_tensor * t, int f) { return (size_t) t->ne[0]/FORMATS[f].block*FORMATS[f].bytes*t->ne[1]*matrices(t); }

// ---------------------------------------------------------------- the weights' buffer

struct Parts { std::vector<uint8_t> data; size_t came = 0; };

struct Memory {
    uint8_t * base;
    std::map<const void *, Parts> parts;   // of tensors that come in parts, until they are whole
};

void pack_tensor(ggml_tensor * t, int f, const uint8_t * data) {
    const int64_t tiles = kernels->tiles(t->ne[1]), all = tiles*matrices(t);
    const size_t of_file = file_bytes(t, f)/matrices(t), packed = matrix_bytes(t, f);
    auto work = [&](int64_t first, int64_t last) {
        while (first < last) {
            const int64_t m = first/tiles, end = last < (m + 1)*tiles ? last : (m + 1)*tiles;
            kernels->pack(f, t->ne[0], t->ne[1], data + m*of_file, (uint8_t *) t->data + m*packed, first - m*tiles, end - m*tiles);
            first = end;
        }
    };
    // Plain threads: a second team of OpenMP threads would slow the decoding thread's down.
    const int64_t cores = std::thread::hardware_concurrency(), useful = all/64, n = useful < cores ? useful : cores;
    std::vector<std::thread> others;
    for (int64_t i = 1; i < n; i++) others.emplace_back(work, all*i/n, all*(i + 1)/n);
    work(0, n > 1 ? all/n : all);
    for (std::thread & each : others) each.join();
}

void set_tensor(ggml_buffer * buffer, ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const int f = format_of_weights(t);
    if (f < 0) { memcpy((uint8_t *) t->data + offset, data, size); return; }
    const size_t whole = file_bytes(t, f);
    if (offset == 0 && size == whole) { pack_tensor(t, f, (const uint8_t *) data); return; }
    Memory & memory = *(Memory *) buffer->context;
    Parts & parts = memory.parts[t->data];
    parts.data.resize(whole);
    memcpy(&parts.data[offset], data, size);
    if ((parts.came += size) < whole) return;
    pack_tensor(t, f, parts.data.data());
    memory.parts.erase(t->data);
}

// Nothing in llama.cpp reads weights back but saving a model, which spectui does not.
void get_tensor(ggml_buffer *, const ggml_tensor *, void *, size_t, size_t) {
    ggml.ggml_abort(__FILE__, __LINE__, "spectui's kernels do not give weights back");
}

void * base(ggml_buffer * b) { return ((Memory *) b->context)->base; }
void clear(ggml_buffer * b, uint8_t value) { memset(base(b), value, b->size); }
void set_bytes(ggml_buffer *, ggml_tensor * t, uint8_t value, size_t offset, size_t size) { memset((uint8_t *) t->data + offset, value, size); }

constexpr size_t PAGE = 2u << 20;   // of the large kind: with small ones a pass takes 3 to 4 % longer

void release(ggml_buffer * b) {
    Memory * memory = (Memory *) b->context;
    free(memory->base);
    delete memory;
}

ggml_buffer * allocate(ggml_buffer_type * type, size_t size) {
    const size_t rounded = (size + PAGE)/PAGE*PAGE;
    void * p = nullptr;
    if (posix_memalign(&p, PAGE, rounded)) return nullptr;
#if defined(__linux__)
    madvise(p, rounded, MADV_HUGEPAGE);
#endif
    ggml_buffer_functions functions = {};
    functions.free_buffer = release;
    functions.get_base = base;
    functions.memset_tensor = set_bytes;
    functions.set_tensor = set_tensor;
    functions.get_tensor = get_tensor;
    functions.clear = clear;
    return ggml.ggml_backend_buffer_init(type, functions, new Memory { (uint8_t *) p, {} }, size);
}

const char * name_of_type(ggml_buffer_type *) { return "SPECTUI"; }
size_t alignment(ggml_buffer_type *) { return 64; }
size_t needed(ggml_buffer_type *, const ggml_tensor * t) {
    const int f = format_of_weights(t);
    if (f >= 0) return matrix_bytes(t, f)*matrices(t);
    return (size_t) t->nb[3]*t->ne[3];
}

// ---------------------------------------------------------------- what is taken

bool is_ours(const ggml_tensor * t) { return t->buffer && t->buffer->type == &weights_type && !t->view_src; }

// llama.cpp asks with an empty buffer before it loads a weight. Weights that are here must be taken ever after.
bool taken(const ggml_tensor * w) { return is_ours(w) && format_of_weights(w) >= 0 && (w->buffer->size > 0 || taking.load()); }

bool in_host_memory(const ggml_tensor * t) {
    const ggml_buffer * b = t->view_src ? t->view_src->buffer : t->buffer;
    return !b || ggml.ggml_backend_buft_is_host(b->type);
}

bool supports_product(const ggml_tensor * op) {
    const ggml_tensor * w = op->src[0], * x = op->src[1];
    if (!taken(w) || x->type != TYPE_F32 || x->nb[0] != 4 || op->type != TYPE_F32 || op->nb[0] != 4 || !in_host_memory(x)) return false;
    if (op->op == OP_MUL_MAT) return matrices(w) == 1;
    return w->ne[3] == 1 && op->src[2]->type == TYPE_I32 && in_host_memory(op->src[2]);
}

bool supports_op(ggml_device *, const ggml_tensor * op) {
    switch (op->op) {
    case OP_NONE: case OP_RESHAPE: case OP_VIEW: case OP_PERMUTE: case OP_TRANSPOSE: return true;
    case OP_MUL_MAT: case OP_MUL_MAT_ID: return supports_product(op);
    case OP_FLASH_ATTN_EXT: return attending.load() && Attention::supports(op) && in_host_memory(op->src[1]) && in_host_memory(op->src[2]);
    default: return false;
    }
}

// ---------------------------------------------------------------- computing

// One matrix times n columns, which lie anywhere.
struct Product {
    int format; int64_t k, rows; const uint8_t * packed;
    int n; size_t first;            // its columns in Pass::x and Pass::out
    size_t quantised;               // where its quantised columns lie
};

// Products whose columns are quantised together (one, or those of a mixture's experts), or the attention of a layer.
struct Step { size_t first, last; bool quantise; const void * x; Attention attention; };

struct Pass {
    int threads = 1;
    std::vector<const float *> x;
    std::vector<float *> out;
    std::vector<Product> products;
    std::vector<Step> steps;
    std::vector<uint8_t> buffer;
    std::vector<float> partials;              // of attention
    std::vector<std::atomic<int64_t>> next;   // the first tile of each product, or item of attention, that no thread has taken
    std::vector<int> order;

    const float * column(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) const {
        return (const float *) ((const char *) t->data + i1*t->nb[1] + i2*t->nb[2] + i3*t->nb[3]);
    }

    void add_product(const ggml_tensor * op) {
        const ggml_tensor * x_of = op->src[1];
        Product p = begin(op->src[0], 0);
        for (int64_t i3 = 0; i3 < x_of->ne[3]; i3++)
            for (int64_t i2 = 0; i2 < x_of->ne[2]; i2++)
                for (int64_t i1 = 0; i1 < x_of->ne[1]; i1++) {
                    x.push_back(column(x_of, i1, i2, i3));
                    out.push_back((float *) column(op, i1, i2, i3));
                }
        end(p);
        // Queries, keys and values, or gate and up, are products of the same columns.
        bool again = false;
        if (!steps.empty() && x_of->data == steps.back().x) {
            const Product & before = products[steps.back().first], & now = products.back();
            again = before.n == now.n && before.k == now.k && FORMATS[before.format].block == FORMATS[now.format].block
                 && memcmp(&x[before.first], &x[now.first], now.n*sizeof(float *)) == 0;
            if (again) products.back().quantised = before.quantised;
        }
        steps.push_back({ products.size() - 1, products.size(), !again, x_of->data, {} });
    }

    // out[slot, token] = experts[ids[slot, token]] times x[slot or 0, token]
    void add_experts(const ggml_tensor * op) {
        const ggml_tensor * x_of = op->src[1], * ids = op->src[2];
        const int64_t slots = ids->ne[0], tokens = ids->ne[1], experts = op->src[0]->ne[2];
        const size_t first = products.size();
        auto expert = [&](int64_t i) { return *(const int32_t *) ((const char *) ids->data + i % slots*ids->nb[0] + i/slots*ids->nb[1]); };
        // Counting sort of the columns by expert.
        order.assign(experts + 1, 0);
        for (int64_t i = 0; i < slots*tokens; i++) order[expert(i) + 1]++;
        for (int64_t e = 0; e < experts; e++) order[e + 1] += order[e];
        const size_t at = x.size();
        x.resize(at + slots*tokens); out.resize(at + slots*tokens);
        std::vector<int> place(order.begin(), order.end() - 1);
        for (int64_t i = 0; i < slots*tokens; i++) {
            const int to = place[expert(i)]++;
            x[at + to] = column(x_of, i % slots % x_of->ne[1], i/slots, 0);
            out[at + to] = (float *) column(op, i % slots, i/slots, 0);
        }
        for (int64_t e = 0; e < experts; e++) {
            if (order[e] == order[e + 1]) continue;
            Product p = begin(op->src[0], e);
            p.first = at + order[e];
            p.n = order[e + 1] - order[e];
            place_columns(p, first == products.size());
        }
        steps.push_back({ first, products.size(), true, nullptr, {} });
    }

    Product begin(const ggml_tensor * w, int64_t matrix) const {
        const int f = format_of_weights(w);
        return { f, w->ne[0], w->ne[1], (const uint8_t *) w->data + matrix*matrix_bytes(w, f), 0, x.size(), 0 };
    }
    void end(Product & p) {
        p.n = (int) (x.size() - p.first);
        place_columns(p, true);
    }
    // Steps use the buffer in turn; the products of one step lie behind each other.
    void place_columns(Product & p, bool at_begin) {
        if (!at_begin) {
            const Product & before = products.back();
            p.quantised = (before.quantised + kernels->columns(before.format, before.k, before.n) + 63)/64*64;
        }
        const size_t end = p.quantised + kernels->columns(p.format, p.k, p.n) + 64;
        if (buffer.size() < end) buffer.resize(end);
        products.push_back(p);
    }

    void quantise(const Step & step, uint8_t * columns, int thread, int threads) {
        for (size_t i = step.first; i < step.last; i++) {
            const Product & p = products[i];
            const int64_t blocks = p.k/FORMATS[p.format].block, all = blocks*p.n;
            int64_t at = all*thread/threads;
            const int64_t last = all*(thread + 1)/threads;
            while (at < last) {
                const int64_t c = at/blocks, end = last < (c + 1)*blocks ? last : (c + 1)*blocks;
                kernels->quantise(p.format, p.k, p.n, (int) c, at - c*blocks, end - c*blocks, x[p.first + c], columns + p.quantised);
                at = end;
            }
        }
    }

    void multiply(const Step & step, const uint8_t * columns, int threads) {
        for (size_t i = step.first; i < step.last; i++) {
            const Product & p = products[i];
            // Threads take some tiles at a time, so that one that is interrupted does not hold up the others.
            const int64_t tiles = kernels->tiles(p.rows), share = tiles/(4*threads), some = share < 1 ? 1 : share > 256 ? 256 : share;
            for (int64_t t; (t = next[i].fetch_add(some, std::memory_order_relaxed)) < tiles; )
                kernels->multiply(p.format, p.k, p.rows, p.packed, p.n, columns + p.quantised, &out[p.first], t, t + some < tiles ? t + some : tiles);
        }
    }

    void attend(const Step & step, int thread, int threads) {
        const Attention & a = step.attention;
        const int64_t items = a.items(), rows = a.rows();
        for (int64_t i; (i = next[step.first].fetch_add(1, std::memory_order_relaxed)) < items; ) a.compute(i, partials.data());
        #pragma omp barrier
        for (int64_t r = rows*thread/threads; r < rows*(thread + 1)/threads; r++) a.combine(r, partials.data());
    }

    void compute(ggml_graph * graph) {
        x.clear(); out.clear(); products.clear(); steps.clear();
        const int nodes = ggml.ggml_graph_n_nodes(graph);
        for (int i = 0; i < nodes; i++) {
            const ggml_tensor * op = ggml.ggml_graph_node(graph, i);
            if (op->ne[0]*op->ne[1]*op->ne[2]*op->ne[3] == 0) continue;   // a pass that asks for no logits has products of no columns
            if (op->op == OP_MUL_MAT) add_product(op);
            if (op->op == OP_MUL_MAT_ID) add_experts(op);
            if (op->op == OP_FLASH_ATTN_EXT) {
                const Attention a{ op };
                if ((int64_t) partials.size() < a.floats()) partials.resize(a.floats());
                steps.push_back({ products.size(), products.size(), true, nullptr, a });
                products.push_back({});   // its place in next
            }
        }
        if (steps.empty()) return;
        if (next.size() < products.size()) next = std::vector<std::atomic<int64_t>>(2*products.size());
        for (size_t i = 0; i < products.size(); i++) next[i].store(0, std::memory_order_relaxed);
        uint8_t * columns = (uint8_t *) (((uintptr_t) buffer.data() + 63)/64*64);
        #pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num(), team = omp_get_num_threads();
            for (size_t i = 0; i < steps.size(); i++) {
                if (steps[i].quantise && i) {   // the others may still read the buffer, or write what this step reads
                    #pragma omp barrier
                }
                if (steps[i].attention.op) { attend(steps[i], thread, team); continue; }
                if (steps[i].quantise) {
                    quantise(steps[i], columns, thread, team);
                    #pragma omp barrier
                }
                multiply(steps[i], columns, team);
            }
        }
    }
};

int graph_compute(ggml_backend * backend, ggml_graph * graph) {
    ((Pass *) backend->context)->compute(graph);
    return STATUS_SUCCESS;
}

// ---------------------------------------------------------------- device and registry

const char * name_of_backend(ggml_backend *) { return "SPECTUI"; }
void free_backend(ggml_backend * b) { delete (Pass *) b->context; delete b; }
void set_threads(ggml_backend * b, int n) { ((Pass *) b->context)->threads = n; }

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
}
bool supports_buft(ggml_device *, ggml_buffer_type * type) { return type == &weights_type || ggml.ggml_backend_buft_is_host(type); }
ggml_backend * init_backend(ggml_device *, const char *);

ggml_buffer_type * type_of_weights(ggml_device *) { return &weights_type; }
// The scheduler allocates a backend's results in its device's buffer type, and llama.cpp takes the weights' buffer type from the
// same function. Results must lie in host memory, or each would be copied. So backends belong to a second device, which is
// not registered.
ggml_buffer_type * type_of_results(ggml_device *) {
    return ggml.ggml_backend_dev_buffer_type(ggml.ggml_backend_dev_by_type(DEVICE_CPU));
}

ggml_device device(ggml_buffer_type * (*buffer_type)(ggml_device *)) {
    ggml_device d = {};
    d.get_name = name_of_device; d.get_description = describe; d.get_memory = memory_of; d.get_type = type_of; d.get_props = properties;
    d.init_backend = init_backend; d.get_buffer_type = buffer_type; d.supports_op = supports_op; d.supports_buft = supports_buft;
    return d;
}
ggml_device registered = device(type_of_weights), of_results = device(type_of_results);
ggml_buffer_type weights_type = { name_of_type, allocate, alignment, nullptr, needed, nullptr, &registered, nullptr };

ggml_backend * init_backend(ggml_device *, const char *) {
    static uint8_t guid[16] = { 0x9d, 0x44, 0x1f, 0x6e, 0x02, 0xb7, 0x4c, 0x8a, 0xb1, 0x35, 0x77, 0xd0, 0x5c, 0xe9, 0x60, 0x2f };
    ggml_backend * b = new ggml_backend { &guid, {}, &of_results, new Pass };
    b->functions.get_name = name_of_backend;
    b->functions.free = free_backend;
    b->functions.graph_compute = graph_compute;
    return b;
}

const char * name_of_registry(ggml_registry *) { return "SPECTUI"; }
size_t count(ggml_registry *) { return 1; }
ggml_device * device_at(ggml_registry *, size_t) { return &registered; }
void * function_at(ggml_registry *, const char * name) {
    return strcmp(name, "ggml_backend_set_n_threads") == 0 ? (void *) set_threads : nullptr;
}
ggml_registry registry = { GGML_API_VERSION, name_of_registry, count, device_at, function_at, nullptr };

} // namespace

EXPORT int spectui_kernels_abi(void) { return 1; }

EXPORT const char * spectui_kernels_sets(void) {
    static std::string names;
    names.clear();
    for (const KernelSet * each : SETS)
        if (each->supported()) names += (names.empty() ? "" : " ") + std::string(each->name);
    return names.c_str();
}

EXPORT int spectui_kernels_bind(const ggml_functions * functions, const char * set) {
    for (const KernelSet * each : SETS) {
        if (!each->supported() || (*set && strcmp(set, each->name) != 0)) continue;
        ggml = *functions;
        kernels = each;
        registered.registry = of_results.registry = &registry;
        return 0;
    }
    return 1;
}

EXPORT void spectui_kernels_use(int on) { taking = on != 0; }

EXPORT void spectui_kernels_attend(int on) { attending = on != 0; }

EXPORT size_t spectui_kernels_bytes(int type, int64_t k, int64_t rows, int64_t matrices) {
    const int f = format_of(type);
    return kernels && f >= 0 && k > 0 && k % FORMATS[f].block == 0 ? kernels->tensor_bytes(f, k, rows)*matrices : 0;
}

EXPORT int ggml_backend_score(void) { return kernels != nullptr; }
EXPORT ggml_registry * ggml_backend_init(void) { return kernels ? &registry : nullptr; }
