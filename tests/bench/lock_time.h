/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCK_TIME_H
#define LOCK_TIME_H

#include <pthread.h>
#include <time.h>

/*
 * How long the lock of the state is held, in processor time of the thread that holds it. A build with
 * LOCKTIME=1 includes this in front of every file of src/state, whose calls then come here; in other
 * builds nothing of this is in the code.
 */

/* As those of pthread, for the function `who`. */
int lock_time_lock(pthread_mutex_t *mutex);
int lock_time_unlock(pthread_mutex_t *mutex, const char *who);
int lock_time_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                   const struct timespec *deadline, const char *who);

/* What was measured, function by function. Returns the number of functions. */
unsigned lock_time_report(void (*tell)(const char *who, const unsigned *ns, unsigned long count));

#ifdef LOCK_TIME_REPLACE
#define pthread_mutex_lock(mutex)   lock_time_lock(mutex)
#define pthread_mutex_unlock(mutex) lock_time_unlock(mutex, __func__)
#define pthread_cond_timedwait(condition, mutex, deadline)                                         \
    lock_time_wait(condition, mutex, deadline, __func__)
#endif

#endif
