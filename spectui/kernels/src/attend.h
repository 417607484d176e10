// Attention of one slice of queries over one chunk of cells: scores, their softmax, and the sums of values. Written once for
// all instruction sets, whose results have the same bits.
//
//   scores   16 cells' keys are widened to floats for all queries, 4 dimensions of a cell beside each other in registers:
//            [dk/4][16 cells][4]. A lane sums every fourth product of its cell; the four lanes of a cell are added at the end.
//   softmax  of the chunk, by its largest score
//   values   64 cells' values are widened for all queries, unless these are computed at once; a lane is a dimension, which sums the
//            chunk's cells in their order
//
// Scores and values are computed for V::QUERIES_AT_ONCE queries and four registers at once. A lane's sum depends neither on the
// other queries nor on what they see.
#pragma once
#include "attention.h"
#include "kernels.h"
#include <math.h>

namespace {

constexpr int STRIPS_AHEAD = 2;   // whose keys are asked for

// The floats of each query, `apart` floats from the last one's.
struct PerQuery {
    float * at; int64_t apart;
    float * operator[](int64_t i) const { return at + i*apart; }
};

constexpr float COEFFICIENTS[] = { 1.f/120, 1.f/24, 1.f/6, .5f, 1.f, 1.f };

// e^x for x <= 87, error 2 units in the last place: 2^n times a polynomial of the rest. That of NaN is NaN: max returns its second
// operand where one is none.
template <class V> INLINE typename V::F exponential(typename V::F x) {
    using F = typename V::F;
    const F round = V::splat(12582912.f);                            // 1.5 2^23: a sum with it is rounded to a whole number
    x = V::max(V::splat(-87.f), x);
    const F shifted = V::fma(x, V::splat(1.44269504f), round), n = shifted - round;
    F r = V::fnma(n, V::splat(0.693145752f), x);                     // ln 2 in two parts
    r = V::fnma(n, V::splat(1.42860677e-6f), r);
    F p = V::splat(1.f/720);
    UNROLL for (float c : COEFFICIENTS) p = V::fma(p, r, V::splat(c));
    return V::times_power(p, shifted);
}

template <class V> INLINE typename V::F tanh_of(typename V::F x) {
    return 1.f - 2.f/(exponential<V>(V::min(V::splat(30.f), x + x)) + 1.f);
}

// ---------------------------------------------------------------- cells

inline size_t bytes_of(const ggml_tensor * cells) { return cells->type == GGML_TYPE_F16 ? 2*cells->ne[0] : cells->ne[0]/32*34; }

// Ask for 16 cells, so that memory is read while others are computed.
INLINE void fetch_strip(const char * cell, size_t apart, size_t bytes) {
    for (int c = 0; c < STRIP; c++, cell += apart)
        for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(cell + i, _MM_HINT_T0);
}

// Eight values of a block of Q8_0.
INLINE __m256 eight(__m256 scale, const char * codes) {
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) codes))));
}
INLINE __m256 scale_of(const char * block) { return _mm256_set1_ps(_cvtsh_ss(half_at((const uint8_t *) block))); }

// The keys of 16 cells. Registers i, i + 1 ... i + 3 have 4*CELLS of them: register i + j the cells j, j + 4, j + 8 ...
template <class V> INLINE void widen_keys(int type, const char * cell, size_t apart, int dk, float * to) {
    constexpr int L = V::LANES, CELLS = L/4, FOUR = 4*STRIP;         // cells of a register; floats of 4 dimensions
    if (type == GGML_TYPE_F16) {
        UNROLL for (int i = 0; i < STRIP/CELLS; i++) {
            const char * first = cell + (i/4*4*CELLS + i % 4)*apart;
            float * out = to + i*L;
            for (int d = 0; d < dk; d += 8, out += 2*FOUR) V::four_halves(first + 2*d, 4*apart, out, out + FOUR);
        }
        return;
    }
    for (int c = 0; c < STRIP; c++, cell += apart) {                 // Q8_0
        const int in_four = c % (4*CELLS);
        float * out = to + (c/(4*CELLS)*4 + in_four % 4)*L + in_four/4*4;
        for (int d = 0; d < dk; d += 32) {
            const char * block = cell + d/32*34;
            const __m256 scale = scale_of(block);
            UNROLL for (int j = 0; j < 32; j += 8, out += 2*FOUR) {
                const __m256 x = eight(scale, block + 2 + j);
                _mm_storeu_ps(out, _mm256_castps256_ps128(x));
                _mm_storeu_ps(out + FOUR, _mm256_extractf128_ps(x, 1));
            }
        }
    }
}

