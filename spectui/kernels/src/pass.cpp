#include "pass.h"
#include "attention.h"
#include "rows.h"
#include "signs.h"
#include <algorithm>
#include <atomic>
#include <limits.h>
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

// Memory that a step reads or writes. `even`: floats without gaps, one for each of the step's elements.
struct Access { uintptr_t begin, end; bool writes, even; };

// Memory of a pass itself, in place of an address.
enum Own : uintptr_t { COLUMNS = 1, PARTIALS, CHOSEN };
uintptr_t own(Own of, size_t at) { return (of << 60) + at; }

enum Kind { QUANTISE, MULTIPLY, CHOOSE, ATTEND, COMBINE, ROWS };

// What all threads do together. A step of elements is cut into runs of whole units, one for each thread; threads take the parts of
// other steps as they come.
struct Step {
    Kind kind;
    const ggml_tensor * op;
    size_t first = 0, last = 0;     // its products: one, or those of a mixture's experts
    int64_t elements = 0, unit = 1;
    bool chosen = false;            // only those tiles of the product that the one before, with the signs, shows to be the largest
    size_t table = 0;               // of a ROPE: where the rotation of its positions begins
    Attention attention = {};
    int phase = 0;
    size_t leader = 0, first_access = 0, last_access = 0;   // leader: the first of the steps that are cut alike
};

constexpr int REACH = 4;            // phases back from the last one, into which a step may be put

} // namespace

// A graph becomes steps, and steps become phases, between which all threads wait for each other. A step goes into the first phase
// behind all whose results it reads or whose operands it overwrites, whatever lies between them in the graph: queries, keys and
// values are multiplied in one. Where it takes over elements one by one from the step before, each thread has computed those that it needs by
// itself, and the two are in one phase.
struct Pass {
    int threads = 1;
    bool (*abort_asked)(void *) = nullptr;
    void * abort_data = nullptr;
    std::vector<const float *> x;
    std::vector<float *> out;
    std::vector<Product> products;
    std::vector<Step> steps;
    std::vector<Access> accesses;
    std::vector<size_t> first_of_phase, sequence;   // the step before which all are in earlier phases; all steps by phase
    const ggml_tensor * columns_of = nullptr; // what the last quantised columns are
    int columns_block = 0;
    std::vector<uint8_t> buffer;
    std::vector<float> partials, scratch;     // of attention: its threads' sums, and what each has for itself
    std::vector<float> rotations;
    std::vector<std::atomic<int64_t>> next;   // the first tile of each product, or item of attention, that no thread has taken
    std::vector<int> order;
    std::vector<float> largest;               // of each tile's products with signs
    std::vector<int64_t> chosen;              // the tiles that are read after that

    // ---------------------------------------------------------------- steps into phases

    void uses(uintptr_t begin, size_t bytes, bool writes, bool even = false) {
        accesses.push_back({ begin, begin + bytes, writes, even });
    }
    void uses(const ggml_tensor * t, bool writes, int64_t elements) {
        size_t bytes = t->nb[0], packed = 4;
        bool even = elements > 0 && t->type == TYPE_F32;
        for (int i = 0; i < 4; packed *= t->ne[i++]) {
            even &= t->nb[i] == packed || t->ne[i] == 1;
            bytes += (t->ne[i] - 1)*t->nb[i];
        }
        uses((uintptr_t) t->data, bytes, writes, even && packed == 4*(size_t) elements);
    }
    void reads(const ggml_tensor * t, int64_t elements = 0) { if (t) uses(t, false, elements); }
    void writes(const ggml_tensor * t, int64_t elements = 0) { uses(t, true, elements); }

