#include "attention.h"

namespace {

constexpr int64_t MOST_FLOATS = 1 << 24;         // of partial sums

bool is_known(const ggml_tensor * cells) {
    if (cells->ne[0] > WIDEST) return false;
    return cells->type == TYPE_F16 ? cells->nb[0] == 2 && cells->ne[0] % 8 == 0
                                   : cells->type == TYPE_Q8_0 && cells->nb[0] == 34 && cells->ne[0] % 32 == 0;
}

bool has_alibi(const ggml_tensor * op) {
    float most;
    memcpy(&most, op->op_params + 1, 4);
    return most != 0;
}

} // namespace

bool Attention::supports(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3], * sinks = op->src[4];
    if (has_alibi(op) || !is_known(k) || !is_known(v)) return false;
    if (q->type != TYPE_F32 || q->nb[0] != 4 || op->type != TYPE_F32) return false;
    if (!mask || mask->type != TYPE_F16 || mask->nb[0] != 2 || mask->ne[2] != 1) return false;
    if (sinks && (sinks->type != TYPE_F32 || sinks->nb[0] != 4)) return false;
    if (k->ne[1] % STRIP || k->ne[2] != v->ne[2] || q->ne[2] % k->ne[2] || q->ne[2]/k->ne[2] > QUERIES) return false;
    return k->ne[3] == q->ne[3] && v->ne[3] == q->ne[3];
}

Attention::Attention(const ggml_tensor * op, int threads) : op(op) {
    const Shape s(op);
    queries = s.streams*s.shared*s.n*s.group;
    chunks = (s.cells + CHUNK - 1)/CHUNK;
    const int64_t most = QUERIES/s.group;
    blocks = (s.n + most - 1)/most;
    rows_of_block = (s.n + blocks - 1)/blocks;
    blocks = (s.n + rows_of_block - 1)/rows_of_block;
    items = s.streams*s.shared*blocks;
    divided = items < 4*threads && queries*chunks*s.partial() <= MOST_FLOATS;
    if (divided) items *= chunks;
}

int64_t Attention::floats() const { return divided ? queries*chunks*Shape(op).partial() : 0; }
