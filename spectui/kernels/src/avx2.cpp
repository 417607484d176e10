// AVX2 and FMA: all x86-64 CPUs since 2013 (Intel) and 2015 (AMD).
//
// maddubs multiplies unsigned with signed bytes and adds pairs in 16 bits: at most 127 x 2 x (2^bits - 1) an operand. So codes of 4
// bits and less are added eight times before madd widens and scales the sums, of 5 bits four times, of 6 bits twice. Codes of 8
// bits are two nibbles: 4 operations for 32 products, where codes of 4 bits take 2. Half of them multiply, which two ports do.
#include "attend.h"

namespace {

struct Avx2 : Avx256 {
    static constexpr bool WIDE = false;
    static constexpr int safe_operands(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

    static INLINE I dot(I sum, I codes, I x) {
        return at_once((I) ((Bits16) sum + (Bits16) _mm256_maddubs_epi16((__m256i) codes, (__m256i) x)));
    }
    static INLINE I scaled(I sum, I scale) { return (I) _mm256_madd_epi16((__m256i) sum, (__m256i) scale); }
    template <int BITS> static INLINE I add_scaled(I total, I sum, I scale) { return add(total, scaled(sum, scale)); }
    // The low (0) or the high (1) 16-bit half of each lane, in both of its halves.
    template <int H> static INLINE I lane_scale(I a) {
        return (I) _mm256_blend_epi16((__m256i) a, (__m256i) (H ? a >> 16 : a << 16), H ? 0x55 : 0xAA);
    }
    static INLINE I add_pairs(I sum, I a, I b) { return sum + scaled(a, b); }
};

bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }

} // namespace

extern const KernelSet avx2_set = kernel_set<Avx2>("avx2", supported);
