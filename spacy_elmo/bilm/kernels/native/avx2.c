/* x86-64 with AVX2 and FMA. Twelve of the sixteen registers hold sums. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>
#include <stdint.h>

typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
#define PANEL 2
#define FMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define MIN(a, b) ((vf)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define MAX(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define SPLAT(x) ((vf)_mm256_set1_ps(x))
#define KERNELS elmo_avx2
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