// The values of a cell, and zeros up to a register's end.
template <class V> INLINE void widen_values(int type, const char * cell, int dv, int padded, float * to) {
    if (type == GGML_TYPE_F16) {
        int i = 0;
        for (; i + V::LANES <= dv; i += V::LANES) V::store(to + i, V::halves(cell + 2*i));
        if (i < dv) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) (cell + 2*i))));
        if (dv < padded) memset(to + dv, 0, 4*(padded - dv));
        return;
    }
    for (int i = 0; i < dv; i += 32, cell += 34) {                   // Q8_0
        const __m256 scale = scale_of(cell);
        UNROLL for (int j = 0; j < 32; j += 8) _mm256_storeu_ps(to + i + j, eight(scale, cell + 2 + j));
    }
}

// The cells of 16 that a row of a mask lets be seen, a bit each.
INLINE uint16_t seen_of(const char * mask) {
    const __m128i none = _mm_set1_epi16((short) 0xFC00);             // minus infinity
    const __m128i a = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *) mask), none);
    const __m128i b = _mm_cmpeq_epi16(_mm_loadu_si128((const __m128i *) mask + 1), none);
    return (uint16_t) ~_mm_movemask_epi8(_mm_packs_epi16(a, b));
}

// ---------------------------------------------------------------- some queries at once

// f(first, Constant<count>) for parts of at most MOST of n queries, all of about the same size.
template <int MOST, class F> INLINE void in_parts(int64_t n, F && f) {
    const Groups parts((int) n, MOST);
    for (int p = 0; p < parts.count; p++)
        repeat<MOST>([&](auto i) INLINE_LAMBDA { if (parts.size(p) == i + 1) f(parts.first(p), Constant<i + 1>()); });
}

// Scores of N queries for the cells of four registers of keys.
template <class V, int N> INLINE void scores_of(PerQuery q, int64_t first, int dk, const float * keys, PerQuery scores, int cell) {
    using F = typename V::F;
    F sum[N][4];
    const float * x[N];
    UNROLL for (int j = 0; j < N; j++) {
        x[j] = q[first + j];
        UNROLL for (int i = 0; i < 4; i++) sum[j][i] = F{};
    }
    for (int d = 0; d < dk; d += 4, keys += 4*STRIP) {
        F k[4];
        UNROLL for (int i = 0; i < 4; i++) k[i] = V::load_floats(keys + i*V::LANES);
        UNROLL for (int j = 0; j < N; j++) {
            const F four = V::repeat_4(x[j] + d);
            UNROLL for (int i = 0; i < 4; i++) sum[j][i] = V::fma(four, k[i], sum[j][i]);
        }
    }
    UNROLL for (int j = 0; j < N; j++) {
        const F a = V::low_pairs(sum[j][0], sum[j][1]) + V::high_pairs(sum[j][0], sum[j][1]);
        const F b = V::low_pairs(sum[j][2], sum[j][3]) + V::high_pairs(sum[j][2], sum[j][3]);
        V::store(scores[first + j] + cell, V::low_halves(a, b) + V::high_halves(a, b));
    }
}

// Values of cells that follow each other: floats, or the halves of the cells themselves, `apart` bytes from one cell to the next.
struct ValueCells { const char * at; size_t apart; bool halves; int first, count; };

