// A block of K and V cells is widened to floats once for up to 16 query rows (rows of the pass times the heads that share them),
// which then find it in the L1 cache: llama.cpp widens it for each row and head again.
//
//   scores   8 cells at a time: 8 sums of dk/8 products, added across lanes by a tree        2 loads, 2 products a cycle
//   softmax  running maximum M and sum L of a row; sums are scaled when M grows              (Milakov, Gimelshein, arXiv 1805.02867)
//   output   64 values at a time: 8 sums in registers over the block's cells
//
// AVX2 and FMA alone: in 512 bits the lanes' sums cost more than they gain, and every set has these.
#include "attention.h"
#include <immintrin.h>
#include <math.h>
#include <string.h>

// Arrays of registers must be indexed by constants.
#define UNROLL _Pragma("GCC unroll 8")

namespace {

constexpr int BLOCK = 32, QUERIES = 16, WIDEST = 256;
constexpr int64_t CHUNK = 1024, TILED_FROM = 64;   // llama.cpp's tiles begin at 64 rows

constexpr float COEFFICIENTS[] = { 1.f/120, 1.f/24, 1.f/6, .5f, 1.f, 1.f };

// e^x for x <= 0, error 2 units in the last place: 2^n times a polynomial of the rest. That of NaN is NaN: max returns its second
// operand where one is none.
inline __m256 exponential(__m256 x) {
    x = _mm256_max_ps(_mm256_set1_ps(-87.f), x);
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x);            // ln 2 in two parts
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.f/720);
    UNROLL for (float c : COEFFICIENTS) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(c));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23)));
}

inline __m128 halves_of(__m256 v) { return _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); }
inline float largest(__m256 v) {
    __m128 a = halves_of(v);
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
inline float sum(__m256 v) {
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
// The sums of eight registers' lanes, in their order.
inline __m256 sums(const __m256 * a) {
    const __m256 x = _mm256_hadd_ps(_mm256_hadd_ps(a[0], a[1]), _mm256_hadd_ps(a[2], a[3]));
    const __m256 y = _mm256_hadd_ps(_mm256_hadd_ps(a[4], a[5]), _mm256_hadd_ps(a[6], a[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}

inline __m256 halves(const void * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }

// A cell's n values as floats: each eight of them, `apart` floats from the last eight.
inline void widen(int type, const char * cell, int n, float * to, int apart) {
    if (type == TYPE_F16) {
        _Pragma("GCC unroll 4") for (int i = 0; i < n; i += 8, to += apart) _mm256_store_ps(to, halves(cell + 2*i));
        return;
    }
    for (int i = 0; i < n; i += 32, cell += 34) {                                // Q8_0
        uint16_t h; memcpy(&h, cell, 2);
        const __m256 d = _mm256_set1_ps(_cvtsh_ss(h));
        for (int j = 0; j < 32; j += 8, to += apart)
            _mm256_store_ps(to, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) (cell + 2 + j))))));
    }
}

bool cells_are_known(const ggml_tensor * t) {
    return t->ne[0] <= WIDEST && ((t->type == TYPE_F16 && t->nb[0] == 2 && t->ne[0] % 8 == 0) || (t->type == TYPE_Q8_0 && t->nb[0] == 34 && t->ne[0] % 32 == 0));
}

struct Heads {                                    // how the rows of the output are numbered
    const ggml_tensor * q, * k, * v, * mask;
    int dk, dv, group;
    int64_t n, shared, streams, blocks;           // rows of the pass, K/V heads, sequences, blocks of query rows of a K/V head
    explicit Heads(const ggml_tensor * op) : q(op->src[0]), k(op->src[1]), v(op->src[2]), mask(op->src[3]), dk((int) k->ne[0]), dv((int) v->ne[0]),
        group((int) (q->ne[2]/k->ne[2])), n(q->ne[1]), shared(k->ne[2]), streams(q->ne[3]), blocks((n*group + QUERIES - 1)/QUERIES) {}
};

} // namespace

