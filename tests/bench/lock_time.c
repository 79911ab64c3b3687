/* SPDX-License-Identifier: Apache-2.0 */
#include "lock_time.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_MAX 64u

/* Under the lock that is measured: there is one cache in the program. */
static struct {
    const char *who;
    unsigned *ns;
    unsigned long count, capacity;
} functions[FUNCTIONS_MAX];
static int64_t begun_ns;

static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void record(const char *who)
{
    int64_t took_ns = cpu_ns() - begun_ns;
    unsigned i = 0;
    while (i < FUNCTIONS_MAX && functions[i].who != NULL && strcmp(functions[i].who, who) != 0)
        i++;
    assert(i < FUNCTIONS_MAX);
    functions[i].who = who;
    if (functions[i].count == functions[i].capacity) {
        functions[i].capacity = functions[i].capacity * 2 + 1024;
        functions[i].ns =
            realloc(functions[i].ns, functions[i].capacity * sizeof *functions[i].ns);
        assert(functions[i].ns != NULL);
    }
    functions[i].ns[functions[i].count++] =
        took_ns < (int64_t)UINT32_MAX ? (unsigned)took_ns : UINT32_MAX;
}

int lock_time_lock(pthread_mutex_t *mutex)
{
    int rc = pthread_mutex_lock(mutex);
    begun_ns = cpu_ns();
    return rc;
}

int lock_time_unlock(pthread_mutex_t *mutex, const char *who)
{
    record(who);
    return pthread_mutex_unlock(mutex);
}

int lock_time_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                   const struct timespec *deadline, const char *who)
{
    record(who);
    int rc = pthread_cond_timedwait(condition, mutex, deadline);
    begun_ns = cpu_ns();
    return rc;
}

unsigned lock_time_report(void (*tell)(const char *who, const unsigned *ns, unsigned long count))
{
    unsigned i = 0;
    for (; i < FUNCTIONS_MAX && functions[i].who != NULL; i++)
        tell(functions[i].who, functions[i].ns, functions[i].count);
    return i;
}
