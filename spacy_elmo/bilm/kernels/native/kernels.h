/* The kernels, written once for all instruction sets. A file such as avx2.c defines its
   vectors and includes this file.

   It defines vf and vi (vectors of VL floats and of VL int32), PANEL (vectors of a panel
   of weights, 2 or 4), FMA(a, b, c) = a * b + c rounded once, MIN and MAX (they return
   the second argument if it is NaN), SPLAT(float), KERNELS (the name of the table) and,
   if the processor multiplies bfloat16, DOT(c, a, b) and SPLAT_PAIR(int32_t).

   A *group* is four vectors of columns. It is packed as 4 / PANEL panels. A panel is a
   matrix of K rows and PANEL vectors. In 16 bits two rows stand side by side:
   (K / 2, columns, 2). Every element of a product is a sum over k in order.

   docs/kernels.md says where the constants come from.
*/

#include "elmo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    VL = sizeof(vf) / 4,
    GROUP = 4 * VL,       /* columns of a group */
    COLUMNS = PANEL * VL, /* columns of a panel */
    TILE = 6,             /* rows that are multiplied at once */
    FEW_ROWS = 3,         /* up to so many rows are multiplied by two panels at once */
    /* Registers sum over a chunk of k, and the sums of chunks are added up. The rounding
       error grows with the length of a sum, and the weights of a chunk stay in the first
       cache. */
    CHUNK = 256,
    BLOCK = 64, /* least number of rows of a block of input products */
    ROWS = 96,  /* rows of a long product that one task computes */
    WORDS = 16  /* words that one task reads */
};

/* -- memory ------------------------------------------------------------------------ */

static void *take(int64_t n_bytes)
{
    void *memory = NULL;
    int64_t rounded = (n_bytes + 127) / 64 * 64; /* one vector more than asked for */
#if defined(_WIN32)
    memory = _aligned_malloc(rounded, 64);
#else
    if (posix_memalign(&memory, 64, rounded))
        memory = NULL;
#endif
    return memory;
}

static void *take_zeros(int64_t n_bytes)
{
    void *memory = take(n_bytes);
    if (memory)
        memset(memory, 0, n_bytes);
    return memory;
}

static void give_back(void *memory)
{
#if defined(_WIN32)
    _aligned_free(memory);
#else
    free(memory);
#endif
}

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

INLINE vf load(const void *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vf v) { memcpy(p, &v, sizeof v); }

/* -- numbers ----------------------------------------------------------------------- */

/* Rounds to nearest, to even. NaN stays NaN. */
INLINE uint16_t to_bfloat16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(is_nan ? (bits >> 16) | 0x40 : rounded);
}

INLINE int64_t size_of_input(int mode) { return mode == ELMO_BFLOAT16 ? 2 : 4; }

/* Writes n floats as a row of inputs, in the type of the mode. */
INLINE void write_inputs(int mode, void *row, const float *x, int64_t n)
{
    if (mode == ELMO_BFLOAT16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)row)[i] = to_bfloat16(x[i]);
    else
        memcpy(row, x, 4 * n);
}

/* exp(x) = 2^n (1 + r + r^2 P(r)), |r| <= ln(2) / 2, for |x| <= 87 (Cephes, expf.c).
   Returns 2^n, and writes r + r^2 P(r) to *rest, which keeps its digits near x = 0. */
