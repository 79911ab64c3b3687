/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a card: the protocol of bind, watch, restart and two replicas, for SPIN.  docs/model.md says what is
 * modelled, what is assumed, and what was found; check.sh runs it.
 *
 * Every alternative of a do-loop is one indivisible step and bears the name of the function of the code that it
 * stands for.  What the code does under one lock, or the API server in one transaction, is one step; between a
 * request and its answer lies anything.  Faults (crash, lost answer, late commit, stalled lease, late watch) are
 * alternatives like all others; those that could go on for ever have a budget.
 *
 * Removing a safeguard is compiling with -DWITHOUT_...
 */

#ifndef REPLICAS
#define REPLICAS 2
#endif
/* Pods by UID.  With three the first two are one after the other under the same name. */
#ifndef UIDS
#define UIDS 2
#endif
/* Each card is alone on a node of its own: to choose the node is to choose the card. */
#ifndef CARDS
#define CARDS 1
#endif
/* Budgets: bind calls a pod, deleted pods, deaths and orderly stops of processes, times that the lease is not
 * renewed. */
#ifndef BINDS
#define BINDS 2
#endif
#ifndef DELETES
#define DELETES 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef STALLS
#define STALLS 1
#endif

/* Time in ticks: T + D (bind.timeout + bind.delivery), and the lease. */
#ifndef TD
#define TD 1
#endif
#define LEASE (2 * TD) /* as configured: more than T + D and two retry periods */

/* ---- the API server ------------------------------------------------------------------------------------ */

/* A pod's life; a watch tells each step of it, in order. */
#define ABSENT 0
#define PENDING 1
#define BOUND 2
#define GONE 3
byte api[UIDS];
byte node[UIDS]; /* card + 1 on which it was bound; kept when it is gone */

/* POSTs on the wire by pod and card: ticks for which the server may still commit it; 0: none. */
#define POST(u, c) wire[(u) * CARDS + (c)]
byte wire[UIDS * CARDS];

byte holder;      /* of the Lease: replica + 1, 0: nobody */
byte lease_left;  /* ticks until others may take it */
bool stalled;     /* its holder does not renew it */
bool clean_mark;  /* released with the mark of a clean stop */

/* ---- a process ------------------------------------------------------------------------------------------ */

/* The term (leader.c): STEP_WAIT, STEP_READ, STEP_DONE.  Labels do not matter here. */
#define NO_TERM 0
#define WAIT 1
#define READ 2
#define DONE 3
bool up[REPLICAS];
bool leads[REPLICAS]; /* believes so */
byte step[REPLICAS];
byte wait_left[REPLICAS];

/* A record of the cache (cache_pods.c), by replica and pod. */
#define UNKNOWN_POD 0
#define BOOKING_NONE 1
#define BOOKED 2
#define CONFIRMED 3       /* booked, and the API server said yes */
#define UNKNOWN_OUTCOME 4 /* booked, and nobody knows */
#define BOOKING_BOUND 5
#define AT(r, u) ((r) * UIDS + (u))
#define HOLDS(i) (rec[i] >= BOOKED)
byte rec[REPLICAS * UIDS];
byte place[REPLICAS * UIDS]; /* card + 1 */
byte grace[REPLICAS * UIDS]; /* ticks until an unknown binding cannot happen any more */
byte seen[REPLICAS * UIDS];  /* how far the watch has told */

/* A bind handler (bind.c and binder.c), by replica and pod: cache_book refuses a second one for a pod. */
#define IDLE 0
#define KNOW 1     /* the pod was read, the cache not told yet */
#define TO_SEND 2  /* booked */
#define SENT 3
#define CREATED 4  /* answers on their way */
#define REFUSED 5
#define ASSIGNED 6
byte job[REPLICAS * UIDS];
byte want[REPLICAS * UIDS]; /* card + 1 of the call */
byte got[REPLICAS * UIDS];  /* what was read */
bool stale[REPLICAS * UIDS];     /* decided before the fence was open, or in another term */

/* The janitor's reading of a pod with an unknown outcome. */
byte asks[REPLICAS]; /* pod + 1 */
byte answer[REPLICAS];
bool ripe[REPLICAS]; /* asked after the grace */

byte binds[UIDS]; /* calls that kube-scheduler may still make */
#ifdef WITHOUT_REDECIDE
byte plan[UIDS];  /* the card + 1 that filter found */
#endif

