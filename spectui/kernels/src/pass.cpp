#include "pass.h"
#include "attention.h"
#include "signs.h"
#include <atomic>
#include <omp.h>
#include <string.h>
#include <vector>

namespace {

// One matrix times n columns, which lie anywhere.
struct Product {
    int format; int64_t k, rows; const uint8_t * packed;
    int n; size_t first;            // its columns in Pass::x and Pass::out
    size_t quantised;               // where its quantised columns lie
};

// Products whose columns are quantised together (one, or those of a mixture's experts), or the attention of a layer.
// `chosen`: only those tiles of the product that the one before, with the signs, shows to be the largest.
struct Step { size_t first, last; bool quantise, chosen; const void * x; Attention attention; };

} // namespace

struct Pass {
    int threads = 1;
    std::vector<const float *> x;
    std::vector<float *> out;
    std::vector<Product> products;
    std::vector<Step> steps;
    std::vector<uint8_t> buffer;
    std::vector<float> partials, scratch;     // of attention: its threads' sums, and what each has for itself
    std::vector<std::atomic<int64_t>> next;   // the first tile of each product, or item of attention, that no thread has taken
    std::vector<int> order;
    std::vector<float> largest;               // of each tile's products with signs
    std::vector<int64_t> chosen;              // the tiles that are read after that

    const float * column(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) const {
        return (const float *) ((const char *) t->data + i1*t->nb[1] + i2*t->nb[2] + i3*t->nb[3]);
    }

    void add_product(const ggml_tensor * op) {
        const ggml_tensor * w = op->src[0], * x_of = op->src[1];
        const bool signs = w->extra && !is_mapped(w) && x_of->ne[1]*x_of->ne[2]*x_of->ne[3] == 1;
        if (signs) {
            add_matrix(op, SIGNS_FORMAT, w->extra, false);
            largest.reserve(2*kernels->tiles(w->ne[1]));   // threads of OpenMP cannot pass a lack of memory on
            chosen.reserve(kernels->tiles(w->ne[1]));
        }
        add_matrix(op, format_of_weights(w), repacked(w), signs);
    }

    void add_matrix(const ggml_tensor * op, int format, const void * packed, bool chosen) {
        const ggml_tensor * x_of = op->src[1];
        Product p = begin(op->src[0], format, packed);
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
        steps.push_back({ products.size() - 1, products.size(), !again, chosen, x_of->data, {} });
    }