    enum Relation { NONE, ONE_BY_ONE, ANY };
    Relation relation(const Step & a, const Step & b) const {
        Relation most = NONE;
        for (size_t i = a.first_access; i < a.last_access; i++) for (size_t j = b.first_access; j < b.last_access; j++) {
            const Access & u = accesses[i], & v = accesses[j];
            if (!(u.writes || v.writes) || u.begin >= v.end || v.begin >= u.end) continue;
            if (u.begin != v.begin || u.end != v.end || !u.even || !v.even || a.elements != b.elements) return ANY;
            most = ONE_BY_ONE;
        }
        return most;
    }

    // Add a step whose accesses are the last ones.
    void add(Step step) {
        const int latest = (int) first_of_phase.size() - 1, earliest = latest < REACH ? 0 : latest - REACH + 1;
        step.first_access = steps.empty() ? 0 : steps.back().last_access;
        step.last_access = accesses.size();
        step.phase = earliest;
        step.leader = steps.size();
        for (size_t i = latest < 0 ? 0 : first_of_phase[earliest]; i < steps.size(); i++) {
            const Step & before = steps[i];
            const Relation r = before.phase < step.phase ? NONE : relation(step, before);
            if (r == NONE) continue;
            const int64_t a = steps[before.leader].unit, b = step.unit;
            const bool alike = step.phase < before.phase || step.leader == steps.size() || step.leader == before.leader;
            const bool joins = r == ONE_BY_ONE && alike && std::max(a, b) % std::min(a, b) == 0;
            step.phase = joins ? before.phase : before.phase + 1;
            step.leader = joins ? before.leader : steps.size();
        }
        if (step.leader < steps.size()) steps[step.leader].unit = std::max(steps[step.leader].unit, step.unit);
        if (step.phase > latest) first_of_phase.push_back(steps.size());
        auto behind = sequence.end();
        while (behind != sequence.begin() && steps[behind[-1]].phase > step.phase) behind--;
        sequence.insert(behind, steps.size());
        steps.push_back(step);
    }

    // ---------------------------------------------------------------- operations into steps

    static const float * column(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
        return (const float *) ((const char *) t->data + i1*t->nb[1] + i2*t->nb[2] + i3*t->nb[3]);
    }

    void add_product(const ggml_tensor * op) {
        const ggml_tensor * w = op->src[0], * x_of = op->src[1];
        const bool signs = w->extra && !is_mapped(w) && x_of->ne[1]*x_of->ne[2]*x_of->ne[3] == 1;
        if (signs) {
            add_matrix(op, SIGNS_FORMAT, w->extra, false);
            largest.reserve(2*kernels->tiles(w->ne[1]));   // threads of OpenMP cannot pass a lack of memory on
            chosen.reserve(kernels->tiles(w->ne[1]));
            reads(op);
            uses(own(CHOSEN, 0), 1, true);
            add({ CHOOSE, op, products.size() - 1 });
        }
        add_matrix(op, format_of_weights(w), repacked(w), signs);
    }

    void add_matrix(const ggml_tensor * op, int format, const void * packed, bool of_chosen) {
        const ggml_tensor * x_of = op->src[1];
        Product p = begin(op->src[0], format, packed);
        for (int64_t i3 = 0; i3 < x_of->ne[3]; i3++)
            for (int64_t i2 = 0; i2 < x_of->ne[2]; i2++)
                for (int64_t i1 = 0; i1 < x_of->ne[1]; i1++) {
                    x.push_back(column(x_of, i1, i2, i3));
                    out.push_back((float *) column(op, i1, i2, i3));
                }
        p.n = (int) (x.size() - p.first);
        place_columns(p, true);
        // Queries, keys and values, or gate and up, are products of the same columns.
        const bool again = columns_of == x_of && columns_block == FORMATS[format].block;
        add_products(op, products.size() - 1, again ? 0 : p.k*p.n, p.k*p.n, of_chosen);
        columns_of = x_of;
        columns_block = FORMATS[format].block;
    }

