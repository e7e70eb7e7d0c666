/* x86-64 with AVX-512F alone. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx2,fma")
#endif
#include "avx512.h"
#define KERNELS elmo_avx512
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