// Add the values times Q queries' shares to N registers of their sums.
template <class V, int Q, int N, bool HALVES>
INLINE void values_of(PerQuery shares, int64_t first, const ValueCells & cells, PerQuery sums, int at) {
    using F = typename V::F;
    constexpr int L = V::LANES;
    F sum[Q][N];
    const float * p[Q];
    UNROLL for (int j = 0; j < Q; j++) {
        p[j] = shares[first + j] + cells.first;
        UNROLL for (int i = 0; i < N; i++) sum[j][i] = V::load_floats(sums[first + j] + at + i*L);
    }
    const char * values = cells.at + at*(HALVES ? 2 : 4);
    for (int c = 0; c < cells.count; c++, values += cells.apart) {
        F v[N];
        UNROLL for (int i = 0; i < N; i++) v[i] = HALVES ? V::halves(values + 2*i*L) : V::load_floats((const float *) values + i*L);
        UNROLL for (int j = 0; j < Q; j++) {
            const F share = V::splat(p[j][c]);
            UNROLL for (int i = 0; i < N; i++) sum[j][i] = V::fma(share, v[i], sum[j][i]);
        }
    }
    UNROLL for (int j = 0; j < Q; j++) UNROLL for (int i = 0; i < N; i++) V::store(sums[first + j] + at + i*L, sum[j][i]);
}

template <class V> void add_values(PerQuery shares, int64_t queries, const ValueCells & cells, PerQuery sums, int padded) {
    auto add = [&](int at, auto registers) {
        in_parts<V::QUERIES_AT_ONCE>(queries, [&](int64_t first, auto count) {
            constexpr int Q = decltype(count)::value, N = decltype(registers)::value;
            if (cells.halves) values_of<V, Q, N, true>(shares, first, cells, sums, at);
            else              values_of<V, Q, N, false>(shares, first, cells, sums, at);
        });
    };
    int i = 0;
    for (; i + 4*V::LANES <= padded; i += 4*V::LANES) add(i, Constant<4>());
    for (; i < padded; i += V::LANES) add(i, Constant<1>());
}

// ---------------------------------------------------------------- softmax

// Scores of a query in a chunk become shares: their exponentials by the largest score M, and the sum L of these.
template <class V> void softmax(float * scores, float cap, const char * mask, const uint16_t * seen, float & M, float & L) {
    using F = typename V::F;
    constexpr int PARTS = STRIP/V::LANES;
    alignas(64) float lanes[STRIP];
    F most = V::splat(-INFINITY), sum[PARTS] = {};
    for (int s = 0; s < STRIPS; s++) {
        if (seen[s]) UNROLL for (int j = 0; j < PARTS; j++) {
            const int cell = s*STRIP + j*V::LANES;                   // whatever the cells hold that are not seen
            F x = V::load_floats(scores + cell);
            if (cap != 0) x = cap*tanh_of<V>(x);
            x += V::halves(mask + 2*cell);
            V::store(scores + cell, x);
            most = V::max(V::where(seen[s] >> j*V::LANES, x, V::splat(-INFINITY)), most);   // of scores that are numbers
        }
    }
    V::store(lanes, most);
    M = lanes[0];
    for (int i = 1; i < V::LANES; i++) M = lanes[i] > M ? lanes[i] : M;
    for (int s = 0; s < STRIPS; s++) {
        if (seen[s]) UNROLL for (int j = 0; j < PARTS; j++) {
            float * at = scores + s*STRIP + j*V::LANES;
            const F share = V::where(seen[s] >> j*V::LANES, exponential<V>(V::load_floats(at) - M), F{});
            V::store(at, share);
            sum[j] += share;
        }
    }
    UNROLL for (int j = 0; j < PARTS; j++) V::store(lanes + j*V::LANES, sum[j]);
    for (int half = STRIP/2; half > 0; half /= 2) for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    L = lanes[0];
}