    // The steps of all products from `first` on. `elements`: of columns that are quantised; `even`: how many lie in their order.
    void add_products(const ggml_tensor * op, size_t first, int64_t elements, int64_t even, bool of_chosen) {
        const size_t last = products.size();
        if (elements > 0) {
            reads(op->src[1], even);
            uses_columns(first, last, true);
            add({ QUANTISE, op, first, last, elements, FORMATS[products[first].format].block });
        }
        uses_columns(first, last, false);
        if (of_chosen) uses(own(CHOSEN, 0), 1, false);
        writes(op);
        add({ MULTIPLY, op, first, last, 0, 1, of_chosen });
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
        add_products(op, first, w->ne[0]*slots*tokens, 0, false);
        columns_of = nullptr;
    }

    Product begin(const ggml_tensor * w, int format, const void * packed) const {
        return { format, w->ne[0], w->ne[1], (const uint8_t *) packed, 0, x.size(), 0 };
    }
    // The products of one step lie behind each other.
    void place_columns(Product & p, bool at_begin) {
        if (!at_begin) p.quantised = (end_of_columns(products.back()) + 63)/64*64;
        if (buffer.size() < end_of_columns(p) + 64) buffer.resize(end_of_columns(p) + 64);
        products.push_back(p);
    }
    static size_t end_of_columns(const Product & p) { return p.quantised + kernels->columns(p.format, p.k, p.n); }
    void uses_columns(size_t first, size_t last, bool writes) {
        uses(own(COLUMNS, products[first].quantised), end_of_columns(products[last - 1]) - products[first].quantised, writes);
    }

    void add_attention(const ggml_tensor * op) {
        const Attention a(op, threads);
        reserve(partials, a.floats());
        reserve(scratch, threads*Scratch::FLOATS);
        Step step{ ATTEND, op, products.size() };
        step.attention = a;
        products.push_back({});   // its place in next
        for (const ggml_tensor * t : op->src) reads(t);
        if (a.divided) uses(own(PARTIALS, 0), 1, true);
        else writes(op);
        add(step);
        if (!a.divided) return;
        uses(own(PARTIALS, 0), 1, false);
        writes(op);
        step.kind = COMBINE;
        step.elements = a.queries;
        add(step);
    }

    void add_rows(const ggml_tensor * op) {
        Step step{ ROWS, op, 0, 0, elements_of(op), unit_of(op) };
        if (op->op == OP_ROPE) {
            auto alike = [&](const Step & s) { return s.op->op == OP_ROPE && same_rotation(s.op, op); };
            auto before = std::find_if(steps.begin(), steps.end(), alike);
            step.table = before != steps.end() ? before->table : rotations.size();
            if (before == steps.end()) {   // positions are whole numbers, which no step writes
                rotations.resize(step.table + op->ne[2]*rotated(op));
                rotation(op, &rotations[step.table]);
            }
        }
        for (const ggml_tensor * t : op->src) reads(t, step.elements);
        writes(op, op->op == OP_SET_ROWS ? 0 : step.elements);
        add(step);
    }

    // ---------------------------------------------------------------- what a thread does

    void quantise(const Step & step, int64_t at, int64_t last, uint8_t * columns) {
        const Product * p = &products[step.first];
        const size_t first_column = p->first;
        while (at < last) {
            const int64_t column = at/p->k, begin = column*p->k, end = std::min(last, begin + p->k), block = FORMATS[p->format].block;
            while (first_column + column >= p->first + p->n) p++;
            kernels->quantise(p->format, p->k, p->n, (int) (first_column + column - p->first), (at - begin)/block, (end - begin)/block,
                              x[first_column + column], columns + p->quantised);
            at = end;
        }
    }

