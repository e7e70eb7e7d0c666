/* x86-64 with AVX512-BF16, which multiplies bfloat16: Intel's Cooper Lake and Sapphire
   Rapids, AMD's Zen 4, and newer. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma")
#endif
#include "avx512.h"
#define SPLAT_PAIR(x) ((vf)_mm512_set1_epi32(x))
#define DOT(c, a, b) ((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define KERNELS elmo_avx512_bf16
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