byte deletes = DELETES;
byte crashes = CRASHES;
byte stalls = STALLS;

hidden byte k, n, t;

/* ---- what must hold ------------------------------------------------------------------------------------- */

inline no_card_twice()
{
    for (k : 0 .. UIDS - 1) {
        for (n : 0 .. UIDS - 1) {
            assert(k == n || api[k] != BOUND || api[n] != BOUND || node[k] != node[n]);
        }
    }
    k = 0; n = 0; t = 0
}

/* Nothing more can happen: the one that leads knows who holds what, and nothing else is taken. */
inline no_card_lost()
{
    t = 0;
    for (n : 0 .. REPLICAS - 1) {
        if
        :: leads[n] && step[n] == DONE && holder == n + 1 ->
            t++;
            for (k : 0 .. UIDS - 1) {
                assert((api[k] == BOUND) == HOLDS(AT(n, k)));
                assert(api[k] != BOUND || place[AT(n, k)] == node[k]);
            }
        :: else
        fi
    }
    assert(t == 1);
}

/* ---- pieces of the code ----------------------------------------------------------------------------------- */

inline release(i)
{
    rec[i] = BOOKING_NONE;
    place[i] = 0;
    grace[i] = 0;
}

inline cache_pod_remove(r, u)
{
    if
    :: rec[AT(r, u)] != UNKNOWN_POD ->
        release(AT(r, u));
        rec[AT(r, u)] = UNKNOWN_POD
    :: else
    fi
}

/* The table of booking.c for what is seen of a pod.  No binding is ever undone here: who is bound and is told to be
 * pending was read by the janitor, and the watch lags (only_read). */
inline cache_pod_set(r, u, stage)
{
    if
    :: stage == PENDING && rec[AT(r, u)] == UNKNOWN_POD -> rec[AT(r, u)] = BOOKING_NONE
#ifdef WITHOUT_NEWER_READ
    :: stage == PENDING && rec[AT(r, u)] == BOOKING_BOUND -> release(AT(r, u))
#endif
    :: stage == BOUND ->
        rec[AT(r, u)] = BOOKING_BOUND;
        place[AT(r, u)] = node[u];
        grace[AT(r, u)] = 0
    :: stage == GONE -> cache_pod_remove(r, u)
    :: else
    fi
}

inline cache_forget(i)
{
    if
    :: rec[i] == BOOKED || rec[i] == CONFIRMED || rec[i] == UNKNOWN_OUTCOME -> release(i)
    :: else
    fi
}

inline cache_confirm(i)
{
    if
    :: rec[i] == BOOKED || rec[i] == UNKNOWN_OUTCOME -> rec[i] = CONFIRMED; grace[i] = 0
    :: else
    fi
}

inline cache_outcome_unknown(i)
{
    if
    :: rec[i] == BOOKED -> rec[i] = UNKNOWN_OUTCOME; grace[i] = TD
    :: else
    fi
}

/* Sets t to whether nobody in the replica's cache has the card. */
inline card_is_free(r, card)
{
    t = 1;
    for (k : 0 .. UIDS - 1) {
        if
        :: HOLDS(AT(r, k)) && place[AT(r, k)] == card -> t = 0
        :: else
        fi
    }
}

#ifdef NO_ELECTION
#define LEASE_LASTS(r) true
#else
#define LEASE_LASTS(r) (holder == (r) + 1 && lease_left > TD)
#endif
#ifdef WITHOUT_FENCE
#define fence_may_send(r) (step[r] == DONE)
#else
#define fence_may_send(r) (step[r] == DONE && LEASE_LASTS(r))
#endif

#ifdef WITHOUT_GRACE
#define GRACE_IS_OVER(i) true
#else
#define GRACE_IS_OVER(i) (grace[i] == 0)
#endif

/* A bind is decided only while its binding may go out, and sent only in the same term. */
#ifdef WITHOUT_TERM_OF_DECISION
#define MAY_DECIDE(r) true
#define IS_STALE(i) false
#else
#define MAY_DECIDE(r) fence_may_send(r)
#define IS_STALE(i) stale[i]
#endif

inline job_ends(i)
{
    job[i] = IDLE;
    want[i] = 0;
    got[i] = 0;
    stale[i] = 0
}

