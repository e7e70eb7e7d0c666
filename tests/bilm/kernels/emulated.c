/* Calls one kernel of 64-bit Arm with what test_neon.py writes, and writes what it finds.

   Standard input has the numbers of a struct of elmo.h in its order, as int64 or float,
   and each array as its length in bytes and its bytes. An empty array is NULL. */

#include "elmo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void get(void *to, size_t size)
{
    if (fread(to, 1, size, stdin) != size)
        exit(2);
}

static int64_t number(void)
{
    int64_t n;
    get(&n, sizeof n);
    return n;
}

static float real(void)
{
    float x;
    get(&x, sizeof x);
    return x;
}

static void *array(void)
{
    int64_t size = number();
    if (!size)
        return NULL;
    void *found = malloc(size); /* exactly so long: the sanitizers see what is behind */
    get(found, size);
    return found;
}

static void put(const float *values, int64_t n)
{
    fwrite(values, sizeof(float), n, stdout);
}

static int read_layers(const elmo_kernels *kernels, int n_threads)
{
    elmo_reading r = {0};
    r.mode = number(), r.residual = number();
    r.n_layers = number(), r.width = number(), r.cells = number();
    r.n_rows = number(), r.n_sequences = number(), r.n_steps = number();
    r.cell_clip = real(), r.proj_clip = real();
    r.batch_sizes = array(), r.x = array();
    for (int d = 0; d < 2; d++) {
        r.read_rows[d] = array(), r.write_rows[d] = array();
        r.h[d] = array(), r.c[d] = array();
        elmo_layer *layers = calloc(r.n_layers, sizeof *layers);
        for (int64_t l = 0; l < r.n_layers; l++) {
            layers[l].weight_x = array(), layers[l].weight_h = array();
            layers[l].weight_p = array(), layers[l].bias = array();
        }
        r.layers[d] = layers;
    }
    int64_t n_out = (r.n_layers + 1) * r.n_rows * 2 * r.width;
    r.out = malloc(n_out * sizeof(float));
    int failed = kernels->read(&r, n_threads);
    put(r.out, n_out);
    for (int d = 0; d < 2; d++) {
        put(r.h[d], r.n_layers * r.n_sequences * r.width);
        put(r.c[d], r.n_layers * r.n_sequences * r.cells);
    }
    return failed;
}

static int char_cnn(const elmo_kernels *kernels, int n_threads)
{
    elmo_char_cnn c = {0};
    c.mode = number(), c.is_tanh = number();
    c.n_words = number(), c.n_columns = number(), c.char_dim = number();
    c.n_groups = number(), c.n_filters = number();
    c.ids = array(), c.table = array(), c.filters = array();
    c.widths = array(), c.columns = array(), c.bias = array();
    c.out = malloc(c.n_words * c.n_filters * sizeof(float));
    int failed = kernels->char_cnn(&c, n_threads);
    put(c.out, c.n_words * c.n_filters);
    return failed;
}

static int product(int (*kernel)(const elmo_product *, int), int n_threads)
{
    elmo_product p = {0};
    p.mode = number(), p.n_rows = number(), p.n_in = number(), p.n_out = number();
    p.x = array(), p.weight = array(), p.bias = array();
    p.out = malloc(p.n_rows * p.n_out * sizeof(float));
    int failed = kernel(&p, n_threads);
    put(p.out, p.n_rows * p.n_out);
    return failed;
}

int main(int argc, char **argv)
{
    const elmo_kernels *kernels = elmo_find("neon");
    if (argc != 3 || !kernels)
        return 3;
    int n_threads = atoi(argv[2]);
    if (!strcmp(argv[1], "read"))
        return read_layers(kernels, n_threads);
    if (!strcmp(argv[1], "char_cnn"))
        return char_cnn(kernels, n_threads);
    if (!strcmp(argv[1], "linear"))
        return product(kernels->linear, n_threads);
    return product(kernels->highway, n_threads);
}
