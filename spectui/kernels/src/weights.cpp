// The weights' buffer: tensors whose type is in formats.h are repacked as they are loaded.
#include "plugin.h"
#include "signs.h"
#include <exception>
#include <stdlib.h>
#include <thread>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

struct Memory {
    uint8_t * base;
    std::vector<void *> owned;    // the base, or of a mapped file the copies of its tensors
};

size_t file_bytes(const ggml_tensor * t, int f) { return (size_t) t->ne[0]/FORMATS[f].block*FORMATS[f].bytes*t->ne[1]*matrices(t); }

void pack_tensor(const ggml_tensor * t, int f, const uint8_t * data, void * to, void * signs) {
    const int64_t of_matrix = tiles(t->ne[1]), all = of_matrix*matrices(t);
    const size_t of_file = file_bytes(t, f)/matrices(t), packed = matrix_bytes(t, f);
    auto work = [&](int64_t first, int64_t last) {
        while (first < last) {
            const int64_t m = first/of_matrix, begin = m*of_matrix, end = last < begin + of_matrix ? last : begin + of_matrix;
            kernels->pack(f, t->ne[0], t->ne[1], data + m*of_file, (uint8_t *) to + m*packed, first - begin, end - begin);
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
    for (std::thread & other : others) other.join();
}

// llama.cpp hands tensors over whole to devices that compute nothing asynchronously.
void set_tensor(ggml_backend_buffer_t, ggml_tensor * t, const void * data, size_t offset, size_t size) {
    const int f = format_of_weights(t);
    if (f < 0) { memcpy((uint8_t *) t->data + offset, data, size); return; }
    if (size != file_bytes(t, f)) ggml.ggml_abort(__FILE__, __LINE__, "a part of %s came alone", t->name);
    pack_tensor(t, f, (const uint8_t *) data, t->data, t->extra);
}

// The signs lie behind the weights.
ggml_status init_tensor(ggml_backend_buffer_t, ggml_tensor * t) {
    const int f = format_of_weights(t);
    t->extra = f >= 0 && has_signs(t) ? (uint8_t *) t->data + matrix_bytes(t, f) : nullptr;
    return GGML_STATUS_SUCCESS;
}

void * base(ggml_backend_buffer_t b) { return ((Memory *) b->context)->base; }

constexpr size_t PAGE = 2u << 20;   // of the large kind: with small ones a pass takes 3 to 4 % longer

void release(ggml_backend_buffer_t b) {
    Memory * memory = (Memory *) b->context;
    for (void * p : memory->owned) free(p);
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
ggml_status copy_tensor(ggml_backend_buffer_t b, ggml_tensor * t) {
    const int f = format_of_weights(t);
    t->extra = large_pages(matrix_bytes(t, f)*matrices(t));
    if (!t->extra) return GGML_STATUS_ALLOC_FAILED;
    ((Memory *) b->context)->owned.push_back(t->extra);
    pack_tensor(t, f, (const uint8_t *) t->data, t->extra, nullptr);
    return GGML_STATUS_SUCCESS;
}

ggml_backend_buffer_t buffer(ggml_backend_buffer_type_t type, void * p, size_t size) {
    ggml_backend_buffer_i i = {};
    i.free_buffer = release;
    i.get_base = base;
    i.init_tensor = type == &mapped_type ? copy_tensor : init_tensor;
    i.set_tensor = set_tensor;
    Memory * memory = new Memory { (uint8_t *) p, {} };
    if (type == &weights_type) memory->owned.push_back(p);
    return ggml.ggml_backend_buffer_init(type, i, memory, size);
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    void * p = large_pages(size);
    return p ? buffer(type, p, size) : nullptr;
}

const char * name_of_type(ggml_backend_buffer_type_t type) { return type == &mapped_type ? "SPECTUI_Mapped" : "SPECTUI"; }
bool in_host(ggml_backend_buffer_type_t) { return true; }
size_t alignment(ggml_backend_buffer_type_t) { return 64; }
size_t needed(ggml_backend_buffer_type_t, const ggml_tensor * t) {
    const int f = format_of_weights(t);
    if (f < 0) return (size_t) t->nb[3]*t->ne[3];
    return matrix_bytes(t, f)*matrices(t) + (has_signs(t) ? matrix_bytes(t, SIGNS_FORMAT) : 0);
}

} // namespace

ggml_backend_buffer_type weights_type = { { name_of_type, allocate, alignment, nullptr, needed, nullptr }, &weights_device, nullptr };
// As the file has them, where it is mapped: a GPU reads them for its passes over prompts.
ggml_backend_buffer_type mapped_type = { { name_of_type, allocate, alignment, nullptr, nullptr, in_host }, &weights_device, nullptr };

ggml_backend_buffer_t buffer_of_mapping(ggml_backend_dev_t, void * base, size_t size, size_t) { return buffer(&mapped_type, base, size); }
