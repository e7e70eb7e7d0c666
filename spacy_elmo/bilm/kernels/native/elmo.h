/* The interface of the C library: the biLM without gradients, on a CPU.

   Every output is summed over k in one fixed order, for any number of rows and of
   threads. So a sentence has the same bits alone and in any batch.

   Shapes are as in lstm.py and token_encoder.py: N packed positions, B sequences, T
   steps, L layers, H projection, C cells, V words, S filters. Matrices are row-major.
   Python packs the weights (native/__init__.py), in groups of four vectors of columns. */

#ifndef SPACY_ELMO_H
#define SPACY_ELMO_H

#include <stdint.h>

/* How matrices are multiplied. Sums are float32 in all of them. */
enum {
    ELMO_FLOAT32 = 0, /* weights and inputs in float32 */
    ELMO_WIDENED = 1, /* weights in bfloat16, widened to float32 when they are read */
    ELMO_BFLOAT16 = 2 /* weights and inputs in bfloat16 */
};

typedef struct {
    const void *weight_x, *weight_h, *weight_p; /* packed; weight_p NULL for none */
    const float *bias;                          /* in the order of the packed gates */
} elmo_layer;

typedef struct {
    int mode, residual;
    int64_t n_layers, width, cells; /* L, H, C */
    int64_t n_rows, n_sequences, n_steps; /* N, B, T */
    const int64_t *batch_sizes;           /* (T,) number of sequences longer than t */
    float cell_clip, proj_clip;           /* infinity for none */
    const elmo_layer *layers[2];          /* (L,) for each direction */
    const float *x;                       /* token vectors, (V, H) */
    const int64_t *read_rows[2];          /* (N,) the row of x at each position */
    const int64_t *write_rows[2];         /* (N,) the row of `out` at each position */
    float *out;                           /* (L + 1, N, 2, H), the token layer first */
    float *h[2], *c[2];                   /* states, (L, B, H) and (L, B, C), replaced */
} elmo_reading;

typedef struct {
    int mode, is_tanh;
    int64_t n_words, n_columns; /* V, and the number of ids of a word */
    int64_t char_dim;           /* columns of `table`, an even number */
    int64_t n_groups, n_filters;
    const int64_t *ids;   /* (V, n_columns) rows of `table` */
    const void *table;    /* character embedding, in the type of the inputs */
    const void *filters;  /* packed, one group after another */
    const int64_t *widths;  /* (n_groups,) width of a group's filters */
    const int64_t *columns; /* (n_groups * 4 * vector,) filter of each column, or -1 */
    const float *bias;      /* (S,) */
    float *out;             /* (V, S) */
} elmo_char_cnn;

typedef struct {
    int mode;
    int64_t n_rows, n_in, n_out;
    const float *x;      /* (n_rows, n_in) */
    const void *weight;  /* packed */
    const float *bias;   /* in the order of the packed columns */
    float *out;          /* (n_rows, n_out) */
} elmo_product;

/* Each returns 0, or 1 if there is no memory for its buffers. */
typedef struct {
    int vector; /* columns of a vector */
    int panel;  /* vectors of a panel; a group has 4 / panel panels */
    int has_bfloat16;
    int (*read)(const elmo_reading *, int n_threads);
    int (*char_cnn)(const elmo_char_cnn *, int n_threads);
    int (*linear)(const elmo_product *, int n_threads);
    int (*highway)(const elmo_product *, int n_threads);
} elmo_kernels;

/* Returns the kernels of an instruction set, or NULL if they were not built or this
   processor can't run them. */
const elmo_kernels *elmo_find(const char *instructions);

/* Runs task(argument, i) for each i < n_tasks on n_threads threads, and ends the threads.
   Returns 1 if a task did not return 0, else 0. */
int elmo_run(int (*task)(const void *, int64_t), const void *argument, int64_t n_tasks,
             int n_threads);

#endif
