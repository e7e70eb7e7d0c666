/* The choice of an instruction set, and the threads of a call. */

#include "elmo.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
extern const elmo_kernels elmo_avx512_bf16, elmo_avx512, elmo_avx2;
#elif defined(__aarch64__)
extern const elmo_kernels elmo_neon;
#endif

const elmo_kernels *elmo_find(const char *instructions)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f");
    if (!strcmp(instructions, "avx512_bf16"))
        return avx512 && __builtin_cpu_supports("avx512bf16") ? &elmo_avx512_bf16 : NULL;
    if (!strcmp(instructions, "avx512"))
        return avx512 ? &elmo_avx512 : NULL;
    if (!strcmp(instructions, "avx2"))
        return avx2 ? &elmo_avx2 : NULL;
#elif defined(__aarch64__)
    if (!strcmp(instructions, "neon"))
        return &elmo_neon;
#endif
    return NULL;
}

typedef struct {
    int (*task)(const void *, int64_t);
    const void *argument;
    int64_t n_tasks, next;
    int failed;
} work;

static void take_tasks(work *w)
{
    for (;;) {
        int64_t i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (i >= w->n_tasks)
            return;
        if (w->task(w->argument, i))
            __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    }
}

#if defined(_WIN32)

int elmo_run(int (*task)(const void *, int64_t), const void *argument, int64_t n_tasks,
             int n_threads)
{
    work w = {task, argument, n_tasks, 0, 0};
    (void)n_threads;
    take_tasks(&w);
    return w.failed;
}

#else

#include <pthread.h>

enum { MOST_THREADS = 64 };

static void *of_a_thread(void *w)
{
    take_tasks(w);
    return NULL;
}

int elmo_run(int (*task)(const void *, int64_t), const void *argument, int64_t n_tasks,
             int n_threads)
{
    work w = {task, argument, n_tasks, 0, 0};
    pthread_t threads[MOST_THREADS];
    int n = 0;
    while (n < MOST_THREADS && n + 1 < n_threads && n + 1 < n_tasks) {
        if (pthread_create(&threads[n], NULL, of_a_thread, &w))
            break; /* the threads that were started do all the work */
        n++;
    }
    take_tasks(&w);
    while (n--)
        pthread_join(threads[n], NULL);
    return w.failed;
}

#endif