INLINE vf exp_parts(vf x, vf *rest)
{
    const vf shift = SPLAT(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    vf shifted = FMA(x, SPLAT(1.44269504f), shift);
    vf n = shifted - shift;
    vf r = FMA(n, SPLAT(-0.693359375f), x);
    r = FMA(n, SPLAT(2.12194440e-4f), r);
    vf p = FMA(SPLAT(1.9875691500e-4f), r, SPLAT(1.3981999507e-3f));
    p = FMA(p, r, SPLAT(8.3334519073e-3f));
    p = FMA(p, r, SPLAT(4.1665795894e-2f));
    p = FMA(p, r, SPLAT(1.6666665459e-1f));
    p = FMA(p, r, SPLAT(5.0000001201e-1f));
    *rest = FMA(p, r * r, r);
    /* The low bits of `shifted` are n. The shift to the exponent drops all others. */
    return (vf)(((vi)shifted << 23) + (vi)SPLAT(1.0f));
}

/* 1 + exp(-x), which is 1 / sigmoid(x). */
INLINE vf one_and_exp(vf x)
{
    vf rest;
    x = MAX(SPLAT(-80.0f), MIN(SPLAT(80.0f), x));
    vf scale = exp_parts(-x, &rest);
    return FMA(scale, rest, scale + SPLAT(1.0f));
}

/* e = exp(2 x) - 1: tanh(x) = e / (e + 2), which keeps its digits near x = 0. */
INLINE vf exp_minus_one(vf x)
{
    vf rest;
    x = MAX(SPLAT(-20.0f), MIN(SPLAT(20.0f), x));
    vf scale = exp_parts(x + x, &rest);
    return FMA(scale, rest, scale - SPLAT(1.0f));
}

INLINE vf tanh_of(vf x)
{
    vf e = exp_minus_one(x);
    return e / (e + SPLAT(2.0f));
}

/* -- matrix multiplication --------------------------------------------------------- */

/* Adds a[r] W to z[r] for n rows and for k from `first` to `end`, in one panel or in two.
   Rows of a are lda inputs apart, rows of z are GROUP floats apart. w points to row
   `first` of the first panel. The second panel is w_apart bytes after it, and its sums
   z_apart floats after those of the first. */
INLINE void tile(const int mode, const int n, const int panels, const void *inputs,
                 int64_t lda, int64_t first, int64_t end, const void *w, int64_t w_apart,
                 float *z, int64_t z_apart)
{
    vf sums[TILE][2 * PANEL];
    const int vectors = panels * PANEL;
#pragma GCC unroll 8
    for (int r = 0; r < n; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sums[r][v] = SPLAT(0.0f);

    const char *row = w;
    if (mode == ELMO_FLOAT32) {
        const float *a = inputs;
        for (int64_t k = first; k < end; k++, row += 4 * COLUMNS) {
            vf weights[2 * PANEL];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                weights[v] = load(row + v / PANEL * w_apart + v % PANEL * sizeof(vf));
#pragma GCC unroll 8
            for (int r = 0; r < n; r++) {
                vf x = SPLAT(a[r * lda + k]);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    sums[r][v] = FMA(x, weights[v], sums[r][v]);
            }
        }
    } else if (mode == ELMO_WIDENED) {
        const float *a = inputs;
        for (int64_t k = first; k < end; k += 2, row += 4 * COLUMNS) {
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                vf weights[2 * PANEL];
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    vi pairs = (vi)load(row + v / PANEL * w_apart + v % PANEL * sizeof(vf));
                    weights[v] = (vf)(half ? pairs & (int32_t)0xffff0000 : pairs << 16);
                }
#pragma GCC unroll 8
                for (int r = 0; r < n; r++) {
                    vf x = SPLAT(a[r * lda + k + half]);
#pragma GCC unroll 8
                    for (int v = 0; v < vectors; v++)
                        sums[r][v] = FMA(x, weights[v], sums[r][v]);
                }
            }
        }
    } else {
#ifdef DOT
        const uint16_t *a = inputs;
        for (int64_t k = first; k < end; k += 2, row += 4 * COLUMNS) {
            vf weights[2 * PANEL];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                weights[v] = load(row + v / PANEL * w_apart + v % PANEL * sizeof(vf));
#pragma GCC unroll 8
            for (int r = 0; r < n; r++) {
                int32_t pair;
                memcpy(&pair, a + r * lda + k, 4);
                vf x = SPLAT_PAIR(pair);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    sums[r][v] = DOT(sums[r][v], x, weights[v]);
            }
        }
#endif
    }

#pragma GCC unroll 8
    for (int r = 0; r < n; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *sum = z + r * GROUP + v / PANEL * z_apart + v % PANEL * VL;
            store(sum, load(sum) + sums[r][v]);
        }
}

INLINE int64_t packed_rows(int mode, int64_t K)
{
    return mode == ELMO_FLOAT32 ? K : round_up(K, 2);
}

