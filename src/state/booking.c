/* SPDX-License-Identifier: Apache-2.0 */
#include "state/booking.h"

#include <assert.h>

#define STEP(next_, action_) {.next = BOOKING_##next_, .action = BOOKING_##action_}
#define ODD(next_, action_) {.next = BOOKING_##next_, .action = BOOKING_##action_, .odd = true}

static const struct booking_step steps[BOOKING_STATE_MAX][BOOKING_EVENT_MAX] = {
    [BOOKING_NONE] =
        {
            [BOOKING_HOLD] = STEP(TENTATIVE, CHARGE),
            [BOOKING_LAPSE] = STEP(NONE, KEEP),
            [BOOKING_BOOK] = STEP(BOOKED, CHARGE),
            /* The pod went while its binding was on the way. */
            [BOOKING_CONFIRM] = ODD(NONE, KEEP),
            [BOOKING_FORGET] = STEP(NONE, KEEP),
            [BOOKING_SEEN_PENDING] = STEP(NONE, KEEP),
            [BOOKING_SEEN_HERE] = STEP(BOUND, CHARGE),
            [BOOKING_SEEN_ELSEWHERE] = STEP(BOUND, CHARGE),
            [BOOKING_GONE] = STEP(NONE, KEEP),
        },
    [BOOKING_TENTATIVE] =
        {
            /* Two filter calls at once: the first one's cards will do. */
            [BOOKING_HOLD] = STEP(TENTATIVE, KEEP),
            [BOOKING_LAPSE] = STEP(NONE, RELEASE),
            /* Bind decides again, perhaps on another node. */
            [BOOKING_BOOK] = STEP(BOOKED, MOVE),
            [BOOKING_CONFIRM] = ODD(TENTATIVE, KEEP),
            /* The end of an earlier binding: it says nothing of this one. */
            [BOOKING_FORGET] = STEP(TENTATIVE, KEEP),
            [BOOKING_SEEN_PENDING] = STEP(TENTATIVE, KEEP),
            [BOOKING_SEEN_HERE] = STEP(BOUND, MOVE),
            /* Nothing was promised, so it is not odd. */
            [BOOKING_SEEN_ELSEWHERE] = STEP(BOUND, MOVE),
            [BOOKING_GONE] = STEP(NONE, RELEASE),
        },
    [BOOKING_BOOKED] =
        {
            [BOOKING_HOLD] = STEP(BOOKED, KEEP),
            [BOOKING_LAPSE] = STEP(BOOKED, KEEP),
            [BOOKING_BOOK] = STEP(BOOKED, REFUSE),
            [BOOKING_CONFIRM] = STEP(BOOKED, KEEP),
            [BOOKING_FORGET] = STEP(NONE, RELEASE),
            /* An event older than our binding. */
            [BOOKING_SEEN_PENDING] = STEP(BOOKED, KEEP),
            /* Set from what the pod carries now: equal to our plan, unless another writer won. */
            [BOOKING_SEEN_HERE] = STEP(BOUND, MOVE),
            [BOOKING_SEEN_ELSEWHERE] = ODD(BOUND, MOVE),
            [BOOKING_GONE] = STEP(NONE, RELEASE),
        },
    [BOOKING_BOUND] =
        {
            [BOOKING_HOLD] = STEP(BOUND, KEEP),
            [BOOKING_LAPSE] = STEP(BOUND, KEEP),
            [BOOKING_BOOK] = STEP(BOUND, REFUSE),
            [BOOKING_CONFIRM] = STEP(BOUND, KEEP),
            /* The API server's word on one call is older than what the watch showed. */
            [BOOKING_FORGET] = ODD(BOUND, KEEP),
            [BOOKING_SEEN_PENDING] = ODD(NONE, RELEASE),
            [BOOKING_SEEN_HERE] = STEP(BOUND, KEEP),
            [BOOKING_SEEN_ELSEWHERE] = ODD(BOUND, MOVE),
            [BOOKING_GONE] = STEP(NONE, RELEASE),
        },
};

struct booking_step booking_next(enum booking_state state, enum booking_event event)
{
    assert(state < BOOKING_STATE_MAX && event < BOOKING_EVENT_MAX);
    return steps[state][event];
}

const char *booking_state_name(enum booking_state state)
{
    static const char *const names[BOOKING_STATE_MAX] = {"none", "tentative", "booked", "bound"};
    assert(state < BOOKING_STATE_MAX);
    return names[state];
}