/* Anything but a new booking is an answer without effect: already here, elsewhere, in progress, no fit. */
inline cache_book(r, u, card)
{
    card_is_free(r, card);
#ifdef WITHOUT_REDECIDE
    t = 1; /* filter has looked */
#endif
    if
    :: rec[AT(r, u)] == BOOKING_NONE && t && MAY_DECIDE(r) ->
        rec[AT(r, u)] = BOOKED;
        place[AT(r, u)] = card;
        job[AT(r, u)] = TO_SEND;
        stale[AT(r, u)] = 0
    :: else -> job_ends(AT(r, u))
    fi
}

inline end_term(r)
{
    leads[r] = 0;
    step[r] = NO_TERM;
    wait_left[r] = 0;
    for (k : 0 .. UIDS - 1) {
        stale[AT(r, k)] = (job[AT(r, k)] == TO_SEND || job[AT(r, k)] == SENT)
    }
    k = 0
}

inline begin_term(r)
{
    leads[r] = 1;
    step[r] = WAIT;
    wait_left[r] = TD;
#ifdef WITHOUT_TERM_WAIT
    wait_left[r] = 0;
#endif
}

/* A complete list of pods: what the API server has committed by now. */
inline list_pods(r)
{
    for (n : 0 .. UIDS - 1) {
        seen[AT(r, n)] = api[n];
        cache_pod_set(r, n, api[n]);
    }
}

/* ---- processes ------------------------------------------------------------------------------------------ */

#if UIDS > 2
#define MAY_EXIST(u) ((u) != 1 || api[0] == GONE)
#else
#define MAY_EXIST(u) true
#endif

/* Whoever creates and deletes pods. */
proctype Pod(byte u)
{
    do
    /* ---- created */
    :: d_step { api[u] == ABSENT && MAY_EXIST(u) -> api[u] = PENDING }
    /* ---- deleted, or finished */
    :: d_step { (api[u] == PENDING || api[u] == BOUND) && deletes > 0 -> deletes--; api[u] = GONE }
    od
}

/* POST pods/binding, from the wire. */
proctype Server(byte u; byte c)
{
    byte whom;
    do
    /* ---- the binding is committed, or refused */
    :: d_step {
        POST(u, c) > 0 ->
        whom = u;
#ifdef WITHOUT_UID
        if
        :: u == 0 && UIDS > 2 && api[0] == GONE -> whom = 1
        :: else
        fi;
#endif
        /* The answer for those who wait: created, not found, or already assigned. */
        t = (api[whom] == PENDING -> CREATED : (api[whom] == BOUND -> ASSIGNED : REFUSED));
        if
        :: t == CREATED -> api[whom] = BOUND; node[whom] = c + 1
        :: else
        fi;
        POST(u, c) = 0;
        for (k : 0 .. REPLICAS - 1) {
            if
            :: job[AT(k, u)] == SENT && want[AT(k, u)] == c + 1 -> job[AT(k, u)] = t
            :: else
            fi
        }
        whom = 0;
        no_card_twice()
       }
    od
}

#ifdef WITHOUT_REDECIDE
#define PLANNED(u, card) (plan[u] == card)
#else
#define PLANNED(u, card) true
#endif

#define I AT(r, u)

/* kube-scheduler asks one replica to bind a pod to one card's node.  Whether its own view allows that does not
 * matter: the answer of filter is a hint. */
proctype Caller(byte r; byte u; byte card)
{
    do
#ifdef WITHOUT_REDECIDE
    /* ---- sched_filter: a plan for one card, if it is free */
    :: d_step { leads[r] && binds[u] > 0 && plan[u] == 0 && api[u] != ABSENT && rec[I] < BOOKED ->
        card_is_free(r, card);
        plan[u] = (t -> card : 0);
        binds[u] = (t -> binds[u] : binds[u] - 1)
       }
#endif
    /* ---- sched_bind: cache_book of a pod that the cache knows */
    :: d_step { leads[r] && binds[u] > 0 && job[I] == IDLE && rec[I] == BOOKING_NONE && PLANNED(u, card) ->
        binds[u]--;
        want[I] = card;
        cache_book(r, u, card)
       }
    /* ---- sched_bind: know_pod, get_pod of one that it does not know */
    :: d_step { leads[r] && binds[u] > 0 && job[I] == IDLE && rec[I] == UNKNOWN_POD && PLANNED(u, card) &&
                (api[u] == PENDING || api[u] == BOUND) ->
        binds[u]--;
        want[I] = card;
        job[I] = KNOW;
        got[I] = api[u]
       }
    od
}

