// A pass: a plan of steps, which it makes of a graph, and a team of threads that computes them.
#include "attention.h"
#include "rows.h"
#include "signs.h"
#include <algorithm>
#include <atomic>
#include <limits.h>
#include <omp.h>

namespace {

// One matrix times n columns, which lie anywhere.
struct Product {
    int format; int64_t k, rows; const uint8_t * packed;
    int n; size_t first;            // its columns in Plan::x and Plan::out
    size_t quantised;               // where its quantised columns lie
    size_t end() const { return quantised + columns_bytes(FORMATS[format].block, k, n); }
};

// Memory that a step reads or writes. `even`: floats without gaps, one for each of the step's elements.
struct Access { uintptr_t begin, end; bool writes, even; };

// Memory of the team itself, in place of an address.
enum Own : uintptr_t { COLUMNS = 1, PARTIALS, CHOSEN };
uintptr_t own(Own of, size_t at) { return (of << 60) + at; }

enum Kind { QUANTISE, MULTIPLY, CHOOSE, ATTEND, COMBINE, ROWS };

// What all threads do together. A step of elements is cut into runs of whole units, one for each thread; threads fetch the parts of
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

// A graph becomes steps, and steps become phases, between which all threads wait for each other. A step goes into the first phase
// behind all whose results it reads or whose operands it overwrites, whatever lies between them in the graph: queries, keys and
// values are multiplied in one. Where it takes over elements one by one from the step before, each thread has computed those that
// it needs by itself, and the two are in one phase.
struct Plan {
    int threads = 1;
    std::vector<const float *> x;
    std::vector<float *> out;
    std::vector<Product> products;
    std::vector<Step> steps;
    std::vector<Access> accesses;
    std::vector<size_t> first_of_phase, sequence;   // the step before which all are in earlier phases; all steps by phase
    std::vector<float> rotations;
    size_t bytes_of_columns, partials, scratch, signs;   // what the team needs: see there
    const ggml_tensor * columns_of = nullptr; // what the last quantised columns are
    int columns_block = 0;
    std::vector<int> order;                   // of a mixture's columns, by expert

    void make(ggml_cgraph * graph) {
        x.clear(); out.clear(); products.clear(); rotations.clear();
        steps.clear(); accesses.clear(); first_of_phase.clear(); sequence.clear();
        columns_of = nullptr;
        bytes_of_columns = partials = scratch = signs = 0;
        const int nodes = ggml.ggml_graph_n_nodes(graph);
        for (int i = 0; i < nodes; i++) {
            const ggml_tensor * op = ggml.ggml_graph_node(graph, i);
            if (!(op->flags & GGML_TENSOR_FLAG_COMPUTE)) continue;
            if (count(op) == 0) continue;   // a pass that asks for no logits has products of no columns
            switch (op->op) {
            case GGML_OP_NONE: case GGML_OP_RESHAPE: case GGML_OP_VIEW: case GGML_OP_PERMUTE: case GGML_OP_TRANSPOSE: break;
            case GGML_OP_MUL_MAT: add_product(op); break;
            case GGML_OP_MUL_MAT_ID: add_experts(op); break;
            case GGML_OP_FLASH_ATTN_EXT: add_attention(op); break;
            default: add_rows(op);
            }
        }
        products.push_back({});   // of steps without products
    }

    // ---------------------------------------------------------------- steps into phases

