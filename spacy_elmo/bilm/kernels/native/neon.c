/* 64-bit Arm. */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <stdint.h>

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
#define PANEL 4
#define FMA(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
/* These return NaN if either argument is NaN. */
#define MIN(a, b) ((vf)vminq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define MAX(a, b) ((vf)vmaxq_f32((float32x4_t)(a), (float32x4_t)(b)))
#define SPLAT(x) ((vf)vdupq_n_f32(x))
#define KERNELS elmo_neon
#include "kernels.h"
#endif