/* What becomes of the call: the bind handler, the watch and the janitor, as far as this pod is concerned. */
proctype Handler(byte r; byte u)
{
    do
    /* ---- cache_pod_learn, cache_book */
    :: d_step { job[I] == KNOW ->
        if
#ifndef WITHOUT_LEAVING_BOUND_TO_WATCH
        :: rec[I] == UNKNOWN_POD && got[I] == BOUND -> job_ends(I)
#endif
        :: else ->
            if
            :: rec[I] == UNKNOWN_POD -> cache_pod_set(r, u, got[I])
            :: else
            fi;
            cache_book(r, u, want[I])
        fi;
        got[I] = 0
       }
    /* ---- binder: may_send, POST */
    :: d_step { job[I] == TO_SEND ->
        if
        :: fence_may_send(r) && !IS_STALE(I) -> POST(u, want[I] - 1) = TD; job[I] = SENT
        :: else -> cache_forget(I); job_ends(I)
        fi
       }
    /* ---- the connection broke: libcurl sends once more */
    :: d_step { job[I] == SENT && fence_may_send(r) && !IS_STALE(I) && binds[u] > 0 -> binds[u]--; POST(u, want[I] - 1) = TD }
    /* ---- BIND_DONE; already assigned: ask_the_pod */
    :: d_step { job[I] == CREATED || (job[I] == ASSIGNED && api[u] == BOUND && node[u] == want[I]) ->
        cache_confirm(I); job_ends(I) }
    /* ---- BIND_REFUSED */
    :: d_step { job[I] == REFUSED ||
                (job[I] == ASSIGNED && !(api[u] == BOUND && node[u] == want[I])) ->
        cache_forget(I); job_ends(I) }
    /* ---- BIND_UNKNOWN: no answer, or it was lost */
    :: d_step { job[I] >= SENT ->
#ifdef WITHOUT_KEEP
        cache_forget(I);
#else
        cache_outcome_unknown(I);
#endif
        job_ends(I)
       }
    /* ---- watch: cache_pod_set, the next thing that happened to the pod */
    /* It comes whenever it comes.  Nobody asks the cache of a replica that does not lead. */
    :: d_step { leads[r] && seen[I] < api[u] ->
        seen[I] = (seen[I] == PENDING && node[u] == 0 -> GONE : seen[I] + 1);
        cache_pod_set(r, u, seen[I]) }
#ifndef WITHOUT_JANITOR
    /* ---- janitor: settle, get_pod */
    :: d_step { up[r] && leads[r] && asks[r] == 0 && rec[I] == UNKNOWN_OUTCOME &&
                (api[u] != PENDING || GRACE_IS_OVER(I)) ->
        asks[r] = u + 1;
        answer[r] = api[u];
        ripe[r] = GRACE_IS_OVER(I) }
    /* ---- janitor: sched_pod_gone, cache_pod_settle, cache_forget */
    :: d_step { asks[r] == u + 1 ->
        if
        :: answer[r] == GONE -> cache_pod_remove(r, u)
        :: answer[r] == BOUND && rec[I] == UNKNOWN_OUTCOME -> cache_pod_set(r, u, BOUND)
        :: answer[r] == PENDING && ripe[r] -> cache_forget(I)
        :: else
        fi;
        asks[r] = 0; answer[r] = 0; ripe[r] = 0 }
#endif
    od
}

