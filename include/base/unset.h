/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UNSET_H
#define BASE_UNSET_H

/* Of a large variable that is written before it is read: the build has the compiler clear what is on the
 * stack, and this need not be. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define UNSET __attribute__((uninitialized))
#endif
#endif
#ifndef UNSET
#define UNSET
#endif

#endif