    void multiply(const Step & step, const uint8_t * columns, int threads) {
        for (size_t i = step.first; i < step.last; i++) {
            const Product & p = products[i];
            // Threads take some tiles at a time, so that one that is interrupted does not hold up the others.
            const int64_t tiles = step.chosen ? (int64_t) chosen.size() : kernels->tiles(p.rows);
            const int64_t some = std::min<int64_t>(std::max<int64_t>(tiles/(4*threads), 1), 256);
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

    void run(const Step & step, int thread, int threads) {
        const int64_t unit = steps[step.leader].unit, units = (step.elements + unit - 1)/unit;
        const int64_t first = units*thread/threads*unit, last = std::min(step.elements, units*(thread + 1)/threads*unit);
        const Product & p = products[step.first];
        switch (step.kind) {
        case QUANTISE: return quantise(step, first, last, aligned(buffer));
        case MULTIPLY: return multiply(step, aligned(buffer), threads);
        case CHOOSE:   if (thread == 0) choose_tiles(out[p.first], p.rows, largest, chosen); return;
        case ATTEND:
            for (int64_t i; (i = next[step.first].fetch_add(1, std::memory_order_relaxed)) < step.attention.items; )
                kernels->attend(step.attention, i, aligned(scratch) + thread*Scratch::FLOATS, aligned(partials));
            return;
        case COMBINE:  for (int64_t r = first; r < last; r++) kernels->combine(step.attention, r, aligned(partials)); return;
        case ROWS:     return compute_rows(step.op, first, last, rotations.data() + step.table);
        }
    }

    // Memory that begins with a line of the cache: a register of 512 bits that lies in two is read half as fast.
    template <class T> static T * aligned(std::vector<T> & memory) { return (T *) (((uintptr_t) memory.data() + 63)/64*64); }
    static void reserve(std::vector<float> & memory, int64_t floats) {
        if ((int64_t) memory.size() < floats + 16) memory.resize(floats + 16);
    }

    int compute(ggml_graph * graph) {
        x.clear(); out.clear(); products.clear(); rotations.clear();
        steps.clear(); accesses.clear(); first_of_phase.clear(); sequence.clear();
        columns_of = nullptr;
        const int nodes = ggml.ggml_graph_n_nodes(graph);
        for (int i = 0; i < nodes; i++) {
            const ggml_tensor * op = ggml.ggml_graph_node(graph, i);
            if (!(op->flags & TENSOR_FLAG_COMPUTE)) continue;
            if (op->ne[0]*op->ne[1]*op->ne[2]*op->ne[3] == 0) continue;   // a pass that asks for no logits has products of no columns
            switch (op->op) {
            case OP_NONE: case OP_RESHAPE: case OP_VIEW: case OP_PERMUTE: case OP_TRANSPOSE: break;
            case OP_MUL_MAT: add_product(op); break;
            case OP_MUL_MAT_ID: add_experts(op); break;
            case OP_FLASH_ATTN_EXT: add_attention(op); break;
            default: add_rows(op);
            }
        }
        if (steps.empty()) return STATUS_SUCCESS;
        products.push_back({});   // of steps without products
        if (next.size() < products.size()) next = std::vector<std::atomic<int64_t>>(2*products.size());
        for (size_t i = 0; i < products.size(); i++) next[i].store(0, std::memory_order_relaxed);
        std::atomic<int> end(INT_MAX);            // the phase that is not computed any more
        #pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num(), team = omp_get_num_threads();
            int phase = 0;
            for (size_t i : sequence) {
                if (steps[i].phase > phase) {
                    phase = steps[i].phase;
                    if (thread == 0 && abort_asked && abort_asked(abort_data)) end.store(phase, std::memory_order_relaxed);
                    #pragma omp barrier
                    if (phase >= end.load(std::memory_order_relaxed)) break;
                }
                run(steps[i], thread, team);
            }
        }
        return end == INT_MAX ? STATUS_SUCCESS : STATUS_ABORTED;
    }
};

Pass * new_pass() { return new Pass; }
void delete_pass(Pass * pass) { delete pass; }
void set_threads(Pass * pass, int n) { pass->threads = n; }
void set_abort(Pass * pass, bool (*asked)(void *), void * data) { pass->abort_asked = asked; pass->abort_data = data; }
int compute(Pass * pass, ggml_graph * graph) { return pass->compute(graph); }