/* A process: its term and its end. */
proctype Process(byte r)
{
    do
#ifndef NO_ELECTION
    /* ---- lease.c: hold; leader.c: began */
    :: d_step { up[r] && !leads[r] && (holder == 0 || lease_left == 0 || holder == r + 1) ->
        begin_term(r);
        wait_left[r] = (holder == 0 && clean_mark -> 0 : wait_left[r]);
        holder = r + 1; lease_left = LEASE; stalled = 0; clean_mark = 0 }
    /* ---- it cannot be renewed, and can again */
    :: d_step { leads[r] && holder == r + 1 && !stalled && stalls > 0 -> stalls--; stalled = 1 }
    :: d_step { leads[r] && holder == r + 1 && stalled && lease_left > 0 -> stalled = 0; lease_left = LEASE }
    /* ---- leader.c: ended, whenever it is noticed */
    :: d_step { leads[r] && (holder != r + 1 || stalled) -> end_term(r) }
    /* ---- lease_stop: drained, nothing unknown, no predecessor awaited: released with the mark */
    :: d_step { leads[r] && holder == r + 1 && !stalled && crashes > 0 ->
#ifdef WITHOUT_MARK_OF_A_TERM
        t = 1;
#else
        t = (step[r] == WAIT && wait_left[r] > 0 -> 0 : 1);
#endif
        for (k : 0 .. UIDS - 1) {
            if
            :: job[AT(r, k)] != IDLE -> t = 0
#ifndef WITHOUT_CLEAN_MARK
            :: job[AT(r, k)] == IDLE && rec[AT(r, k)] == UNKNOWN_OUTCOME -> t = 0
#endif
            :: else
            fi
        }
        if
        :: t && asks[r] == 0 ->
            crashes--; holder = 0; lease_left = 0; clean_mark = 1;
            up[r] = 0; end_term(r);
            for (k : 0 .. UIDS - 1) { release(AT(r, k)); rec[AT(r, k)] = UNKNOWN_POD; seen[AT(r, k)] = ABSENT }
        :: else
        fi }
#endif
    /* ---- leader.c: STEP_WAIT is over */
    :: d_step { step[r] == WAIT && wait_left[r] == 0 -> step[r] = READ }
    /* ---- leader.c: reflectors_consistent_pods, fence_open */
    :: d_step { step[r] == READ ->
#ifndef WITHOUT_CONSISTENT_READ
        list_pods(r);
#endif
        step[r] = DONE }
    /* ---- kill -9 at any time */
    :: d_step { up[r] && crashes > 0 ->
        crashes--;
        up[r] = 0; end_term(r);
        asks[r] = 0; answer[r] = 0; ripe[r] = 0;
        for (k : 0 .. UIDS - 1) {
            release(AT(r, k)); rec[AT(r, k)] = UNKNOWN_POD; seen[AT(r, k)] = ABSENT; job_ends(AT(r, k)) }
        stalled = (holder == r + 1 -> 1 : stalled) }
    /* ---- start: the first lists, then verbs */
    :: d_step { !up[r] ->
        up[r] = 1;
#ifdef NO_ELECTION
        begin_term(r);
#endif
        list_pods(r);
        k = 0 }
    od
}

/* Whether a timer of the array runs; its size is at most 6. */
#define RUNS(timer, size) (timer[0] > 0 || timer[1 % (size)] > 0 || timer[2 % (size)] > 0 || \
    timer[3 % (size)] > 0 || timer[4 % (size)] > 0 || timer[5 % (size)] > 0)

inline count_down(timer)
{
    timer = (timer > 0 -> timer - 1 : 0)
}

/* Time passes for all at once: clocks run equally fast.  No step but this one takes time. */
proctype Time()
{
    do
    /* ---- a tick */
    :: d_step { RUNS(wire, UIDS * CARDS) || RUNS(wait_left, REPLICAS) || RUNS(grace, REPLICAS * UIDS) ||
                (stalled && lease_left > 0) ->
#ifndef WITHOUT_TIMEOUT
        for (k : 0 .. UIDS * CARDS - 1) { count_down(wire[k]) }
#endif
        for (k : 0 .. REPLICAS - 1) { count_down(wait_left[k]) }
        for (k : 0 .. REPLICAS * UIDS - 1) { count_down(grace[k]) }
        lease_left = (stalled && lease_left > 0 -> lease_left - 1 : lease_left) }
    od
}

/* When nothing can happen any more. */
proctype End()
{
    timeout -> d_step { no_card_lost() }
}

init
{
    atomic {
        for (k : 0 .. UIDS - 1) { binds[k] = BINDS }
        for (k : 0 .. REPLICAS - 1) { up[k] = 1 }
        begin_term(0);
        step[0] = DONE; wait_left[0] = 0;
#ifndef NO_ELECTION
        lease_left = LEASE;
#endif
        holder = 1;
        for (k : 0 .. REPLICAS - 1) {
            run Process(k);
            for (n : 0 .. UIDS - 1) {
                run Handler(k, n);
                run Caller(k, n, 1);
#if CARDS > 1
                run Caller(k, n, 2)
#endif
            }
        }
        for (k : 0 .. UIDS - 1) {
            run Pod(k);
            for (n : 0 .. CARDS - 1) { run Server(k, n) }
        }
        run Time();
        run End()
    }
}
