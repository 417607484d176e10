#include "rows.h"
#include "attend.h"
#include "plugin.h"

namespace {

using V = Avx256;
using F = V::F;

constexpr int L = V::LANES;

// y = f(a, b) for n floats. The last ones are computed in whole registers too: a value's bits do not depend on its place.
template <class G> INLINE void map(int64_t n, float * y, const float * a, const float * b, G && f) {
    int64_t i = 0;
    for (; i + L <= n; i += L) V::store(y + i, f(V::load_floats(a + i), V::load_floats(b + i)));
    if (i == n) return;
    float rest[3][L] = {};
    memcpy(rest[0], a + i, 4*(n - i));
    memcpy(rest[1], b + i, 4*(n - i));
    V::store(rest[2], f(V::load_floats(rest[0]), V::load_floats(rest[1])));
    memcpy(y + i, rest[2], 4*(n - i));
}

INLINE F silu(F x) {
    return x/(1.f + exponential<V>(V::min(V::splat(87.f), 0.f - x)));
}
INLINE F gelu(F x) {
    return x*.5f*(1.f + tanh_of<V>(x*.79788456f*V::fma(x*x, V::splat(.044715f), V::splat(1.f))));
}

// b: of each element, or one number for all.
template <class G> INLINE void both(const ggml_tensor * b_of, int64_t n, float * y, const float * a, const float * b, G && f) {
    if (b_of->ne[0] > 1) return map(n, y, a, b, f);
    const F one = V::splat(*b);
    map(n, y, a, a, [&](F x, F) INLINE_LAMBDA { return f(x, one); });
}

// ---------------------------------------------------------------- whole rows

void norm(const ggml_tensor * op, float * y, const float * x) {
    const int64_t n = op->ne[0];
    F sum = {};
    for (int64_t i = 0; i < n; i += L) sum = V::fma(V::load_floats(x + i), V::load_floats(x + i), sum);
    float lanes[L];
    V::store(lanes, sum);
    for (int half = L/2; half > 0; half /= 2) for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    const float scale = 1.f/sqrtf(lanes[0]/n + parameter(op, 0));
    map(n, y, x, x, [&](F a, F) INLINE_LAMBDA { return a*scale; });
}

// Pairs of elements: neighbours, or those half of the rotated part apart.
void rope(const ggml_tensor * op, float * y, const float * x, const float * cosines) {
    const int64_t dims = op->op_params[1], pairs = dims/2;
    const bool neighbours = op->op_params[2] == GGML_ROPE_TYPE_NORMAL;
    const float * sines = cosines + pairs;
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t at = neighbours ? 2*i : i, other = neighbours ? at + 1 : at + pairs;
        const float a = x[at], b = x[other];
        y[at] = a*cosines[i] - b*sines[i];
        y[other] = a*sines[i] + b*cosines[i];
    }
    if (y != x) memcpy(y + dims, x + dims, 4*(op->ne[0] - dims));
}

