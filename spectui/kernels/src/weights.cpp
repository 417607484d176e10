// The weights' buffer: tensors whose type is in formats.h are repacked as they are loaded.
#include "plugin.h"
#include "signs.h"
#include <exception>
#include <map>
#include <stdlib.h>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

struct Parts { std::vector<uint8_t> data; size_t came = 0; };

struct Memory {
    uint8_t * base;
    bool owned;                            // or it is the mapped file's
    std::map<const void *, Parts> parts;   // of tensors that come in parts, until they are whole
    std::vector<void *> copies;            // of tensors that stay in the mapped file
};

size_t file_bytes(const ggml_tensor * t, int f) { return (size_t) t->ne[0]/FORMATS[f].block*FORMATS[f].bytes*t->ne[1]*matrices(t); }

void pack_tensor(const ggml_tensor * t, int f, const uint8_t * data, void * to, void * signs) {
    const int64_t tiles = kernels->tiles(t->ne[1]), all = tiles*matrices(t);
    const size_t of_file = file_bytes(t, f)/matrices(t), packed = matrix_bytes(t, f);
    auto work = [&](int64_t first, int64_t last) {
        while (first < last) {
            const int64_t m = first/tiles, end = last < (m + 1)*tiles ? last : (m + 1)*tiles;
            kernels->pack(f, t->ne[0], t->ne[1], data + m*of_file, (uint8_t *) to + m*packed, first - m*tiles, end - m*tiles);
            if (signs) pack_signs(f, t->ne[0], t->ne[1], data, (uint8_t *) signs, first, end);
            first = end;
        }
    };
    // Plain threads: a second team of OpenMP threads would slow the decoding thread's down.
    const int64_t useful = all/64, n = useful < request.threads ? useful : request.threads;
    int64_t left = all;
    std::vector<std::thread> others;
    try {
        for (int64_t i = n - 1; i > 0; left = all*i/n, i--) others.emplace_back(work, all*i/n, left);
    } catch (const std::exception &) {}   // more threads, or their memory, cannot be had: this one does what is left
    work(0, left);
    for (std::thread & each : others) each.join();
}

void set_tensor(ggml_buffer * buffer, ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const int f = format_of_weights(t);
    if (f < 0) { memcpy((uint8_t *) t->data + offset, data, size); return; }
    const size_t whole = file_bytes(t, f);
    if (offset == 0 && size == whole) { pack_tensor(t, f, (const uint8_t *) data, t->data, t->extra); return; }
    Memory & memory = *(Memory *) buffer->context;
    Parts & parts = memory.parts[t->data];
    parts.data.resize(whole);
    memcpy(&parts.data[offset], data, size);
    if ((parts.came += size) < whole) return;
    pack_tensor(t, f, parts.data.data(), t->data, t->extra);
    memory.parts.erase(t->data);
}

// The signs lie behind the weights.
int init_tensor(ggml_buffer *, ggml_tensor * t) {
    const int f = format_of_weights(t);
    t->extra = f >= 0 && has_signs(t) ? (uint8_t *) t->data + matrix_bytes(t, f) : nullptr;
    return STATUS_SUCCESS;
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
    if (memory->owned) free(memory->base);
    for (void * copy : memory->copies) free(copy);
    delete memory;
}

void * large_pages(size_t size) {
    void * p = nullptr;
    if (posix_memalign(&p, PAGE, size + 1)) return nullptr;
#if defined(__linux__)
    madvise(p, size/PAGE*PAGE, MADV_HUGEPAGE);   // the rest of a last one would be wasted for each tensor
#endif
    return p;
}

// Without memory for its copy the tensor is llama.cpp's.
int copy_tensor(ggml_buffer * b, ggml_tensor * t) {
    const int f = format_of_weights(t);
    t->extra = large_pages(matrix_bytes(t, f)*matrices(t));
    if (!t->extra) return STATUS_ALLOC_FAILED;
    ((Memory *) b->context)->copies.push_back(t->extra);
    pack_tensor(t, f, (const uint8_t *) t->data, t->extra, nullptr);
    return STATUS_SUCCESS;
}

ggml_buffer * buffer(ggml_buffer_type * type, void * p, size_t size, bool owned) {
    ggml_buffer_functions functions = {};
    functions.free_buffer = release;
    functions.get_base = base;
    functions.init_tensor = owned ? init_tensor : copy_tensor;
    functions.memset_tensor = set_bytes;
    functions.set_tensor = set_tensor;
    functions.get_tensor = get_tensor;
    functions.clear = clear;
    return ggml.ggml_backend_buffer_init(type, functions, new Memory { (uint8_t *) p, owned, {}, {} }, size);
}

ggml_buffer * allocate(ggml_buffer_type * type, size_t size) {
    void * p = large_pages(size);
    return p ? buffer(type, p, size, true) : nullptr;
}

const char * name_of_type(ggml_buffer_type * type) { return type == &mapped_type ? "SPECTUI_Mapped" : "SPECTUI"; }
bool in_host(ggml_buffer_type *) { return true; }
size_t alignment(ggml_buffer_type *) { return 64; }
size_t needed(ggml_buffer_type *, const ggml_tensor * t) {
    const int f = format_of_weights(t);
    if (f < 0) return (size_t) t->nb[3]*t->ne[3];
    return matrix_bytes(t, f)*matrices(t) + (has_signs(t) ? matrix_bytes(t, SIGNS_FORMAT) : 0);
}

} // namespace

ggml_buffer_type weights_type = { name_of_type, allocate, alignment, nullptr, needed, nullptr, &weights_device, nullptr };
// As the file has them, where it is mapped: a GPU reads them for its passes over prompts.
ggml_buffer_type mapped_type = { name_of_type, allocate, alignment, nullptr, nullptr, in_host, &weights_device, nullptr };

ggml_buffer * buffer_of_mapping(ggml_device *, void * base, size_t size, size_t) { return buffer(&mapped_type, base, size, false); }