// Add a chunk's sums of a query to those of the chunks before it.
template <class V> INLINE void fold(const Attention & a, const float * part, float * whole) {
    float & M = whole[a.padded], & L = whole[a.padded + 1];
    const float of_part = part[a.padded], sum = part[a.padded + 1];
    if (sum == 0) return;                                            // no cell of the chunk is seen
    const float m = of_part > M ? of_part : M, before = M == m ? 1.f : expf(M - m), added = of_part == m ? 1.f : expf(of_part - m);
    for (int i = 0; i < a.padded; i += V::LANES)
        V::store(whole + i, V::fma(V::load_floats(part + i), V::splat(added), before*V::load_floats(whole + i)));
    L = L*before + sum*added;
    M = m;
}

inline void begin(const Attention & a, float * whole) {
    memset(whole, 0, 4*a.partial());
    whole[a.padded] = -INFINITY;
}

// A sink is one more score, whose share goes to no cell.
inline void finish(const Attention & a, int64_t query, const float * whole) {
    const float M = whole[a.padded], sink = a.sinks ? ((const float *) a.sinks->data)[a.head(query)] : -INFINITY, m = sink > M ? sink : M;
    const float of_cells = M == m ? 1.f : expf(M - m), sum = whole[a.padded + 1]*of_cells + (a.sinks ? expf(sink - m) : 0.f);
    const float share = sum == 0 ? 0.f : of_cells/sum;
    float * out = a.out(query);
    for (int i = 0; i < a.dv; i++) out[i] = whole[i]*share;
}

// ---------------------------------------------------------------- a chunk, an item

// What the tokens of a slice see of a chunk, a bit a cell.
struct Sight {
    uint16_t (*tokens)[STRIPS];                                      // of each token
    uint16_t some[STRIPS] = {}, all[STRIPS];

    Sight(const Attention & a, const Slice & s, int64_t first_cell, float * memory) : tokens((uint16_t (*)[STRIPS]) memory) {
        const int64_t strips = (a.cells - first_cell)/STRIP;
        memset(all, 255, sizeof all);
        for (int64_t token = s.first_token; token < s.last_token; token++) {
            uint16_t * of = tokens[token - s.first_token];
            for (int i = 0; i < STRIPS; i++) {
                of[i] = i < strips ? seen_of(a.mask_of(s, token) + 2*(first_cell + i*STRIP)) : 0;
                some[i] |= of[i];
                all[i] &= of[i];
            }
        }
    }
    bool whole(int strip) const { return strip < STRIPS && all[strip] == 0xFFFF; }
};

// The values of strips [i, end) of a chunk, which all tokens see, or of one that some see.
template <class V>
void add_strips(const Attention & a, const Slice & s, const Sight & seen, int64_t first_cell, int i, int end, const Scratch & memory,
                PerQuery sums) {
    const PerQuery shares{ memory.scores, CHUNK };
    const size_t apart = 4*a.padded;
    const char * const cell = a.value(s, first_cell + i*STRIP), * const floats = (const char *) memory.values;
    for (int c = 0; c < (end - i)*STRIP; c++) widen_values<V>(a.v->type, cell + c*a.v->nb[1], a.dv, a.padded, memory.values + c*a.padded);
    if (seen.whole(i)) return add_values<V>(shares, s.queries, { floats, apart, false, i*STRIP, (end - i)*STRIP }, sums, a.padded);
    for (int64_t query = 0; query < s.queries; query++) {            // what a token does not see may be infinite
        const uint16_t bits = seen.tokens[a.token(s, query) - s.first_token][i];
        for (int c = 0; c < STRIP; c++) {
            if (!(bits >> c & 1)) continue;
            const ValueCells of_cell{ floats + c*apart, apart, false, i*STRIP + c, 1 };
            add_values<V>({ shares[query], 0 }, 1, of_cell, { sums[query], 0 }, a.padded);
        }
    }
}

