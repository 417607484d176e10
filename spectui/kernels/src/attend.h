// Attention of one block of query rows over one chunk of cells: scores, their softmax, and the sums of values. Written once for
// all instruction sets, whose results have the same bits.
//
//   scores   16 cells' keys are widened to floats for all query rows, 4 dimensions of a cell beside each other in registers:
//            [dk/4][16 cells][4]. A lane sums every fourth product of its cell; the four lanes of a cell are added at the end.
//   softmax  of the chunk, by its largest score
//   values   64 cells' values are widened for all query rows, unless these are one tile; a lane is a dimension, which sums the
//            chunk's cells in their order
//
// Scores and values are computed for V::TILE_ROWS query rows and four registers at once. A lane's sum depends neither on the other
// rows of the tile nor on what they see.
#pragma once
#include "attention.h"
#include "kernels.h"
#include <math.h>

namespace {

constexpr int STRIPS_AHEAD = 2;   // whose keys are asked for

// Rows of floats, each `apart` floats from the last.
struct Rows {
    float * at; int64_t apart;
    float * operator[](int64_t i) const { return at + i*apart; }
};

constexpr float COEFFICIENTS[] = { 1.f/120, 1.f/24, 1.f/6, .5f, 1.f, 1.f };

// e^x for x <= 87, error 2 units in the last place: 2^n times a polynomial of the rest. That of NaN is NaN: max returns its second
// operand where one is none.
template <class V> INLINE typename V::F exponential(typename V::F x) {
    using F = typename V::F;
    const F round = V::set(12582912.f);                              // 1.5 2^23: a sum with it is rounded to a whole number
    x = V::max(V::set(-87.f), x);
    const F shifted = V::fma(x, V::set(1.44269504f), round), n = V::sub(shifted, round);
    F r = V::fnma(n, V::set(0.693145752f), x);                       // ln 2 in two parts
    r = V::fnma(n, V::set(1.42860677e-6f), r);
    F p = V::set(1.f/720);
    UNROLL for (float c : COEFFICIENTS) p = V::fma(p, r, V::set(c));
    return V::times_power(p, shifted);
}

template <class V> INLINE typename V::F tanh_of(typename V::F x) {
    const typename V::F e = exponential<V>(V::min(V::set(30.f), V::add(x, x)));
    return V::fnma(V::set(2.f), V::divide(V::set(1.f), V::add(e, V::set(1.f))), V::set(1.f));
}

// ---------------------------------------------------------------- cells

inline size_t bytes_of(const ggml_tensor * cells) { return cells->type == TYPE_F16 ? 2*cells->ne[0] : cells->ne[0]/32*34; }

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
    constexpr int L = V::LANES, CELLS = L/4, STEP = 4*STRIP;         // cells of a register; floats of 4 dimensions
    if (type == TYPE_F16) {
        UNROLL for (int i = 0; i < STRIP/CELLS; i++) {
            const char * first = cell + (i/4*4*CELLS + i % 4)*apart;
            float * out = to + i*L;
            for (int d = 0; d < dk; d += 8, out += 2*STEP) V::four_halves(first + 2*d, 4*apart, out, out + STEP);
        }
        return;
    }
    for (int c = 0; c < STRIP; c++, cell += apart) {                 // Q8_0
        const int in_four = c % (4*CELLS);
        float * out = to + (c/(4*CELLS)*4 + in_four % 4)*L + in_four/4*4;
        for (int d = 0; d < dk; d += 32) {
            const char * block = cell + d/32*34;
            const __m256 scale = scale_of(block);
            UNROLL for (int j = 0; j < 32; j += 8, out += 2*STEP) {
                const __m256 x = eight(scale, block + 2 + j);
                _mm_storeu_ps(out, _mm256_castps256_ps128(x));
                _mm_storeu_ps(out + STEP, _mm256_extractf128_ps(x, 1));
            }
        }
    }
}

