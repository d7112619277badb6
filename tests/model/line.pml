/* The line of one lock, for Spin: who is granted the lock next, whatever order the statements of several requests come
 * in, and whoever of them freezes, dies or gives up. Run by check.sh. That no two hold the lock is for lease.pml; here
 * a grant is one step.
 *
 * N requests. Each tries, and where it is refused, it leaves or takes a place: first the row of dblock_waiter, then the
 * mark in the lock's own row, each a statement of its own. Then it sleeps while the lock is held, and tries in each tick
 * in which the lock is free. The steps are the statements of sql/verbs; time is in ticks.
 *
 * Assumptions: a request that is up sends its next statement within a tick, renews its place before that ends, and, when
 * the lock is free, tries once a tick (a sleeper is woken, or looks by itself).
 *
 * Macros. Faults: MISHAPS (waiters freeze, wake, die), HOLDER_MISHAPS (holders, too). Policies of all requests: NEWEST,
 * REPLACE. Size: N, VICTIMS (how many have mishaps), MAXT, PATIENCE (ticks). ONLY_O1 … checks one property, MUTANT_…
 * breaks one rule, WITNESS_… claims something untrue. */

#ifndef N
#define N 3
#endif
#ifndef MAXT
#define MAXT 7
#endif
#ifndef PATIENCE
#define PATIENCE 2 /* k_line_patience */
#endif
#define LENGTH 4 /* of a place; more than the patience, as in Waiting */

/* ---- what is checked. The first operand is false for ever; it names the property in the message of a failure. */
hidden byte O1_order, O2_newer_is_revoked, O3_held_up, O4_newest, WITNESS_reached;

#if defined(ONLY_O1) || defined(ONLY_O2) || defined(ONLY_O3) || defined(ONLY_O4) || defined(ONLY_WITNESS)
#define ONLY
#endif
#if !defined(ONLY) || defined(ONLY_O1)
#define check_O1(claim) assert(O1_order || (claim))
#else
#define check_O1(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_O2)
#define check_O2(claim) assert(O2_newer_is_revoked || (claim))
#else
#define check_O2(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_O3)
#define check_O3(claim) assert(O3_held_up || (claim))
#else
#define check_O3(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_O4)
#define check_O4(claim) assert(O4_newest || (claim))
#else
#define check_O4(claim) skip
#endif
#define never_happens(what) assert(WITNESS_reached || !(what))

/* ---- time, and the clock that arrivals are taken from, finer than a tick */
byte T = 1;
byte moment;

/* ---- the lock's own row */
byte holder;         /* 0: free */
byte arrived_at;     /* of the request that was granted last */
byte free_at = 1;    /* since when it could be granted */
byte line_until;     /* somebody may be waiting until then */
byte token;          /* counts the grants */
bool revoked;

/* ---- dblock_waiter */
bool place[N];
byte arrival[N];     /* as its request knows it; 0: it has not been refused yet */
byte seen_until[N];

/* ---- requests */
#define NEW 0
#define REFUSED 1
#define PLACED 2     /* the place is there, the mark is not */
#define WAITING 3
#define GRANTED 4    /* the lock is held, the places are not given up yet */
#define HOLDING 5
#define GONE 6
byte at[N];
bool frozen[N];      /* for ever: dead */
bool froze[N];       /* once is enough */
byte tried[N];       /* the tick of the last try */
byte wants_end_of[N];/* the token that it has found and will revoke */

/* ---- ghosts */
byte blamed[N];      /* how often the lock lay idle for this one's sake */
byte newest_granted;

#define up(c) (!frozen[c])
#define counts(d) (place[d] && seen_until[d] > T)
#define stands_before(d, c) (d != c && counts(d) && (arrival[c] == 0 || arrival[d] < arrival[c]))
#ifdef NEWEST
#define is_in_the_way(d, c) (stands_before(d, c) && arrival[c] == 0)
#else
#define is_in_the_way(d, c) stands_before(d, c)
#endif
#define long_free (T >= free_at + PATIENCE)

