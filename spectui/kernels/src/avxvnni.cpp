// AVX-VNNI: dot products of bytes in 256-bit registers, for CPUs without AVX-512 (Intel since Alder Lake, AMD since Zen 5).
//
// dpbusd adds four products of unsigned codes and signed activations to each 32-bit lane in one operation, so nothing is widened.
// Codes of 8 bits stay unsigned (w + 128), and the sum begins at -128 times the sum of the activations.
#include "avx256.h"

namespace {

struct AvxVnni : Avx256 {
    static constexpr bool WIDE = true;
    static constexpr int steps(int bits) { return bits == 4 ? 4 : 8; }

    static INLINE I dot(I sum, I codes, I x) { return _mm256_dpbusd_avx_epi32(sum, codes, x); }
    static INLINE I add_pairs(I sum, I a, I b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
    // The sum of 8 operands of 3 bits or 4 of 4 bits has 16 bits: one operation multiplies it by the scale and adds it.
    template <int BITS> static INLINE I add_scaled(I total, I sum, I scale) {
        if constexpr (BITS <= 4) return add_pairs(total, sum, _mm256_and_si256(scale, _mm256_set1_epi32(0xFFFF)));
        else return add(total, _mm256_mullo_epi32(sum, scale));
    }
    // The low (0) or the high (1) 16-bit half of each lane, widened.
    template <int H> static INLINE I lane_scale(I a) { return _mm256_srai_epi32(H ? a : _mm256_slli_epi32(a, 16), 16); }
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