// The values of a cell, and zeros up to a register's end.
template <class V> INLINE void widen_values(int type, const char * cell, int dv, int padded, float * to) {
    if (type == TYPE_F16) {
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

// ---------------------------------------------------------------- tiles

// f(first, Constant<rows>) for tiles of at most MOST of n query rows, all of about the same size.
template <int MOST, class F> INLINE void in_tiles(int64_t n, F && f) {
    const int64_t tiles = (n + MOST - 1)/MOST;
    int64_t first = 0;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = n/tiles + (t < n % tiles);
        repeat<MOST>([&](auto r) INLINE_LAMBDA { if (rows == r + 1) f(first, Constant<r + 1>()); });
        first += rows;
    }
}

// Scores of R query rows for the cells of four registers of keys.
template <class V, int R> INLINE void score_tile(const Rows & q, int64_t first, int dk, const float * keys, const Rows & scores, int cell) {
    using F = typename V::F;
    F sum[R][4];
    const float * x[R];
    UNROLL for (int r = 0; r < R; r++) {
        x[r] = q[first + r];
        UNROLL for (int i = 0; i < 4; i++) sum[r][i] = V::floats_zero();
    }
    for (int d = 0; d < dk; d += 4, keys += 4*STRIP) {
        F k[4];
        UNROLL for (int i = 0; i < 4; i++) k[i] = V::load_floats(keys + i*V::LANES);
        UNROLL for (int r = 0; r < R; r++) {
            const F four = V::repeat_4(x[r] + d);
            UNROLL for (int i = 0; i < 4; i++) sum[r][i] = V::fma(four, k[i], sum[r][i]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        const F a = V::add(V::low_pairs(sum[r][0], sum[r][1]), V::high_pairs(sum[r][0], sum[r][1]));
        const F b = V::add(V::low_pairs(sum[r][2], sum[r][3]), V::high_pairs(sum[r][2], sum[r][3]));
        V::store(scores[first + r] + cell, V::add(V::low_halves(a, b), V::high_halves(a, b)));
    }
}

// Values of cells that follow each other: floats, or the halves of the cells themselves, `apart` bytes from one cell to the next.
struct ValueCells { const char * at; size_t apart; bool halves; int first, count; };

// Add the values times R query rows' shares to N registers of the rows' sums.
template <class V, int R, int N, bool HALVES>
INLINE void value_tile(const Rows & shares, int64_t first, const ValueCells & cells, const Rows & sums, int at) {
    using F = typename V::F;
    constexpr int L = V::LANES;
    F sum[R][N];
    const float * p[R];
    UNROLL for (int r = 0; r < R; r++) {
        p[r] = shares[first + r] + cells.first;
        UNROLL for (int i = 0; i < N; i++) sum[r][i] = V::load_floats(sums[first + r] + at + i*L);
    }
    const char * values = cells.at + at*(HALVES ? 2 : 4);
    for (int c = 0; c < cells.count; c++, values += cells.apart) {
        F v[N];
        UNROLL for (int i = 0; i < N; i++) v[i] = HALVES ? V::halves(values + 2*i*L) : V::load_floats((const float *) values + i*L);
        UNROLL for (int r = 0; r < R; r++) {
            const F share = V::set(p[r][c]);
            UNROLL for (int i = 0; i < N; i++) sum[r][i] = V::fma(share, v[i], sum[r][i]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < N; i++) V::store(sums[first + r] + at + i*L, sum[r][i]);
}

template <class V, int N, bool HALVES>
void add_registers(const Rows & shares, int64_t queries, const ValueCells & cells, const Rows & sums, int at) {
    in_tiles<V::TILE_ROWS>(queries, [&](int64_t first, auto rows) {
        value_tile<V, decltype(rows)::value, N, HALVES>(shares, first, cells, sums, at);
    });
}

template <class V> void add_values(const Rows & shares, int64_t queries, const ValueCells & cells, const Rows & sums, int padded) {
    int i = 0;
    const auto four = cells.halves ? add_registers<V, 4, true> : add_registers<V, 4, false>;
    const auto one = cells.halves ? add_registers<V, 1, true> : add_registers<V, 1, false>;
    for (; i + 4*V::LANES <= padded; i += 4*V::LANES) four(shares, queries, cells, sums, i);
    for (; i < padded; i += V::LANES) one(shares, queries, cells, sums, i);
}

// ---------------------------------------------------------------- softmax

// Scores of a query row in a chunk become shares: their exponentials by the largest score M, and the sum L of these.
template <class V> void softmax(float * scores, float cap, const char * mask, const uint16_t * seen, float & M, float & L) {
    using F = typename V::F;
    constexpr int PARTS = STRIP/V::LANES;
    alignas(64) float lanes[STRIP];
    F most = V::set(-INFINITY), sum[PARTS];
    for (int s = 0; s < STRIPS; s++) {
        if (seen[s]) UNROLL for (int j = 0; j < PARTS; j++) {
            const int cell = s*STRIP + j*V::LANES;                   // whatever the cells hold that are not seen
            F x = V::load_floats(scores + cell);
            if (cap != 0) x = V::mul(V::set(cap), tanh_of<V>(x));
            x = V::add(x, V::halves(mask + 2*cell));
            V::store(scores + cell, x);
            most = V::max(V::where(seen[s] >> j*V::LANES, x, V::set(-INFINITY)), most);   // of scores that are numbers
        }
    }
    V::store(lanes, most);
    M = lanes[0];
    for (int i = 1; i < V::LANES; i++) M = lanes[i] > M ? lanes[i] : M;
    UNROLL for (int j = 0; j < PARTS; j++) sum[j] = V::floats_zero();
    for (int s = 0; s < STRIPS; s++) {
        if (seen[s]) UNROLL for (int j = 0; j < PARTS; j++) {
            float * at = scores + s*STRIP + j*V::LANES;
            const F share = exponential<V>(V::sub(V::load_floats(at), V::set(M)));
            V::store(at, V::where(seen[s] >> j*V::LANES, share, V::floats_zero()));
            sum[j] = V::add(sum[j], V::load_floats(at));
        }
    }
    UNROLL for (int j = 0; j < PARTS; j++) V::store(lanes + j*V::LANES, sum[j]);
    for (int half = STRIP/2; half > 0; half /= 2) for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    L = lanes[0];
}

// Add a chunk's sums of a query row to those of the chunks before it.
template <class V> INLINE void fold(const Shape & s, const float * part, float * whole) {
    float & M = whole[s.padded], & L = whole[s.padded + 1];
    const float of_part = part[s.padded], sum = part[s.padded + 1];
    if (sum == 0) return;                                            // no cell of the chunk is seen
    const float m = of_part > M ? of_part : M, a = M == m ? 1.f : expf(M - m), b = of_part == m ? 1.f : expf(of_part - m);
    for (int i = 0; i < s.padded; i += V::LANES)
        V::store(whole + i, V::fma(V::load_floats(part + i), V::set(b), V::mul(V::load_floats(whole + i), V::set(a))));
    L = L*a + sum*b;
    M = m;
}

inline void begin(const Shape & s, float * whole) {
    memset(whole, 0, 4*s.partial());
    whole[s.padded] = -INFINITY;
}

// A sink is one more score, whose share goes to no cell.
inline void finish(const Shape & s, int64_t query, const float * whole) {
    const float M = whole[s.padded], sink = s.sinks ? ((const float *) s.sinks->data)[s.head(query)] : -INFINITY, m = sink > M ? sink : M;
    const float of_cells = M == m ? 1.f : expf(M - m), sum = whole[s.padded + 1]*of_cells + (s.sinks ? expf(sink - m) : 0.f);
    const float share = sum == 0 ? 0.f : of_cells/sum;
    float * out = s.out(query);
    for (int i = 0; i < s.dv; i++) out[i] = whole[i]*share;
}

// ---------------------------------------------------------------- a chunk, an item

// What the rows of a block see of a chunk, a bit a cell.
struct Sight {
    uint16_t (*rows)[STRIPS];                                        // of each row of the pass
    uint16_t some[STRIPS] = {}, all[STRIPS];

    Sight(const Shape & s, const Block & b, int64_t first_cell, float * memory) : rows((uint16_t (*)[STRIPS]) memory) {
        const int64_t strips = (s.cells - first_cell)/STRIP;
        memset(all, 255, sizeof all);
        for (int64_t row = b.first_row; row < b.last_row; row++) {
            uint16_t * of = rows[row - b.first_row];
            for (int i = 0; i < STRIPS; i++) {
                of[i] = i < strips ? seen_of(s.mask_of(b, row) + 2*(first_cell + i*STRIP)) : 0;
                some[i] |= of[i];
                all[i] &= of[i];
            }
        }
    }
    bool whole(int strip) const { return strip < STRIPS && all[strip] == 0xFFFF; }
};

// The values of strips [i, end) of a chunk, which all rows see, or of one that some see.
template <class V>
void add_strips(const Shape & s, const Block & b, const Sight & seen, int64_t first_cell, int i, int end, const Scratch & memory,
                const Rows & sums) {
    const Rows shares{ memory.scores, CHUNK };
    const size_t apart = 4*s.padded;
    const char * const cell = s.value(b, first_cell + i*STRIP), * const floats = (const char *) memory.values;
    for (int c = 0; c < (end - i)*STRIP; c++) widen_values<V>(s.v->type, cell + c*s.v->nb[1], s.dv, s.padded, memory.values + c*s.padded);
    if (seen.whole(i)) return add_values<V>(shares, b.queries, { floats, apart, false, i*STRIP, (end - i)*STRIP }, sums, s.padded);
    for (int64_t query = 0; query < b.queries; query++) {            // what a row does not see may be infinite
        const uint16_t bits = seen.rows[s.row(b, query) - b.first_row][i];
        for (int c = 0; c < STRIP; c++) {
            if (!(bits >> c & 1)) continue;
            const ValueCells of_cell{ floats + c*apart, apart, false, i*STRIP + c, 1 };
            add_values<V>({ shares[query], 0 }, 1, of_cell, { sums[query], 0 }, s.padded);
        }
    }
}

// The partial sums of a block of query rows over a chunk.
template <class V> void attend_chunk(const Shape & s, const Block & b, int64_t chunk, const Scratch & memory, const Rows & sums) {
    const int64_t first_cell = chunk*CHUNK;
    const Rows scores{ memory.scores, CHUNK }, q{ memory.q, s.dk };
    const Sight seen(s, b, first_cell, memory.seen);
    for (int i = 0; i < STRIPS; i++) {
        if (!seen.some[i]) continue;
        const char * cell = s.key(b, first_cell + i*STRIP);
        if (i + STRIPS_AHEAD < STRIPS) fetch_strip(cell + STRIPS_AHEAD*STRIP*s.k->nb[1], s.k->nb[1], bytes_of(s.k));
        fetch_strip(s.value(b, first_cell + i*STRIP), s.v->nb[1], bytes_of(s.v));
        widen_keys<V>(s.k->type, cell, s.k->nb[1], s.dk, memory.keys);
        in_tiles<V::TILE_ROWS>(b.queries, [&](int64_t first, auto rows) {
            for (int j = 0; j < STRIP; j += V::LANES)
                score_tile<V, decltype(rows)::value>(q, first, s.dk, memory.keys + 4*j, scores, i*STRIP + j);
        });
    }
    for (int64_t query = 0; query < b.queries; query++) {
        const int64_t row = s.row(b, query);
        float * of = sums[query];
        memset(of, 0, 4*s.padded);
        softmax<V>(scores[query], s.cap, s.mask_of(b, row) + 2*first_cell, seen.rows[row - b.first_row], of[s.padded], of[s.padded + 1]);
    }
    const bool one_tile = b.queries <= V::TILE_ROWS && s.v->type == TYPE_F16 && s.dv == s.padded;
    for (int i = 0, end; i < STRIPS; i = end) {
        end = i + 1;
        if (!seen.some[i]) continue;
        const int most = !seen.whole(i) ? 1 : one_tile ? STRIPS : VALUE_STRIPS;
        while (end - i < most && seen.whole(end)) end++;
        if (!one_tile || !seen.whole(i)) { add_strips<V>(s, b, seen, first_cell, i, end, memory, sums); continue; }
        const char * halves = s.value(b, first_cell + i*STRIP);
        add_values<V>(scores, b.queries, { halves, s.v->nb[1], true, i*STRIP, (end - i)*STRIP }, sums, s.padded);
    }
}

template <class V> void attend(const Attention & a, int64_t item, float * scratch, float * partials) {
    const Shape s(a.op);
    const Block b = block_of(a, s, item);
    const Scratch memory(scratch);
    for (int64_t i = 0; i < b.queries; i++) {
        const float * x = s.query(b, i);
        for (int d = 0; d < s.dk; d++) memory.q[i*s.dk + d] = x[d]*s.scale;
    }
    if (a.divided) {
        float * first = partials + (b.first_query*a.chunks + b.chunk)*s.partial();
        attend_chunk<V>(s, b, b.chunk, memory, { first, a.chunks*s.partial() });
        return;
    }
    const Rows part{ memory.part, s.partial() }, whole{ memory.whole, s.partial() };
    for (int64_t i = 0; i < b.queries; i++) begin(s, whole[i]);
    for (int64_t chunk = 0; chunk < a.chunks; chunk++) {
        attend_chunk<V>(s, b, chunk, memory, part);
        for (int64_t i = 0; i < b.queries; i++) fold<V>(s, part[i], whole[i]);
    }
    for (int64_t i = 0; i < b.queries; i++) finish(s, b.first_query + i, whole[i]);
}

// The chunks of a query row together.
template <class V> void combine(const Attention & a, int64_t query, const float * partials) {
    const Shape s(a.op);
    float whole[WIDEST + 16];
    begin(s, whole);
    for (int64_t chunk = 0; chunk < a.chunks; chunk++) fold<V>(s, partials + (query*a.chunks + chunk)*s.partial(), whole);
    finish(s, query, whole);
}

} // namespace