#if N == 3
#define some(what, c) (what(0, c) || what(1, c) || what(2, c))
#else
#define some(what, c) (what(0, c) || what(1, c) || what(2, c) || what(3, c))
#endif
#define live_before(d, c) (stands_before(d, c) && up(d) && at[d] == WAITING)
#define is_newer(d, c) (d != c && counts(d) && arrival[d] > arrival[c])

#ifdef MUTANT_NO_PATIENCE
#define passes(c) false
#else
#define passes(c) long_free
#endif
#ifdef MUTANT_ORDER_IGNORED
#define our_turn(c) true
#else
#define our_turn(c) (passes(c) || !some(is_in_the_way, c))
#endif
#if defined(NEWEST) && !defined(MUTANT_OLDER_AFTER_NEWER)
#define not_too_early(c) (arrival[c] == 0 || arrived_at <= arrival[c])
#else
#define not_too_early(c) true
#endif

/* A holder that is killed before it has given up its places leaves those before them to be waited for again. */
#ifdef HOLDER_MISHAPS
#define BLAMES N
#else
#define BLAMES 1
#endif

/* ---- what a grant writes. `obeys`: the statement has read the line, and writes into the row how long it goes on. */
inline grant(c, obeys) {
  byte d, longest;
#ifndef NEWEST
  check_O1(long_free || !some(live_before, c));
#else
  check_O4(arrival[c] == 0 || arrival[c] > newest_granted);
#endif
#ifdef WITNESS_PASSED_FROZEN
  never_happens(some(stands_before, c) && long_free);
#endif
  longest = 0;
  for (d : 0 .. N - 1) {
    if
    :: obeys && is_in_the_way(d, c) && !up(d) -> blamed[d]++; check_O3(blamed[d] <= BLAMES)
    :: else
    fi;
    if
    :: d != c && counts(d) && seen_until[d] > longest -> longest = seen_until[d]
    :: else
    fi
  }
  if :: obeys -> line_until = longest :: else fi;
  holder = c + 1;
  token++;
  revoked = false;
  if
  :: arrival[c] == 0 -> moment++; arrived_at = moment
  :: else -> arrived_at = arrival[c]
  fi;
  if
  :: arrived_at > newest_granted -> newest_granted = arrived_at
  :: else
  fi;
  at[c] = (obeys -> GRANTED : HOLDING); /* who has read no line, gives up no places */
  longest = 0;
  d = 0
}

/* add_place.sql, or keep_places.sql, which keeps the arrival. */
inline take_place(c) {
  if :: arrival[c] == 0 -> moment++; arrival[c] = moment :: else fi;
  place[c] = true;
  seen_until[c] = T + LENGTH
}

inline leave(c) {
  place[c] = false;
  seen_until[c] = 0;
  at[c] = GONE;
  wants_end_of[c] = 0;
  tried[c] = 0
}