// The partial sums of a slice over a chunk.
template <class V> void attend_chunk(const Attention & a, const Slice & s, int64_t chunk, const Scratch & memory, PerQuery sums) {
    const int64_t first_cell = chunk*CHUNK;
    const PerQuery scores{ memory.scores, CHUNK }, q{ memory.q, a.dk };
    const Sight seen(a, s, first_cell, memory.seen);
    for (int i = 0; i < STRIPS; i++) {
        if (!seen.some[i]) continue;
        const char * cell = a.key(s, first_cell + i*STRIP);
        if (i + STRIPS_AHEAD < STRIPS) fetch_strip(cell + STRIPS_AHEAD*STRIP*a.k->nb[1], a.k->nb[1], bytes_of(a.k));
        fetch_strip(a.value(s, first_cell + i*STRIP), a.v->nb[1], bytes_of(a.v));
        widen_keys<V>(a.k->type, cell, a.k->nb[1], a.dk, memory.keys);
        in_parts<V::QUERIES_AT_ONCE>(s.queries, [&](int64_t first, auto count) {
            for (int j = 0; j < STRIP; j += V::LANES)
                scores_of<V, decltype(count)::value>(q, first, a.dk, memory.keys + 4*j, scores, i*STRIP + j);
        });
    }
    for (int64_t query = 0; query < s.queries; query++) {
        const int64_t token = a.token(s, query);
        float * of = sums[query];
        memset(of, 0, 4*a.padded);
        const char * mask = a.mask_of(s, token) + 2*first_cell;
        softmax<V>(scores[query], a.cap, mask, seen.tokens[token - s.first_token], of[a.padded], of[a.padded + 1]);
    }
    const bool at_once = s.queries <= V::QUERIES_AT_ONCE && a.v->type == GGML_TYPE_F16 && a.dv == a.padded;
    for (int i = 0, end; i < STRIPS; i = end) {
        end = i + 1;
        if (!seen.some[i]) continue;
        const int most = !seen.whole(i) ? 1 : at_once ? STRIPS : VALUE_STRIPS;
        while (end - i < most && seen.whole(end)) end++;
        if (!at_once || !seen.whole(i)) { add_strips<V>(a, s, seen, first_cell, i, end, memory, sums); continue; }
        const char * halves = a.value(s, first_cell + i*STRIP);
        add_values<V>(scores, s.queries, { halves, a.v->nb[1], true, i*STRIP, (end - i)*STRIP }, sums, a.padded);
    }
}

template <class V> void attend(const Attention & a, int64_t item, float * scratch, float * partials) {
    const Slice s = a.slice(item);
    const Scratch memory(scratch);
    for (int64_t i = 0; i < s.queries; i++) {
        const float * x = a.query(s, i);
        for (int d = 0; d < a.dk; d++) memory.q[i*a.dk + d] = x[d]*a.scale;
    }
    if (a.divided) {
        float * first = partials + (s.first_query*a.chunks + s.chunk)*a.partial();
        attend_chunk<V>(a, s, s.chunk, memory, { first, a.chunks*a.partial() });
        return;
    }
    const PerQuery part{ memory.part, a.partial() }, whole{ memory.whole, a.partial() };
    for (int64_t i = 0; i < s.queries; i++) begin(a, whole[i]);
    for (int64_t chunk = 0; chunk < a.chunks; chunk++) {
        attend_chunk<V>(a, s, chunk, memory, part);
        for (int64_t i = 0; i < s.queries; i++) fold<V>(a, part[i], whole[i]);
    }
    for (int64_t i = 0; i < s.queries; i++) finish(a, s.first_query + i, whole[i]);
}

// The chunks of a query together.
template <class V> void combine(const Attention & a, int64_t query, const float * partials) {
    float whole[WIDEST + 16];
    begin(a, whole);
    for (int64_t chunk = 0; chunk < a.chunks; chunk++) fold<V>(a, partials + (query*a.chunks + chunk)*a.partial(), whole);
    finish(a, query, whole);
}

template <class V> constexpr KernelSet kernel_set(const char * name, bool (*supported)()) {
    return { name, supported, V::LANES, pack<V>, quantise<V>, multiply<V>, attend<V>, combine<V> };
}

} // namespace