INLINE int64_t size_of_weight(int mode) { return mode == ELMO_FLOAT32 ? 4 : 2; }

/* Returns where a group of a packed weight begins. */
INLINE const void *group_of(int mode, const void *packed, int64_t K, int64_t group)
{
    int64_t size = size_of_weight(mode) * packed_rows(mode, K) * GROUP;
    return (const char *)packed + group * size;
}

INLINE void product(const int mode, const void *a, int64_t lda, int64_t n_rows, int64_t K,
                    const void *groups, int64_t n_groups, float *z, int64_t z_apart)
{
    const int64_t rows_of_k = packed_rows(mode, K);
    const int64_t row_size = size_of_weight(mode) * COLUMNS;
    const int64_t step = size_of_input(mode) * lda, panels = 4 / PANEL * n_groups;
    int64_t together;
    for (int64_t panel = 0; panel < panels; panel += together) {
        /* With few rows each addition waits for the one before; two panels overlap. */
        together = n_rows <= FEW_ROWS && panel + 1 < panels ? 2 : 1;
        const char *weights = (const char *)groups + panel * rows_of_k * row_size;
        float *to = z + panel * PANEL / 4 * z_apart + panel * PANEL % 4 * VL;
        const int64_t w_apart = rows_of_k * row_size;
        const int64_t next = PANEL == 4 ? z_apart : COLUMNS;
        for (int64_t first = 0; first < rows_of_k; first += CHUNK) {
            const int64_t end = smaller(first + CHUNK, rows_of_k);
            const void *w = weights + first * row_size;
            const char *row = a;
            float *sum = to;
            int64_t r = 0;
            for (; r + TILE <= n_rows; r += TILE, row += TILE * step, sum += TILE * GROUP)
                tile(mode, TILE, 1, row, lda, first, end, w, 0, sum, 0);
#define REST(n) tile(mode, n, 1, row, lda, first, end, w, 0, sum, 0)
#define REST_OF_TWO(n) tile(mode, n, 2, row, lda, first, end, w, w_apart, sum, next)
            switch (together * TILE + n_rows - r) {
            case TILE + 5: REST(5); break;
            case TILE + 4: REST(4); break;
            case TILE + 3: REST(3); break;
            case TILE + 2: REST(2); break;
            case TILE + 1: REST(1); break;
            case 2 * TILE + 3: REST_OF_TWO(3); break;
            case 2 * TILE + 2: REST_OF_TWO(2); break;
            case 2 * TILE + 1: REST_OF_TWO(1); break;
            }
        }
    }
}

/* One function for each mode: in a function for all the compiler runs out of registers. */
#define PRODUCT(name, mode)                                                              \
    static __attribute__((noinline)) void name(                                          \
        const void *a, int64_t lda, int64_t n_rows, int64_t K, const void *groups,       \
        int64_t n_groups, float *z, int64_t z_apart)                                     \
    {                                                                                    \
        product(mode, a, lda, n_rows, K, groups, n_groups, z, z_apart);                  \
    }

PRODUCT(product_float32, ELMO_FLOAT32)
PRODUCT(product_widened, ELMO_WIDENED)
#ifdef DOT
PRODUCT(product_bfloat16, ELMO_BFLOAT16)
#endif

/* Adds a W to z for n_rows rows and n_groups groups of columns. a: (n_rows, lda), with a
   zero after K if K is odd. z: (n_rows, GROUP) for each group, z_apart floats apart. */
INLINE void add_product(int mode, const void *a, int64_t lda, int64_t n_rows, int64_t K,
                        const void *groups, int64_t n_groups, float *z, int64_t z_apart)
{
    if (mode == ELMO_FLOAT32)
        product_float32(a, lda, n_rows, K, groups, n_groups, z, z_apart);
    else if (mode == ELMO_WIDENED)
        product_widened(a, lda, n_rows, K, groups, n_groups, z, z_apart);
#ifdef DOT
    else
        product_bfloat16(a, lda, n_rows, K, groups, n_groups, z, z_apart);
#endif
}