proctype Request(byte c) {
end:
  do
  /* -- grant.sql: for a request that has no place. The row alone is read. */
  :: d_step { up(c) && at[c] == NEW && holder == 0 && line_until <= T -> grant(c, false) }
  /* -- grant_in_line.sql, after that was refused */
  :: d_step { up(c) && at[c] == NEW && holder == 0 && line_until > T && our_turn(c) && not_too_early(c) -> grant(c, true) }
  :: d_step { up(c) && at[c] == NEW && (holder != 0 || (line_until > T && !(our_turn(c) && not_too_early(c)))) ->
       at[c] = REFUSED }
  :: d_step { up(c) && at[c] == REFUSED -> leave(c) } /* it does not wait */

  /* -- Waiting::stand(): the place, then mark_line.sql */
#ifdef MUTANT_MARK_FIRST
  :: d_step { up(c) && at[c] == REFUSED -> line_until = T + LENGTH; at[c] = PLACED }
  :: d_step { up(c) && at[c] == PLACED -> take_place(c); at[c] = WAITING }
#else
  :: d_step { up(c) && at[c] == REFUSED -> take_place(c); at[c] = PLACED }
  :: d_step { up(c) && at[c] == PLACED ->
#ifndef MUTANT_NO_MARK
       if :: line_until < T + LENGTH -> line_until = T + LENGTH :: else fi;
#endif
       at[c] = WAITING }
#endif
  :: d_step { up(c) && at[c] == WAITING && (!counts(c) || seen_until[c] <= T + LENGTH / 2) ->
#ifdef WITNESS_COMES_BACK
       never_happens(!place[c] && token > 1);
#endif
       take_place(c);
       at[c] = PLACED }

  /* -- a try when the lock is free */
  :: d_step { up(c) && at[c] == WAITING && holder == 0 && tried[c] < T ->
       tried[c] = T;
       if
       :: our_turn(c) && not_too_early(c) -> grant(c, true)
       :: else
       fi }
  :: d_step { up(c) && at[c] == WAITING -> leave(c) } /* --wait is over, or a signal */
#ifdef NEWEST
  :: d_step { up(c) && at[c] == WAITING && (some(is_newer, c) || !not_too_early(c)) -> leave(c) }
#endif
#ifdef REPLACE
  /* -- replace(): what was read may be old when the revocation comes */
  :: d_step { up(c) && at[c] == WAITING && holder != 0 && !revoked && wants_end_of[c] != token -> wants_end_of[c] = token }
  :: d_step { up(c) && at[c] == WAITING && wants_end_of[c] != 0 ->
       if
#ifdef MUTANT_REVOKES_NEWER
       :: holder != 0 && wants_end_of[c] == token ->
#else
       :: holder != 0 && wants_end_of[c] == token && arrived_at < arrival[c] -> /* revoke.sql */
#endif
         check_O2(arrived_at < arrival[c]);
#ifdef WITNESS_REVOKED
         never_happens(true);
#endif
         revoked = true
       :: else
       fi;
       wants_end_of[c] = 0 }
#endif

  /* -- LeaseStore::settle(): pass_line.sql */
  :: d_step { up(c) && at[c] == GRANTED ->
       byte d;
       for (d : 0 .. N - 1) {
         if
#ifdef MUTANT_PASSED_STAY
         :: d == c ->
#else
         :: place[d] && (d == c || arrival[d] < arrived_at) ->
#endif
           place[d] = false; seen_until[d] = 0
         :: else
         fi
       }
       d = 0;
       at[c] = HOLDING }
  :: d_step { up(c) && at[c] == HOLDING -> holder = 0; free_at = T; revoked = false; leave(c) }
  od
}

/* The lease of a holder that renews no more ends. */
proctype Server() {
end:
  do
  :: d_step { holder != 0 && !up(holder - 1) ->
       at[holder - 1] = GONE; holder = 0; free_at = T; revoked = false }
  od
}

/* A request that is up has something to send in this tick. */
#define busy(c, unused) (up(c) && (at[c] == REFUSED || at[c] == PLACED || at[c] == GRANTED || \
  (at[c] == WAITING && (!counts(c) || seen_until[c] <= T + 1 || !not_too_early(c) || (holder == 0 && tried[c] < T)))))
#define hopes(c, unused) (up(c) && at[c] == WAITING)

proctype Time() {
  do
  :: d_step { T < MAXT && !some(busy, 0) ->
       check_O3(holder != 0 || !long_free || !some(hopes, 0));
       T++ }
  :: T == MAXT -> break
  od
}

#if defined(HOLDER_MISHAPS) && !defined(MISHAPS)
#define MISHAPS
#endif
#ifdef HOLDER_MISHAPS
#define may_fail(c) (up(c) && at[c] != NEW && at[c] != GONE)
#else
#define may_fail(c) (up(c) && (at[c] == PLACED || at[c] == WAITING))
#endif

#ifndef VICTIMS
#define VICTIMS N
#endif
#ifdef MISHAPS
proctype Mishap(byte c) {
end:
  do
  :: d_step { may_fail(c) && !froze[c] -> frozen[c] = true; froze[c] = true }
  :: d_step { frozen[c] && at[c] != GONE -> frozen[c] = false }
  od
}
#endif

init {
  atomic {
    byte c;
    for (c : 0 .. N - 1) {
      run Request(c);
#ifdef MISHAPS
      if
      :: c < VICTIMS -> run Mishap(c)
      :: else
      fi
#endif
    }
    c = 0;
    run Server();
    run Time()
  }
}