    // out[slot, token] = experts[ids[slot, token]] times x[slot or 0, token]
    void add_experts(const ggml_tensor * op) {
        const ggml_tensor * w = op->src[0], * x_of = op->src[1], * ids = op->src[2];
        const int format = format_of_weights(w);
        const int64_t slots = ids->ne[0], tokens = ids->ne[1], experts = w->ne[2];
        const size_t first = products.size();
        auto expert = [&](int64_t i) { return *(const int32_t *) ((const char *) ids->data + i % slots*ids->nb[0] + i/slots*ids->nb[1]); };
        // Counting sort of the columns by expert.
        order.assign(experts + 1, 0);
        for (int64_t i = 0; i < slots*tokens; i++) {
            if (expert(i) < 0 || expert(i) >= experts) ggml.ggml_abort(__FILE__, __LINE__, "there is no expert %d", expert(i));
            order[expert(i) + 1]++;
        }
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
            Product p = begin(w, format, (const uint8_t *) repacked(w) + e*matrix_bytes(w, format));
            p.first = at + order[e];
            p.n = order[e + 1] - order[e];
            place_columns(p, first == products.size());
        }
        steps.push_back({ first, products.size(), true, false, nullptr, {} });
    }

    Product begin(const ggml_tensor * w, int format, const void * packed) const {
        return { format, w->ne[0], w->ne[1], (const uint8_t *) packed, 0, x.size(), 0 };
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
            const int64_t tiles = step.chosen ? (int64_t) chosen.size() : kernels->tiles(p.rows), share = tiles/(4*threads), some = share < 1 ? 1 : share > 256 ? 256 : share;
            auto work = [&](int64_t first, int64_t last) {
                kernels->multiply(p.format, p.k, p.rows, p.packed, p.n, columns + p.quantised, &out[p.first], first, last);
            };
            for (int64_t t; (t = next[i].fetch_add(some, std::memory_order_relaxed)) < tiles; ) {
                const int64_t end = t + some < tiles ? t + some : tiles;
                if (!step.chosen) work(t, end);
                else for (int64_t c = t; c < end; c++) work(chosen[c], chosen[c] + 1);
            }
        }
    }

    void attend(const Step & step, int thread, int threads) {
        const Attention & a = step.attention;
        float * const sums = aligned(partials), * const own = aligned(scratch) + thread*Scratch::FLOATS;
        for (int64_t i; (i = next[step.first].fetch_add(1, std::memory_order_relaxed)) < a.items; ) kernels->attend(a, i, own, sums);
        if (!a.divided) return;
        #pragma omp barrier
        for (int64_t r = a.queries*thread/threads; r < a.queries*(thread + 1)/threads; r++) kernels->combine(a, r, sums);
    }

    // Memory that begins with a line of the cache: a register of 512 bits that lies in two is read half as fast.
    template <class T> static T * aligned(std::vector<T> & memory) { return (T *) (((uintptr_t) memory.data() + 63)/64*64); }
    static void reserve(std::vector<float> & memory, int64_t floats) {
        if ((int64_t) memory.size() < floats + 16) memory.resize(floats + 16);
    }

    void compute(ggml_graph * graph) {
        x.clear(); out.clear(); products.clear(); steps.clear();
        const int nodes = ggml.ggml_graph_n_nodes(graph);
        for (int i = 0; i < nodes; i++) {
            const ggml_tensor * op = ggml.ggml_graph_node(graph, i);
            if (!(op->flags & TENSOR_FLAG_COMPUTE)) continue;
            if (op->ne[0]*op->ne[1]*op->ne[2]*op->ne[3] == 0) continue;   // a pass that asks for no logits has products of no columns
            if (op->op == OP_MUL_MAT) add_product(op);
            if (op->op == OP_MUL_MAT_ID) add_experts(op);
            if (op->op == OP_FLASH_ATTN_EXT) {
                const Attention a(op, threads);
                reserve(partials, a.floats());
                reserve(scratch, threads*Scratch::FLOATS);
                steps.push_back({ products.size(), products.size(), true, false, nullptr, a });
                products.push_back({});   // its place in next
            }
        }
        if (steps.empty()) return;
        if (next.size() < products.size()) next = std::vector<std::atomic<int64_t>>(2*products.size());
        for (size_t i = 0; i < products.size(); i++) next[i].store(0, std::memory_order_relaxed);
        uint8_t * columns = aligned(buffer);
        #pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num(), team = omp_get_num_threads();
            for (size_t i = 0; i < steps.size(); i++) {
                if (steps[i].quantise && i) {   // the others may still read the buffer, or write what this step reads
                    #pragma omp barrier
                }
                if (steps[i].attention.op) { attend(steps[i], thread, team); continue; }
                if (steps[i].chosen) {
                    #pragma omp barrier
                    #pragma omp single
                    choose_tiles(out[products[steps[i].first].first], products[steps[i].first].rows, largest, chosen);
                }
                if (steps[i].quantise) {
                    quantise(steps[i], columns, thread, team);
                    #pragma omp barrier
                }
                multiply(steps[i], columns, team);
            }
        }
    }
};

Pass * new_pass() { return new Pass; }
void delete_pass(Pass * pass) { delete pass; }
void set_threads(Pass * pass, int n) { pass->threads = n; }
void compute(Pass * pass, ggml_graph * graph) { pass->compute(graph); }