    void uses(uintptr_t begin, size_t bytes, bool writes, bool even = false) {
        accesses.push_back({ begin, begin + bytes, writes, even });
    }
    void uses(const ggml_tensor * t, bool writes, int64_t elements) {
        size_t bytes = t->nb[0], packed = 4;
        bool even = elements > 0 && t->type == GGML_TYPE_F32;
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

    void add_product(const ggml_tensor * op) {
        const ggml_tensor * w = op->src[0], * x_of = op->src[1];
        const bool with_signs = w->extra && !is_mapped(w) && count(x_of) == x_of->ne[0];
        if (with_signs) {
            add_matrix(op, SIGNS_FORMAT, w->extra, false);
            signs = std::max<size_t>(signs, tiles(w->ne[1]));
            reads(op);
            uses(own(CHOSEN, 0), 1, true);
            add({ CHOOSE, op, products.size() - 1 });
        }
        add_matrix(op, format_of_weights(w), repacked(w), with_signs);
    }

    void add_matrix(const ggml_tensor * op, int format, const void * packed, bool of_chosen) {
        const ggml_tensor * w = op->src[0], * x_of = op->src[1];
        const int n = (int) (count(x_of)/x_of->ne[0]);
        place({ format, w->ne[0], w->ne[1], (const uint8_t *) packed, n, x.size(), 0 }, true);
        for (int column = 0; column < n; column++) {
            x.push_back((const float *) row_of(x_of, x_of, column));
            out.push_back((float *) row_of(op, op, column));
        }
        // Queries, keys and values, or gate and up, are products of the same columns.
        const bool again = columns_of == x_of && columns_block == FORMATS[format].block;
        add_products(op, products.size() - 1, again ? 0 : count(x_of), count(x_of), of_chosen);
        columns_of = x_of;
        columns_block = FORMATS[format].block;
    }

    // The steps of all products from `first` on. `elements`: of columns that are quantised; `even`: how many lie in their order.
    void add_products(const ggml_tensor * op, size_t first, int64_t elements, int64_t even, bool of_chosen) {
        const size_t last = products.size(), begin = products[first].quantised, bytes = products.back().end() - begin;
        if (elements > 0) {
            reads(op->src[1], even);
            uses(own(COLUMNS, begin), bytes, true);
            add({ QUANTISE, op, first, last, elements, FORMATS[products[first].format].block });
        }
        uses(own(COLUMNS, begin), bytes, false);
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
        auto expert = [&](int i) { return *(const int32_t *) (row_at(ids, i/slots, 0, 0) + i % slots*ids->nb[0]); };
        order.resize(slots*tokens);
        for (int i = 0; i < slots*tokens; i++) {
            if (expert(i) < 0 || expert(i) >= experts) ggml.ggml_abort(__FILE__, __LINE__, "there is no expert %d", expert(i));
            order[i] = i;
        }
        std::stable_sort(order.begin(), order.end(), [&](int i, int j) { return expert(i) < expert(j); });
        for (size_t i = 0, end; i < order.size(); i = end) {
            const int e = expert(order[i]);
            for (end = i; end < order.size() && expert(order[end]) == e; end++) {
                x.push_back((const float *) row_at(x_of, order[end] % slots % x_of->ne[1], order[end]/slots, 0));
                out.push_back((float *) row_at(op, order[end] % slots, order[end]/slots, 0));
            }
            const uint8_t * packed = (const uint8_t *) repacked(w) + e*matrix_bytes(w, format);
            place({ format, w->ne[0], w->ne[1], packed, (int) (end - i), x.size() - (end - i), 0 }, first == products.size());
        }
        add_products(op, first, w->ne[0]*slots*tokens, 0, false);
        columns_of = nullptr;
    }

    // The quantised columns of one step's products lie behind each other.
    void place(Product p, bool at_begin) {
        if (!at_begin) p.quantised = up_to(products.back().end(), 64);
        bytes_of_columns = std::max(bytes_of_columns, p.end());
        products.push_back(p);
    }

    void add_attention(const ggml_tensor * op) {
        Step step{ ATTEND, op, products.size() };
        const Attention & a = step.attention = attention_of(op, threads);
        partials = std::max<size_t>(partials, a.partials());
        scratch = Scratch::FLOATS;
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
        if (op->op == GGML_OP_ROPE) {
            auto alike = [&](const Step & s) { return s.op->op == GGML_OP_ROPE && same_rotation(s.op, op); };
            auto before = std::find_if(steps.begin(), steps.end(), alike);
            step.table = before != steps.end() ? before->table : rotations.size();
            if (before == steps.end()) {   // positions are whole numbers, which no step writes
                rotations.resize(step.table + op->ne[2]*rotated(op));
                rotation(op, &rotations[step.table]);
            }
        }
        for (const ggml_tensor * t : op->src) reads(t, step.elements);
        writes(op, op->op == GGML_OP_SET_ROWS ? 0 : step.elements);
        add(step);
    }
};

// Memory that begins with a line of the cache: a register of 512 bits that lies in two is read half as fast.
template <class T> struct Aligned {
    std::vector<T> memory;
    void reserve(size_t n) { if (memory.size() < n + 64) memory.resize(n + 64); }
    T * begin() { return (T *) up_to((size_t) memory.data(), 64); }
};

struct Team : Pass {
    Plan plan;
    Aligned<uint8_t> columns;
    Aligned<float> partials, scratch;         // of attention: the threads' sums, and what each has for itself
    std::vector<std::atomic<int64_t>> next;   // the first tile of each product, or item of attention, that no thread has fetched
    std::vector<float> largest;               // of each tile's products with signs
    std::vector<int64_t> chosen;              // the tiles that are read after that