/* Sets n_rows rows of a group's sums to its bias. */
INLINE void begin_sums(float *z, int64_t n_rows, const float *bias)
{
    for (int64_t r = 0; r < n_rows; r++)
        memcpy(z + r * GROUP, bias, 4 * GROUP);
}

/* -- LSTM layers (lstm.py) --------------------------------------------------------- */

/* The buffers of one direction while a layer is read. */
typedef struct {
    void *x;      /* (block, lda_h) inputs of a block of steps */
    float *gates; /* (groups, block, GROUP) gates of a block of steps */
    void *h, *m;  /* (rows, lda_h), (rows, lda_m) inputs of the products of a step */
    float *h_32;  /* (rows, lda_h) h in float32 */
    float *c;     /* (rows, lda_c) */
    float *z;     /* (2, rows, GROUP) m of a group, or sums of a projection */
} buffers;

/* Computes VL cells of each row: updates c, and writes m = sigmoid(o) tanh(c). A row of z
   has the gates o, i, f, g of these cells; rows are GROUP floats apart. */
static __attribute__((noinline)) void step_of_cells(const float *z, int64_t n_rows,
                                                    float *c, int64_t lda_c, float *m,
                                                    float clip)
{
    const vf limit = SPLAT(clip), two = SPLAT(2.0f);
    for (int64_t r = 0; r < n_rows; r++, z += GROUP, c += lda_c, m += VL) {
        vf e = exp_minus_one(load(z + 3 * VL));
        vf new = e / (one_and_exp(load(z + VL)) * (e + two));
        vf cell = load(c) / one_and_exp(load(z + 2 * VL)) + new;
        cell = MAX(-limit, MIN(limit, cell));
        store(c, cell);
        e = exp_minus_one(cell);
        store(m, e / (one_and_exp(load(z)) * (e + two)));
    }
}

