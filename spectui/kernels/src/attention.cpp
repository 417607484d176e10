#include "attention.h"

namespace {

bool is_known(const ggml_tensor * cells) {
    if (cells->ne[0] > WIDEST) return false;
    return cells->type == GGML_TYPE_F16 ? cells->nb[0] == 2 && cells->ne[0] % 8 == 0
                                        : cells->type == GGML_TYPE_Q8_0 && cells->nb[0] == 34 && cells->ne[0] % 32 == 0;
}

} // namespace

bool supports_attention(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3], * sinks = op->src[4];
    const bool has_alibi = parameter(op, 1) != 0;
    if (has_alibi || !is_known(k) || !is_known(v) || !has_floats(q) || !has_floats(op) || (sinks && !has_floats(sinks))) return false;
    if (!mask || mask->type != GGML_TYPE_F16 || mask->nb[0] != 2 || mask->ne[2] != 1) return false;
    if (k->ne[1] % STRIP || k->ne[2] != v->ne[2] || q->ne[2] % k->ne[2] || q->ne[2]/k->ne[2] > QUERIES) return false;
    return k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3];
}

Attention attention_of(const ggml_tensor * op, int threads) {
    Attention a = {};
    a.op = op; a.q = op->src[0]; a.k = op->src[1]; a.v = op->src[2]; a.mask = op->src[3]; a.sinks = op->src[4];
    a.dk = (int) a.k->ne[0];
    a.dv = (int) a.v->ne[0];
    a.padded = (a.dv + 15)/16*16;
    a.gqa = (int) (a.q->ne[2]/a.k->ne[2]);
    a.tokens = a.q->ne[1]; a.kv_heads = a.k->ne[2]; a.streams = a.q->ne[3]; a.cells = a.k->ne[1];
    a.cap = parameter(op, 2);
    a.scale = a.cap != 0 ? parameter(op, 0)/a.cap : parameter(op, 0);
    a.queries = a.streams*a.kv_heads*a.tokens*a.gqa;
    a.chunks = (a.cells + CHUNK - 1)/CHUNK;
    const int64_t most = QUERIES/a.gqa, slices = (a.tokens + most - 1)/most;
    a.tokens_of_slice = (a.tokens + slices - 1)/slices;
    a.slices = (a.tokens + a.tokens_of_slice - 1)/a.tokens_of_slice;
    a.items = a.streams*a.kv_heads*a.slices;
    a.divided = a.items < 4*threads && a.queries*a.chunks*a.partial() <= MOST_FLOATS;
    if (a.divided) a.items *= a.chunks;
    return a;
}
