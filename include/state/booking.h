/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_BOOKING_H
#define STATE_BOOKING_H

#include <stdbool.h>

/*
 * The life of a booking, as one total table: every pair of state and event has an entry, because events
 * come late, twice and out of order. Keyed by pod UID; setting, never adding.
 *
 *            book               seen here
 *   none ----------> booked ---------------> bound
 *    ^  ^              |                       |
 *    |  +--- forget ---+                       |
 *    +------- gone (deleted, finished) --------+
 *   none -- hold (filter named one node) --> tentative -- book --> booked
 *   tentative -- lapse (its time is up, or the pod is filtered again) --> none
 *   none -- seen here --> bound           (placed before us, or by somebody else)
 *   booked -- seen elsewhere --> bound there, the old place given back, counted
 */
enum booking_state {
    BOOKING_NONE,
    BOOKING_TENTATIVE, /* charged, but nobody was promised anything */
    BOOKING_BOOKED,
    BOOKING_BOUND,
    BOOKING_STATE_MAX
};

enum booking_event {
    BOOKING_HOLD,           /* filter left one node: keep its cards until bind comes */
    BOOKING_LAPSE,          /* nobody came for them, or filter asks anew */
    BOOKING_BOOK,           /* our decision at bind */
    BOOKING_CONFIRM,        /* the API server said yes */
    BOOKING_FORGET,         /* the API server said no, or the pod was read back as not ours */
    BOOKING_SEEN_PENDING,   /* pod event without a node: may be older than our bind */
    BOOKING_SEEN_HERE,      /* pod event with the booked node; any node when none is booked */
    BOOKING_SEEN_ELSEWHERE, /* pod event with another node than the booked one */
    BOOKING_GONE,           /* pod deleted, Succeeded or Failed */
    BOOKING_EVENT_MAX
};

enum booking_action {
    BOOKING_KEEP,    /* charges stay as they are */
    BOOKING_CHARGE,  /* charge the pod's place */
    BOOKING_RELEASE, /* give the charges back */
    BOOKING_MOVE,    /* give the old place back, charge the new one */
    BOOKING_REFUSE,  /* our own code must not do this now: the caller answers with an error */
};

struct booking_step {
    enum booking_state next;
    enum booking_action action;
    bool odd; /* legal but unexpected: counted */
};

/* The table. Pure. */
struct booking_step booking_next(enum booking_state state, enum booking_event event);

/* "none", "tentative", "booked", "bound". */
const char *booking_state_name(enum booking_state state);

#endif