bool Attention::supports(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3];
    float extra[2];                               // ALiBi, logit soft-capping
    memcpy(extra, op->op_params + 1, sizeof extra);
    return !op->src[4] && extra[0] == 0 && extra[1] == 0 && q->type == TYPE_F32 && q->nb[0] == 4 && q->ne[1] < TILED_FROM && op->type == TYPE_F32
        && cells_are_known(k) && cells_are_known(v) && mask && mask->type == TYPE_F16 && mask->nb[0] == 2 && k->ne[1] % BLOCK == 0
        && k->ne[2] == v->ne[2] && q->ne[2] % k->ne[2] == 0 && k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3];
}

int64_t Attention::chunks() const { return (op->src[1]->ne[1] + CHUNK - 1)/CHUNK; }
int64_t Attention::items() const { const Heads h(op); return h.streams*h.shared*h.blocks*chunks(); }
int64_t Attention::rows() const { const Heads h(op); return h.streams*h.shared*h.n*h.group; }
int64_t Attention::partial() const { return op->src[2]->ne[0] + 8; }   // the sums of V; M; L

void Attention::compute(int64_t item, float * partials) const {
    const Heads h(op);
    const int64_t chunk = item % chunks(), block = item/chunks() % h.blocks, head = item/chunks()/h.blocks % h.shared, stream = item/chunks()/h.blocks/h.shared;
    const int64_t first_row = block*QUERIES, in_block = h.n*h.group - first_row, rows = in_block < QUERIES ? in_block : QUERIES;
    float scale; memcpy(&scale, op->op_params, 4);
    alignas(32) float K[BLOCK*WIDEST], V[BLOCK*WIDEST], Q[QUERIES*WIDEST], p[BLOCK];   // K: [8 cells together][dk/8][8 cells][8]
    const char * masks[QUERIES];
    float * sums_of[QUERIES];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = (first_row + r)/h.group, of = head*h.group + (first_row + r) % h.group;
        const float * x = (const float *) ((const char *) h.q->data + row*h.q->nb[1] + of*h.q->nb[2] + stream*h.q->nb[3]);
        for (int i = 0; i < h.dk; i += 8) _mm256_store_ps(Q + r*h.dk + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale)));
        masks[r] = (const char *) h.mask->data + row*h.mask->nb[1] + of % h.mask->ne[2]*h.mask->nb[2] + stream % h.mask->ne[3]*h.mask->nb[3];
        sums_of[r] = partials + (((stream*h.shared + head)*h.n*h.group + first_row + r)*chunks() + chunk)*partial();
        memset(sums_of[r], 0, partial()*4);
        sums_of[r][h.dv] = -INFINITY;
    }
    const int64_t end = (chunk + 1)*CHUNK < h.k->ne[1] ? (chunk + 1)*CHUNK : h.k->ne[1];
    for (int64_t cell = chunk*CHUNK; cell < end; cell += BLOCK) {
        bool widened = false;
        for (int64_t r = 0; r < rows; r++) {
            __m256 mask[4], s[4], most = _mm256_set1_ps(-INFINITY);
            UNROLL for (int j = 0; j < 4; j++) { mask[j] = halves(masks[r] + 2*(cell + 8*j)); most = _mm256_max_ps(most, mask[j]); }
            if (largest(most) == -INFINITY) continue;                            // this row sees no cell of the block
            if (!widened) for (int j = 0; j < BLOCK; j++) {
                widen(h.k->type, (const char *) h.k->data + (cell + j)*h.k->nb[1] + head*h.k->nb[2] + stream*h.k->nb[3], h.dk, K + j/8*8*h.dk + j%8*8, 64);
                widen(h.v->type, (const char *) h.v->data + (cell + j)*h.v->nb[1] + head*h.v->nb[2] + stream*h.v->nb[3], h.dv, V + j*h.dv, 8);
            }
            widened = true;
            float * const acc = sums_of[r], & M = acc[h.dv], & L = acc[h.dv + 1];
            uint32_t seen = 0;                                                   // a bit a cell
            most = _mm256_set1_ps(-INFINITY);
            UNROLL for (int j = 0; j < 4; j++) {
                __m256 a[8];
                UNROLL for (int c = 0; c < 8; c++) a[c] = _mm256_setzero_ps();
                const float * cells = K + 8*j*h.dk;
                for (int i = 0; i < h.dk; i += 8, cells += 64) {
                    const __m256 x = _mm256_load_ps(Q + r*h.dk + i);
                    UNROLL for (int c = 0; c < 8; c++) a[c] = _mm256_fmadd_ps(x, _mm256_load_ps(cells + 8*c), a[c]);
                }
                const __m256 is_seen = _mm256_cmp_ps(mask[j], _mm256_set1_ps(-INFINITY), _CMP_NEQ_OQ);
                s[j] = _mm256_blendv_ps(mask[j], _mm256_add_ps(sums(a), mask[j]), is_seen);   // whatever the other cells hold
                most = _mm256_max_ps(s[j], most);                                // of scores that are numbers
                seen |= (uint32_t) _mm256_movemask_ps(is_seen) << 8*j;
            }
            const float now = largest(most), m = now > M ? now : M, before = M == m ? 1.0f : expf(M - m);
            __m256 added = _mm256_setzero_ps();
            UNROLL for (int j = 0; j < 4; j++) {
                const __m256 is_seen = _mm256_cmp_ps(mask[j], _mm256_set1_ps(-INFINITY), _CMP_NEQ_OQ);
                s[j] = _mm256_and_ps(is_seen, exponential(_mm256_sub_ps(s[j], _mm256_set1_ps(m))));
                added = _mm256_add_ps(added, s[j]);
                _mm256_store_ps(p + 8*j, s[j]);
            }
            M = m;
            L = L*before + sum(added);
            const __m256 scaled = _mm256_set1_ps(before);
            int i = 0;
            for (; i + 64 <= h.dv; i += 64) {
                __m256 o[8];
                UNROLL for (int c = 0; c < 8; c++) o[c] = _mm256_mul_ps(_mm256_loadu_ps(acc + i + 8*c), scaled);
                const float * cell_values = V + i;
                for (int j = 0; j < BLOCK; j++, cell_values += h.dv) {
                    if (!(seen >> j & 1)) continue;                              // 0 times infinity is no number
                    const __m256 w = _mm256_set1_ps(p[j]);
                    UNROLL for (int c = 0; c < 8; c++) o[c] = _mm256_fmadd_ps(w, _mm256_load_ps(cell_values + 8*c), o[c]);
                }
                UNROLL for (int c = 0; c < 8; c++) _mm256_storeu_ps(acc + i + 8*c, o[c]);
            }
            for (; i < h.dv; i += 8) {
                __m256 o = _mm256_mul_ps(_mm256_loadu_ps(acc + i), scaled);
                for (int j = 0; j < BLOCK; j++)
                    if (seen >> j & 1) o = _mm256_fmadd_ps(_mm256_set1_ps(p[j]), _mm256_load_ps(V + j*h.dv + i), o);
                _mm256_storeu_ps(acc + i, o);
            }
        }
    }
}

void Attention::combine(int64_t row, const float * partials) const {
    const Heads h(op);
    const int64_t per_head = h.n*h.group, head = row/per_head % h.shared, stream = row/per_head/h.shared, r = row % per_head;
    const float * of = partials + row*chunks()*partial();
    float * out = (float *) ((char *) op->data + (head*h.group + r % h.group)*op->nb[1] + r/h.group*op->nb[2] + stream*op->nb[3]);
    float m = -INFINITY, l = 0, weight;
    for (int64_t c = 0; c < chunks(); c++) if (of[c*partial() + h.dv] > m) m = of[c*partial() + h.dv];
    memset(out, 0, h.dv*4);
    for (int64_t c = 0; c < chunks(); c++, of += partial()) {
        if (of[h.dv + 1] == 0) continue;                                         // no cell of the chunk is seen
        weight = of[h.dv] == m ? 1.0f : expf(of[h.dv] - m);
        l += of[h.dv + 1]*weight;
        for (int i = 0; i < h.dv; i++) out[i] += of[i]*weight;
    }
    for (int i = 0; i < h.dv; i++) out[i] *= l > 0 ? 1.0f/l : 0.0f;
}
