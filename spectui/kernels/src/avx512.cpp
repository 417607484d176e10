#include "attend.h"
#include "avx512.h"

namespace {

bool supported() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("f16c");
}

} // namespace

extern const KernelSet avx512_set = kernel_set<Avx512>("avx512vnni", supported);
