/* The biLM without gradients, on a CPU: what Python calls.

   Every output is summed over k in one fixed order, whatever the number of rows or of
   threads, so that a sentence has the same bits alone and in any batch.

   Shapes are as in lstm.py and token_encoder.py: N packed positions, B sequences, T
   steps, L layers, H projection, C cells, V words, S filters. Matrices are row-major.
   Weights are packed by Python (pack.py): in groups of four vectors of columns. */

#ifndef SPACY_ELMO_H
#define SPACY_ELMO_H

#include <stdint.h>

/* How matrices are multiplied. Sums are float32 in all of them. */
enum {
    ELMO_FLOAT32 = 0, /* weights and inputs in float32 */
    ELMO_WIDENED = 1, /* weights in bfloat16, widened as they are read */
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
    const int64_t *batch_sizes;           /* (T,) sequences that are longer than t */
    float cell_clip, proj_clip;           /* infinity for none */
    const elmo_layer *layers[2];          /* of each direction */
    const float *x;                       /* token vectors, (V, H) */
    const int64_t *read_rows[2];          /* (N,) the row of x at each position */
    const int64_t *write_rows[2];         /* (N,) the row of `out` at each position */
    float *out;                           /* (L + 1, N, 2, H), the token layer first */
    float *h[2], *c[2];                   /* states, (L, B, H) and (L, B, C): replaced */
} elmo_reading;

typedef struct {
    int mode, is_tanh;
    int64_t n_words, n_columns; /* V, and the characters of a word */
    int64_t char_dim;           /* floats of a row of `table`, even */
    int64_t n_groups, n_filters;
    const int64_t *ids;   /* (V, n_columns) rows of `table` */
    const void *table;    /* character embedding, in the type that is multiplied */
    const void *filters;  /* packed, a group after another */
    const int64_t *widths;  /* (4 * n_groups,) of each vector of filters, 0 for none */
    const int64_t *columns; /* (n_groups * 4 * vector,) the filter of each, or -1 */
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
    int vector; /* floats of a vector of columns */
    int panel;  /* vectors of a panel: 4 make a group */
    int has_bfloat16;
    int (*read)(const elmo_reading *, int n_threads);
    int (*char_cnn)(const elmo_char_cnn *, int n_threads);
    int (*linear)(const elmo_product *, int n_threads);
    int (*highway)(const elmo_product *, int n_threads);
} elmo_kernels;

/* Returns the kernels of an instruction set, or NULL if they are not built, or this
   processor does not have it. */
const elmo_kernels *elmo_find(const char *instructions);

/* Runs task(argument, i) for each i < n_tasks on n_threads threads, which end before it
   returns. Returns whether a task has returned other than 0. */
int elmo_run(int (*task)(const void *, int64_t), const void *argument, int64_t n_tasks,
             int n_threads);

#endif