    void quantise(const Step & step, int64_t at, int64_t last) {
        const Product * p = &plan.products[step.first];
        const size_t first_column = p->first;
        while (at < last) {
            const int64_t column = at/p->k, begin = column*p->k, end = std::min(last, begin + p->k), block = FORMATS[p->format].block;
            while (first_column + column >= p->first + p->n) p++;
            kernels->quantise(p->format, p->k, p->n, (int) (first_column + column - p->first), (at - begin)/block, (end - begin)/block,
                              plan.x[first_column + column], columns.begin() + p->quantised);
            at = end;
        }
    }

    void multiply(const Step & step, int team) {
        for (size_t i = step.first; i < step.last; i++) {
            const Product & p = plan.products[i];
            // Threads fetch some tiles at a time, so that one that is interrupted does not hold up the others.
            const int64_t count = step.chosen ? (int64_t) chosen.size() : tiles(p.rows);
            const int64_t some = std::min<int64_t>(std::max<int64_t>(count/(4*team), 1), 256);
            auto work = [&](int64_t first, int64_t last) {
                kernels->multiply(p.format, p.k, p.rows, p.packed, p.n, columns.begin() + p.quantised, &plan.out[p.first], first, last);
            };
            for (int64_t t; (t = next[i].fetch_add(some, std::memory_order_relaxed)) < count; ) {
                const int64_t end = std::min(t + some, count);
                if (!step.chosen) work(t, end);
                else for (int64_t c = t; c < end; c++) work(chosen[c], chosen[c] + 1);
            }
        }
    }

    void run(const Step & step, int thread, int team) {
        const int64_t unit = plan.steps[step.leader].unit, units = (step.elements + unit - 1)/unit;
        const int64_t first = units*thread/team*unit, last = std::min(step.elements, units*(thread + 1)/team*unit);
        const Product & p = plan.products[step.first];
        switch (step.kind) {
        case QUANTISE: return quantise(step, first, last);
        case MULTIPLY: return multiply(step, team);
        case CHOOSE:   if (thread == 0) choose_tiles(plan.out[p.first], p.rows, largest, chosen); return;
        case ATTEND:
            for (int64_t i; (i = next[step.first].fetch_add(1, std::memory_order_relaxed)) < step.attention.items; )
                kernels->attend(step.attention, i, scratch.begin() + thread*Scratch::FLOATS, partials.begin());
            return;
        case COMBINE:  for (int64_t q = first; q < last; q++) kernels->combine(step.attention, q, partials.begin()); return;
        case ROWS:     return compute_rows(step.op, first, last, plan.rotations.data() + step.table);
        }
    }

    // Threads of OpenMP cannot pass a lack of memory on, so they have theirs before they begin.
    void reserve() {
        columns.reserve(plan.bytes_of_columns);
        partials.reserve(plan.partials);
        scratch.reserve(threads*plan.scratch);
        largest.reserve(2*plan.signs);
        chosen.reserve(plan.signs);
        if (next.size() < plan.products.size()) next = std::vector<std::atomic<int64_t>>(2*plan.products.size());
        for (size_t i = 0; i < plan.products.size(); i++) next[i].store(0, std::memory_order_relaxed);
    }

    ggml_status compute(ggml_cgraph * graph) override {
        plan.threads = threads;
        plan.make(graph);
        if (plan.steps.empty()) return GGML_STATUS_SUCCESS;
        reserve();
        std::atomic<int> end(INT_MAX);            // the phase that is not computed any more
        #pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num(), team = omp_get_num_threads();
            int phase = 0;
            for (size_t i : plan.sequence) {
                if (plan.steps[i].phase > phase) {
                    phase = plan.steps[i].phase;
                    if (thread == 0 && abort_asked && abort_asked(abort_data)) end.store(phase, std::memory_order_relaxed);
                    #pragma omp barrier
                    if (phase >= end.load(std::memory_order_relaxed)) break;
                }
                run(plan.steps[i], thread, team);
            }
        }
        return end == INT_MAX ? GGML_STATUS_SUCCESS : GGML_STATUS_ABORTED;
    }
};

} // namespace

Pass * new_pass() { return new Team; }