// A row of cells in their type: halves or Q8_0.
void write_cells(const ggml_tensor * op, int64_t row) {
    const ggml_tensor * from = op->src[0], * numbers = op->src[1];
    const int64_t i1 = row % from->ne[1], i2 = row/from->ne[1] % from->ne[2], i3 = row/from->ne[1]/from->ne[2];
    const char * at = row_at(numbers, i2 % numbers->ne[1], i3 % numbers->ne[2], 0) + i1*numbers->nb[0];
    const int64_t number = numbers->type == GGML_TYPE_I64 ? *(const int64_t *) at : *(const int32_t *) at;
    if (number < 0 || number >= op->ne[1]) ggml.ggml_abort(__FILE__, __LINE__, "there is no row %d", (int) number);
    const float * x = (const float *) row_at(from, i1, i2, i3);
    char * y = row_at(op, number, i2, i3);
    for (int64_t i = 0; op->type == GGML_TYPE_F16 && i < from->ne[0]; i += L)
        _mm_storeu_si128((__m128i *) (y + 2*i), _mm256_cvtps_ph(V::load_floats(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (int64_t i = 0; op->type == GGML_TYPE_Q8_0 && i < from->ne[0]; i += 32, y += 34) {
        uint8_t record[40];
        quantise_32(x + i, record, 1, 0);
        const uint16_t d = _cvtss_sh(float_at(record + 36), 0);
        memcpy(y, &d, 2);
        memcpy(y + 2, record, 32);
    }
}

bool repeats(const ggml_tensor * t, const ggml_tensor * of) {
    if (!has_floats(t) || (t->ne[0] != of->ne[0] && t->ne[0] != 1)) return false;
    for (int i = 1; i < 4; i++) if (t->ne[i] != of->ne[i] && t->ne[i] != 1) return false;
    return true;
}

} // namespace

bool supports_rows(const ggml_tensor * op) {
    const ggml_tensor * x = op->src[0], * other = op->src[1];
    if (!x || !has_floats(x)) return false;
    if (op->op == GGML_OP_SET_ROWS) {
        if (x->ne[0] % 32 || (other->type != GGML_TYPE_I64 && other->type != GGML_TYPE_I32)) return false;
        return (op->type == GGML_TYPE_F16 && op->nb[0] == 2) || (op->type == GGML_TYPE_Q8_0 && op->nb[0] == 34);
    }
    if (!has_floats(op)) return false;
    switch (op->op) {
    case GGML_OP_ADD: case GGML_OP_MUL: return repeats(other, op) && x->ne[0] == op->ne[0];
    case GGML_OP_SCALE:            return true;
    case GGML_OP_GLU:              return (op->op_params[0] == GGML_GLU_OP_SWIGLU || op->op_params[0] == GGML_GLU_OP_GEGLU)
                                       && (!other || has_floats(other));
    case GGML_OP_RMS_NORM:         return op->ne[0] % L == 0;
    // Without a ramp between two scales (YaRN), and from the row's first element on.
    case GGML_OP_ROPE:             return (op->op_params[2] == GGML_ROPE_TYPE_NORMAL || op->op_params[2] == GGML_ROPE_TYPE_NEOX)
                                  && parameter(op, 7) == 0 && op->op_params[15] == 0 && op->ne[3] == 1;
    default:                  return false;
    }
}

int64_t elements_of(const ggml_tensor * op) { return count(op->op == GGML_OP_SET_ROWS ? op->src[0] : op); }

int64_t unit_of(const ggml_tensor * op) {
    if (op->op == GGML_OP_SET_ROWS) return op->src[0]->ne[0];
    return op->op == GGML_OP_RMS_NORM || op->op == GGML_OP_ROPE || op->ne[0] % LINE ? op->ne[0] : LINE;
}

int rotated(const ggml_tensor * op) { return op->op_params[1]; }

bool same_rotation(const ggml_tensor * a, const ggml_tensor * b) {
    const void * const of_a = a->src[2] ? a->src[2]->data : nullptr, * const of_b = b->src[2] ? b->src[2]->data : nullptr;
    return a->src[1] == b->src[1] && of_a == of_b && rotated(a) == rotated(b)
        && memcmp(a->op_params + 5, b->op_params + 5, 4*4) == 0;
}

// As ggml computes them: each angle is the one before it times a constant.
void rotation(const ggml_tensor * op, float * table) {
    const int pairs = rotated(op)/2;
    const float ratio = powf(parameter(op, 5), -2.f/rotated(op)), scale = parameter(op, 6), size = parameter(op, 8);
    const float * divisors = op->src[2] ? (const float *) op->src[2]->data : nullptr;
    for (int64_t row = 0; row < op->ne[2]; row++) {
        float angle = (float) ((const int32_t *) op->src[1]->data)[row], * cosines = table + row*rotated(op);
        for (int i = 0; i < pairs; i++, angle *= ratio) {
            const float turned = scale*(divisors ? angle/divisors[i] : angle);
            cosines[i] = cosf(turned)*size;
            cosines[pairs + i] = sinf(turned)*size;
        }
    }
}

void compute_rows(const ggml_tensor * op, int64_t first, int64_t last, const float * table) {
    const ggml_tensor * of = op->op == GGML_OP_SET_ROWS ? op->src[0] : op, * a_of = op->src[0], * b_of = op->src[1];
    while (first < last) {
        const int64_t row = first/of->ne[0], i = first % of->ne[0], n = (row + 1)*of->ne[0] < last ? of->ne[0] - i : last - first;
        first += n;
        if (op->op == GGML_OP_SET_ROWS) { write_cells(op, row); continue; }
        float * y = (float *) row_of(op, op, row) + i;
        const float * a = (const float *) row_of(a_of, op, row) + i, * b = a + of->ne[0];   // one tensor may have both parts of a GLU
        if (b_of) b = (const float *) row_of(b_of, op, row) + (b_of->ne[0] > 1 ? i : 0);
        switch (op->op) {
        case GGML_OP_ADD: both(b_of, n, y, a, b, [](F u, F v) INLINE_LAMBDA { return u + v; }); break;
        case GGML_OP_MUL: both(b_of, n, y, a, b, [](F u, F v) INLINE_LAMBDA { return u*v; }); break;
        case GGML_OP_SCALE: {
            const F by = V::splat(parameter(op, 0)), bias = V::splat(parameter(op, 1));
            map(n, y, a, a, [&](F u, F) INLINE_LAMBDA { return V::fma(u, by, bias); });
            break;
        }
        case GGML_OP_RMS_NORM: norm(op, y, a); break;
        case GGML_OP_ROPE: rope(op, y, a, table + row/op->ne[1]*rotated(op)); break;
        case GGML_OP_GLU:
            if (!b_of && op->op_params[1]) std::swap(a, b);
            if (op->op_params[0] == GGML_GLU_OP_SWIGLU) map(n, y, a, b, [](F gate, F up) INLINE_LAMBDA { return silu(gate)*up; });
            else                                        map(n, y, a, b, [](F gate, F up) INLINE_LAMBDA { return gelu(gate)*up; });
        }
    }
}