/* Reads all layers of a direction for the sequences from b0 to b1. */
static int read_direction(const elmo_reading *task, int d, int64_t b0, int64_t b1)
{
    const int mode = task->mode;
    const int64_t H = task->width, C = task->cells, B = task->n_sequences;
    const int64_t T = task->n_steps, D = 2 * H;
    const int64_t gates = (C + VL - 1) / VL, outputs = (H + GROUP - 1) / GROUP;
    const int64_t lda_h = outputs * GROUP, lda_c = gates * VL;
    /* Rows are not a power of two apart, or the same cells of all rows would share one set
       of the first cache. */
    const int64_t lda_m = lda_c + 2 * VL, rows = b1 - b0;
    const int64_t input = size_of_input(mode);
    const vf proj_clip = SPLAT(task->proj_clip);
    const int64_t *sizes = task->batch_sizes;

    const int64_t block = smaller(rows > BLOCK ? rows : BLOCK, task->n_rows);
    buffers b = {
        take_zeros(input * block * lda_h), take(4 * gates * block * GROUP),
        take_zeros(input * rows * lda_h),  take_zeros(input * rows * lda_m),
        take_zeros(4 * rows * lda_h),      take_zeros(4 * rows * lda_c),
        take(4 * 2 * rows * GROUP),
    };
    int failed = !(b.x && b.gates && b.h && b.m && b.h_32 && b.c && b.z);

    for (int64_t n = 0, t = 0; !failed && t < T && sizes[t] > b0; n += sizes[t++])
        for (int64_t r = n + b0; r < n + smaller(b1, sizes[t]); r++)
            memcpy(task->out + task->write_rows[d][r] * D + d * H,
                   task->x + task->read_rows[d][r] * H, 4 * H);

    for (int64_t l = 0; !failed && l < task->n_layers; l++) {
        const elmo_layer *layer = &task->layers[d][l];
        const float *from = task->out + l * task->n_rows * D + d * H;
        float *to = task->out + (l + 1) * task->n_rows * D + d * H;
        float *first_h = task->h[d] + (l * B + b0) * H;
        float *first_c = task->c[d] + (l * B + b0) * C;
        const int adds_input = task->residual && l > 0;
        for (int64_t r = 0; r < rows; r++) {
            memcpy(b.h_32 + r * lda_h, first_h + r * H, 4 * H);
            write_inputs(mode, (char *)b.h + input * r * lda_h, first_h + r * H, H);
            memcpy(b.c + r * lda_c, first_c + r * C, 4 * C);
        }
        int64_t n = 0; /* packed rows before step t */
        for (int64_t t = 0; t < T && sizes[t] > b0;) {
            /* The products of the inputs of a block of steps. */
            int64_t n_block = 0, end = t, row = n;
            while (end < T && sizes[end] > b0) {
                int64_t here = smaller(b1, sizes[end]) - b0;
                if (n_block + here > block)
                    break;
                for (int64_t r = 0; r < here; r++) {
                    int64_t at = task->write_rows[d][row + b0 + r];
                    write_inputs(mode, (char *)b.x + input * (n_block + r) * lda_h,
                                 from + at * D, H);
                }
                n_block += here;
                row += sizes[end++];
            }
            for (int64_t g = 0; g < gates; g++) {
                float *z = b.gates + g * block * GROUP;
                begin_sums(z, n_block, layer->bias + g * GROUP);
                add_product(mode, b.x, lda_h, n_block, H,
                            group_of(mode, layer->weight_x, H, g), 1, z, 0);
            }
            /* The steps of the block. */
            for (int64_t done = 0; t < end; n += sizes[t++]) {
                const int64_t here = smaller(b1, sizes[t]) - b0;
                const int64_t at_once = here <= FEW_ROWS ? 2 : 1;
                for (int64_t i = 0; i < gates; i += at_once) {
                    /* Odd steps go backwards: the cache has the weights that the step
                       before read last. */
                    const int64_t some = smaller(at_once, gates - i);
                    const int64_t g = t % 2 ? gates - i - some : i;
                    float *z = b.gates + (g * block + done) * GROUP;
                    add_product(mode, b.h, lda_h, here, H,
                                group_of(mode, layer->weight_h, H, g), some, z,
                                block * GROUP);
                    for (int64_t j = g; j < g + some; j++, z += block * GROUP) {
                        step_of_cells(z, here, b.c + j * VL, lda_c, b.z, task->cell_clip);
                        for (int64_t r = 0; r < here; r++) {
                            const float *m = b.z + r * VL;
                            write_inputs(mode, (char *)b.m + input * (r * lda_m + j * VL), m,
                                         VL);
                            if (!layer->weight_p)
                                memcpy(b.h_32 + r * lda_h + j * VL, m, 4 * VL);
                        }
                    }
                }
                for (int64_t p = 0; layer->weight_p && p < outputs; p += at_once) {
                    const int64_t some = smaller(at_once, outputs - p);
                    float *z = b.z;
                    memset(z, 0, 4 * some * here * GROUP);
                    add_product(mode, b.m, lda_m, here, C,
                                group_of(mode, layer->weight_p, C, p), some, z,
                                here * GROUP);
                    for (int64_t j = p; j < p + some; j++)
                        for (int64_t r = 0; r < here; r++, z += GROUP)
                            for (int v = 0; v < 4; v++)
                                store(b.h_32 + r * lda_h + j * GROUP + v * VL,
                                      MAX(-proj_clip, MIN(proj_clip, load(z + v * VL))));
                }
                for (int64_t r = 0; r < here; r++) {
                    const float *h = b.h_32 + r * lda_h;
                    const int64_t at = task->write_rows[d][n + b0 + r] * D;
                    write_inputs(mode, (char *)b.h + input * r * lda_h, h, H);
                    for (int64_t j = 0; j < H; j++)
                        to[at + j] = adds_input ? h[j] + from[at + j] : h[j];
                }
                done += here;
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            memcpy(first_h + r * H, b.h_32 + r * lda_h, 4 * H);
            memcpy(first_c + r * C, b.c + r * lda_c, 4 * C);
        }
    }
    give_back(b.x), give_back(b.gates), give_back(b.h), give_back(b.m);
    give_back(b.h_32), give_back(b.c), give_back(b.z);
    return failed;
}

typedef struct {
    const elmo_reading *reading;
    int64_t parts; /* of the sequences */
} shared_reading;

static int read_part(const void *argument, int64_t i)
{
    const shared_reading *shared = argument;
    const elmo_reading *task = shared->reading;
    const int64_t B = task->n_sequences, part = i / 2;
    const int64_t b0 = B * part / shared->parts, b1 = B * (part + 1) / shared->parts;
    return read_direction(task, i % 2, b0, b1);
}

static int read_layers(const elmo_reading *task, int n_threads)
{
    int64_t parts = smaller(n_threads / 2, task->n_sequences / TILE);
    shared_reading shared = {task, parts < 1 ? 1 : parts};
    return elmo_run(read_part, &shared, 2 * shared.parts, n_threads);
}

/* -- long products (token_encoder.py) ---------------------------------------------- */

typedef struct {
    const elmo_product *product;
    int64_t rows, parts; /* rows of a task, parts of the groups of columns */
} shared_product;

/* Computes some rows and some groups of columns of x W + b, or of a highway layer, whose
   groups have two vectors of carry gates and then two vectors of new values. */
INLINE int multiply(const int is_highway, const shared_product *shared, int64_t i)
{
    const elmo_product *task = shared->product;
    const int mode = task->mode;
    const int64_t first = i / shared->parts * shared->rows, part = i % shared->parts;
    const int64_t rows = smaller(shared->rows, task->n_rows - first);
    const int64_t K = task->n_in, N = task->n_out, width = is_highway ? 2 * VL : GROUP;
    const int64_t groups = (N + width - 1) / width, lda = round_up(K, 2) + 2 * VL;
    const float *x = task->x + first * K;
    char *inputs = take_zeros(size_of_input(mode) * rows * lda);
    float *z = take(4 * rows * GROUP);
    const int failed = !(inputs && z);

    for (int64_t r = 0; !failed && r < rows; r++)
        write_inputs(mode, inputs + size_of_input(mode) * r * lda, x + r * K, K);
    const int64_t begin = groups * part / shared->parts;
    const int64_t end = groups * (part + 1) / shared->parts;
    for (int64_t g = begin; !failed && g < end; g++) {
        begin_sums(z, rows, task->bias + g * GROUP);
        add_product(mode, inputs, lda, rows, K, group_of(mode, task->weight, K, g), 1, z, 0);
        const int64_t columns = smaller(width, N - g * width);
        for (int64_t r = 0; r < rows; r++) {
            float *sums = z + r * GROUP, *y = task->out + (first + r) * N + g * width;
            if (is_highway) {
                float old[2 * VL] = {0};
                memcpy(old, x + r * K + g * width, 4 * columns);
                for (int v = 0; v < 2; v++) {
                    vf opened = one_and_exp(load(sums + v * VL)), was = load(old + v * VL);
                    vf new = MAX(SPLAT(0.0f), load(sums + (2 + v) * VL));
                    store(sums + v * VL, was + (new - was) / opened);
                }
            }
            memcpy(y, sums, 4 * columns);
        }
    }
    give_back(inputs), give_back(z);
    return failed;
}

static int linear_part(const void *shared, int64_t i) { return multiply(0, shared, i); }

static int highway_part(const void *shared, int64_t i) { return multiply(1, shared, i); }

static int run_product(int (*part)(const void *, int64_t), const elmo_product *task,
                       int n_threads)
{
    int64_t blocks = (task->n_rows + ROWS - 1) / ROWS;
    /* If there are few rows, threads share the columns. */
    shared_product shared = {task, ROWS, blocks < n_threads ? n_threads : 1};
    return elmo_run(part, &shared, blocks * shared.parts, n_threads);
}

static int linear(const elmo_product *task, int n_threads)
{
    return run_product(linear_part, task, n_threads);
}

static int highway(const elmo_product *task, int n_threads)
{
    return run_product(highway_part, task, n_threads);
}

/* -- char-CNN (token_encoder.py) --------------------------------------------------- */

typedef struct {
    const elmo_char_cnn *cnn;
    int64_t words; /* of a task */
} shared_words;

/* Computes the activated maximum of every filter over all positions, for some words. The
   characters of a window lie side by side, so it is an input of a product as it is. */
static int read_characters(const void *argument, int64_t i_task)
{
    const shared_words *shared = argument;
    const elmo_char_cnn *task = shared->cnn;
    const int mode = task->mode;
    const int64_t first = i_task * shared->words, n = task->n_columns;
    const int64_t words = smaller(shared->words, task->n_words - first);
    const int64_t d = task->char_dim, input = size_of_input(mode), S = task->n_filters;
    int64_t widest = 0;
    for (int64_t g = 0; g < task->n_groups; g++)
        widest = task->widths[g] > widest ? task->widths[g] : widest;
    const int64_t of_a_word = (n + widest + TILE) * d;
    char *characters = take_zeros(input * words * of_a_word);
    int64_t *lengths = take(8 * words);
    const int failed = !(characters && lengths);

    for (int64_t w = 0; !failed && w < words; w++) {
        const int64_t *ids = task->ids + (first + w) * n;
        char *row = characters + input * w * of_a_word;
        for (int64_t i = 0; i < n; i++)
            memcpy(row + input * i * d, (const char *)task->table + input * ids[i] * d,
                   input * d);
        /* The windows of the padding, a run of equal ids at the end, are all equal. */
        int64_t length = n;
        while (length > 0 && ids[length - 1] == ids[n - 1])
            length--;
        lengths[w] = length;
    }
    const char *filters = task->filters;
    for (int64_t g = 0; !failed && g < task->n_groups; g++) {
        const int64_t *columns = task->columns + g * GROUP, width = task->widths[g];
        for (int64_t w = 0; w < words; w++) {
            const char *row = characters + input * w * of_a_word;
            /* The last window ends with the word's ids. */
            const int64_t last = smaller(lengths[w], n - width);
            vf largest[4];
            for (int v = 0; v < 4; v++)
                largest[v] = SPLAT(-INFINITY);
            for (int64_t p = 0; p <= last; p += TILE) {
                float z[TILE * GROUP] __attribute__((aligned(64))) = {0};
                const int64_t rows = smaller(TILE, last + 1 - p);
                add_product(mode, row + input * p * d, d, rows, width * d, filters, 1, z, 0);
                for (int64_t r = 0; r < rows; r++)
                    for (int v = 0; v < 4; v++) {
                        vf sum = load(z + r * GROUP + v * VL);
                        vi more = (sum > largest[v]) | (sum != sum); /* NaN stays */
                        largest[v] = (vf)((more & (vi)sum) | (~more & (vi)largest[v]));
                    }
            }
            float found[GROUP], *out = task->out + (first + w) * S;
            for (int v = 0; v < 4; v++)
                store(found + v * VL, largest[v]);
            for (int64_t j = 0; j < GROUP; j++)
                if (columns[j] >= 0)
                    out[columns[j]] = found[j] + task->bias[columns[j]];
        }
        filters += size_of_weight(mode) * packed_rows(mode, width * d) * GROUP;
    }
    for (int64_t i = 0; !failed && i < words * S; i += VL) {
        float some[VL] = {0}, *out = task->out + first * S + i;
        const int64_t size = 4 * smaller(VL, words * S - i);
        memcpy(some, out, size);
        store(some, task->is_tanh ? tanh_of(load(some)) : MAX(SPLAT(0.0f), load(some)));
        memcpy(out, some, size);
    }
    give_back(characters), give_back(lengths);
    return failed;
}

static int char_cnn(const elmo_char_cnn *task, int n_threads)
{
    int64_t words = (task->n_words + n_threads - 1) / n_threads;
    shared_words shared = {task, words < WORDS ? (words < 1 ? 1 : words) : WORDS};
    int64_t n_tasks = (task->n_words + shared.words - 1) / shared.words;
    return elmo_run(read_characters, &shared, n_tasks, n_threads);
}

const elmo_kernels KERNELS = {
    .vector = VL,
    .panel = PANEL,
#ifdef DOT
    .has_bfloat16 = 1,
#endif
    .read = read_layers,
    .char_cnn = char_cnn,
    .linear = linear,
    .highway = highway,
};
