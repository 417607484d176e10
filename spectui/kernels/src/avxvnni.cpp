// AVX-VNNI: dot products of bytes in 256-bit registers, for CPUs without AVX-512 (Intel since Alder Lake, AMD since Zen 5).
//
// dpbusd adds four products of unsigned codes and signed activations to each 32-bit lane in one operation, so nothing is widened.
// Codes of 8 bits stay unsigned (w + 128), and the sum begins at -128 times the sum of the activations.
#include "attend.h"

namespace {

struct AvxVnni : Vnni<Avx256, AvxVnni> {
    static INLINE I dot(I sum, I codes, I x) { return (I) _mm256_dpbusd_avx_epi32((__m256i) sum, (__m256i) codes, (__m256i) x); }
    static INLINE I add_pairs(I sum, I a, I b) { return (I) _mm256_dpwssd_avx_epi32((__m256i) sum, (__m256i) a, (__m256i) b); }
};

// CPUID leaf 7.1, EAX bit 4: older compilers have no name for it.
bool supported() {
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return false;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
    return a >> 4 & 1;
}

} // namespace

extern const KernelSet avxvnni_set = kernel_set<AvxVnni>("avxvnni", supported);
