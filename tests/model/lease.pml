/* The lease protocol of `dblock run`, for Spin: is I1 to I5 of the contract (src/README.md) what the protocol
 * gives, whatever is lost, late, paused, killed, skewed, reaped or failed over? Run by check.sh, which knows the
 * configurations (which faults), the mutants (which rule is broken) and the witnesses (what must be reachable).
 *
 * One key, an exclusive lock. N clients, each a dblock (its worker thread and its main thread), a guardian and a
 * job; one server with one row; a network; an environment that makes faults; and time. Every process is a loop of
 * indivisible steps over global variables, so that the order of steps is all that is left open.
 *
 * Time is in ticks. `T` is true time; the server's clock is T + off, a client's CLOCK_BOOTTIME is T - lag. A
 * message takes as long as it likes. The lease: TTL 4, margin 1, slack 1 (SIGKILL this long before the local
 * deadline; the first signal and its grace are left out: a job may end at any time, and may ignore signals).
 *
 * Assumptions, and where they are:
 *   A1 what the server has confirmed, survives       LOSSY_FAILOVER drops it; then I1 is not checked
 *   A2 the server's clock errs by at most sigma      `off` stays within 0..sigma
 *   A3 a local clock errs by at most rho * TTL       `lag` stays within 0..lag_max; together at most the margin
 *   A4 who is able to kill, kills within a tick      `overdue` holds up time
 *   A5 after a loss the clock is past every token    a promotion waits for it (reaping needs no such help)
 *   A6 there is one writable history                 one row; a promotion cuts off whatever was on its way
 * One of dblock and its guardian can be disturbed at a time; BOTH lifts that, and then I1 and I4 are not checked.
 *
 * Macros. Faults: NETWORK CLOCK PROCESS BOTH REAP FAILOVER LOSSY_FAILOVER. Size: N, MAXT (ticks), SIGMA, LAG_MAX,
 * VICTIMS, RERUN (a client that has ended, starts again). FENCED adds a storage that refuses tokens below the greatest one seen.
 * LIVE=T checks liveness: faults stop at T at the latest. NO_I1, NO_I4 leave that property out,
 * ONLY_I1 … ONLY_FENCE checks one property, MUTANT_… breaks one rule, WITNESS_… claims something untrue. */

#ifndef N
#define N 2
#endif
#ifndef MAXT
#define MAXT 10
#endif
#ifndef TTL
#define TTL 4
#endif
#ifndef MARGIN
#define MARGIN 1
#endif
#define SLACK 1
#ifndef SIGMA
#define SIGMA 1
#endif
#ifndef LAG_MAX
#define LAG_MAX 1
#endif
#define IDLE_TICKS 1 /* --forget-after; a day at least in the program, more than any clock error here as there */

#if defined(LOSSY_FAILOVER) && !defined(FAILOVER)
#define FAILOVER
#endif
#if defined(BOTH) && !defined(PROCESS)
#define PROCESS
#endif
#if defined(NETWORK) || defined(FAILOVER)
#define CALLS_FAIL
#endif

/* ---- what is checked. The first operand is false for ever; it names the property in the message of a failure. */
hidden byte I1_exclusion, I2_tokens, I3_ownership, I4_self_fence, I5_unknown_outcome, FENCE_storage, WITNESS_reached;

#if defined(ONLY_I1) || defined(ONLY_I2) || defined(ONLY_I3) || defined(ONLY_I4) || defined(ONLY_I5) \
  || defined(ONLY_FENCE) || defined(ONLY_WITNESS)
#define ONLY
#endif
#if (!defined(ONLY) && !defined(NO_I1)) || defined(ONLY_I1)
#define check_I1(claim) assert(I1_exclusion || (claim))
#else
#define check_I1(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_I2)
#define check_I2(claim) assert(I2_tokens || (claim))
#else
#define check_I2(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_I3)
#define check_I3(claim) assert(I3_ownership || (claim))
#else
#define check_I3(claim) skip
#endif
#if (!defined(ONLY) && !defined(NO_I4)) || defined(ONLY_I4)
#define check_I4(claim) assert(I4_self_fence || (claim))
#else
#define check_I4(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_I5)
#define check_I5(claim) assert(I5_unknown_outcome || (claim))
#else
#define check_I5(claim) skip
#endif
#if !defined(ONLY) || defined(ONLY_FENCE)
#define check_FENCE(claim) assert(FENCE_storage || (claim))
#else
#define check_FENCE(claim) skip
#endif
#define never_happens(what) assert(WITNESS_reached || !(what))

/* ---- the server: one row of dblock_lock (sql/0002), and the replica's, which is one commit behind */
bool row;            /* is there one? */
byte row_owner;      /* lock_value; 0: free (NULL) */
byte row_expire;     /* expire_time */
byte row_token;
byte row_idle;       /* update_time */
#ifdef FAILOVER
bool old_row;
byte old_owner, old_expire, old_token, old_idle;
bool promoted;
#define in_replica(c) (old_owner == owner_of(c))
#else
#define in_replica(c) false
#endif

/* ---- time */
byte T = 1;
#ifdef CLOCK
byte off, sigma, lag_max;
byte lag[N];
#define server_now (T + off)
#define local(c) (T - lag[c])
#else
#define server_now T
#define local(c) T
#endif

/* ---- messages. At most one call of a dblock is under way (LeaseStore: one thread at a time). A call that was given
 * up, or repeated by a proxy, may still be executed later, even after its client's end: `late`. */
#define NONE 0
#define ACQUIRE 1 /* TableLeaseStore::try_acquire(): grant, look, create */
#define RENEW 2
#define RELEASE 3

#define GRANTED_TO_US 1
#define OURS 2 /* the row carries our owner id */
#define HELD 3
#define RENEWED 4
#define RELEASED 5
#define NOT_OURS 6

byte call[N];
bool waits[N];       /* dblock waits for the reply */
byte reply[N], reply_token[N]; /* on its way back */
byte late, late_of, late_token;
bool free_sent[N];   /* the guardian's release by owner id is on its way */

/* ---- clients */
#define IDLE 0       /* about to try (again) */
#define TRY 1
#define READ_BACK 2
#define PROVE 3      /* needs_renewal_proof */
#define OPENING 4    /* the deadline was looked at, the gate opens next */
#define RUN 5
#define GIVE_BACK 6
#define ENDED 7
byte at[N];
byte token[N];       /* as dblock knows it; 0: not known. The job's DBLOCK_TOKEN */
byte sent[N];        /* when the last confirmed grant or renewal was sent: the deadline is TTL later */
byte call_sent[N];   /* when the call under way was sent */

#define GATED 0
#define ALIVE 1
#define DEAD 2
byte job[N];         /* its whole tree */

bool lost[N];        /* the heartbeat was told so: the job is to be stopped */
bool guarded[N];     /* the guardian has been told to watch the deadline */
bool paused[N], killed[N];     /* dblock, by SIGSTOP and SIGKILL */
bool g_paused[N], g_gone[N];   /* its guardian; gone: killed or dismissed */

#define dblock_able(c) (!paused[c] && !killed[c] && at[c] != ENDED)
#define guardian_able(c) (!g_paused[c] && !g_gone[c])
#define owner_of(c) (c + 1)
/* StopPlan::kill_due(), and without a grace fence_due() too */
#define kill_due(c) (local(c) >= sent[c] + TTL - SLACK)
#ifdef MUTANT_NO_SELF_FENCE
#define dblock_must_kill(c) false
#else
#define dblock_must_kill(c) (dblock_able(c) && (at[c] == OPENING || at[c] == RUN))
#endif
/* A4 */
#define overdue(c) (job[c] != DEAD && kill_due(c) && \
  ((guarded[c] && guardian_able(c)) || dblock_must_kill(c)))

/* ---- ghosts: what only the checks know */
byte top_token;      /* greatest token ever granted */
byte lease_end[N];   /* expire_time of what the server last gave this client */
byte given[N];       /* token of the server's last grant to this client */
bool freed[N];       /* by this run or its guardian */
bool granted_late[N];/* by a statement that outlived the call */
#ifdef FENCED
byte grants, grant_of[N];            /* grants are numbered */
byte stored_token, stored_grant;     /* the storage's greatest token, and whose it was */
#endif
bool healed;         /* no more faults */
#ifdef LIVE
byte polled[N];
#endif

/* The tree is gone. What only matters while it lives is cleared, here and below, so that equal states look equal. */
inline dies(c) {
  job[c] = DEAD;
  sent[c] = 0;
  lease_end[c] = 0;
  given[c] = 0
}

inline alone(c) {
  check_I1(job[0] != ALIVE || c == 0);
  check_I1(job[1] != ALIVE || c == 1);
#if N > 2
  check_I1(job[2] != ALIVE || c == 2)
#endif
}

inline dead_in_time() {
  check_I4(job[0] != ALIVE || server_now < lease_end[0] + MARGIN);
  check_I4(job[1] != ALIVE || server_now < lease_end[1] + MARGIN);
#if N > 2
  check_I4(job[2] != ALIVE || server_now < lease_end[2] + MARGIN)
#endif
}

/* ---- statements. Each is one d_step: the row lock covers predicate to commit, the clock is the server's. */

inline before_commit() {
#ifdef FAILOVER
  if
  :: !promoted -> old_row = row; old_owner = row_owner; old_expire = row_expire; old_token = row_token; old_idle = row_idle
  :: else
  fi
#else
  skip
#endif
}

#ifdef MUTANT_PLAIN_COUNTER
#define next_token (row -> row_token + 1 : 1)
#else
/* GREATEST(token + 1, microseconds since the epoch); without a row the latter (grant, create) */
#define next_token (row && row_token >= server_now -> row_token + 1 : server_now)
#endif

#ifdef MUTANT_NO_TAKEOVER
#define is_free (!row || row_owner == 0)
#else
#define is_free (!row || row_owner == 0 || row_expire + MARGIN <= server_now) /* k_past_margin */
#endif

inline acquire_statement(c, answer, answer_token) {
  if
  :: is_free ->
#ifdef WITNESS_TAKEOVER
    never_happens(row && row_owner != 0 && row_owner != owner_of(c));
#endif
#ifdef WITNESS_RECREATED
    never_happens(!row && top_token > 0);
#endif
    before_commit();
    row_token = next_token;
    row = true;
    row_owner = owner_of(c);
    row_expire = server_now + TTL;
    row_idle = 0;
    check_I2(row_token > top_token);
    if :: row_token > top_token -> top_token = row_token :: else fi;
    if :: job[c] != DEAD -> lease_end[c] = row_expire; given[c] = row_token :: else fi;
#ifdef FENCED
    grants++;
    grant_of[c] = grants;
#endif
    answer = GRANTED_TO_US;
    answer_token = row_token
  :: else ->
    /* A proxy that replays statements reports 0 rows for a grant it made: the row tells. */
    if
    :: row_owner == owner_of(c) -> answer = OURS; answer_token = row_token
    :: else -> answer = HELD
    fi
  fi
}

#ifdef MUTANT_RENEW_ANY_OWNER
#define renew_matches(c, t) (row && row_owner != 0 && row_expire > server_now)
#else
#ifdef MUTANT_RENEW_ANY_TOKEN
#define renew_matches(c, t) (row && row_owner == owner_of(c) && row_expire > server_now)
#else
#ifdef MUTANT_RENEW_REVIVES
#define renew_matches(c, t) (row && row_owner == owner_of(c) && row_token == t)
#else
#define renew_matches(c, t) (row && row_owner == owner_of(c) && row_token == t && row_expire > server_now)
#endif
#endif
#endif

inline renew_statement(c, t, answer) {
  if
  :: renew_matches(c, t) ->
    check_I3(row_owner == owner_of(c) && row_token == t && row_expire > server_now);
    before_commit();
    if :: row_expire < server_now + TTL -> row_expire = server_now + TTL :: else fi;
    if :: job[c] != DEAD -> lease_end[c] = row_expire :: else fi;
    answer = RENEWED
  :: else -> answer = NOT_OURS
  fi
}

#ifdef MUTANT_RELEASE_ANY_OWNER
#define release_matches(c, t) (row && row_owner != 0)
#else
#define release_matches(c, t) (row && row_owner == owner_of(c) && (t == 0 || row_token == t)) /* {is_named_lease} */
#endif

inline release_statement(c, t, answer) {
  if
  :: release_matches(c, t) ->
    check_I3(row_owner == owner_of(c));
    before_commit();
    row_owner = 0;
    row_expire = 0;
#ifdef REAP
    row_idle = server_now;
#endif
    freed[c] = true;
    answer = RELEASED
  :: else -> answer = NOT_OURS
  fi
}

inline execute(c, kind, t) {
  answer = NONE;
  answer_token = 0;
  if
  :: kind == ACQUIRE -> acquire_statement(c, answer, answer_token)
  :: kind == RENEW -> renew_statement(c, t, answer)
  :: kind == RELEASE -> release_statement(c, t, answer)
  fi
}

/* ---- how calls end */

#ifdef NETWORK
#define may_drop(c) (waits[c] && !healed)
#else
#ifdef FAILOVER
#define may_drop(c) (waits[c] && promoted && call[c] == NONE) /* cut off by the promotion */
#endif
#endif

inline send_call(c, kind) {
  call[c] = kind;
  if :: kind == RELEASE :: else -> call_sent[c] = local(c) fi;
  waits[c] = true
}

inline got_reply(c) {
  reply[c] = NONE;
  reply_token[c] = 0;
  waits[c] = false;
  call_sent[c] = 0
}

/* The network's timeout, a cut connection, or interrupt(): the outcome is not known. A statement that has not been
 * executed yet is lost, or comes late. */
inline drop_call(c) {
  if
  :: call[c] != NONE && late == NONE -> late = call[c]; late_of = c; late_token = token[c]
  :: true
  fi;
  call[c] = NONE;
  got_reply(c)
}

/* "Held by X", or "not acquired": there is no row of ours then that nobody looks after. */
inline say_not_acquired(c) {
  check_I5(row_owner != owner_of(c) || granted_late[c])
}

inline end_run(c) {
  at[c] = ENDED;
  token[c] = 0;
  guarded[c] = false;
  lost[c] = false;
  freed[c] = false;
  granted_late[c] = false;
#ifdef FENCED
  grant_of[c] = 0;
#endif
  /* dismiss_guardian(): the guardian goes, and with it a job that never got through the gate */
  g_gone[c] = true;
  g_paused[c] = false;
  dies(c)
}

/* Executes the call and answers. A reply that merely ends a wait is heard at once: having heard it, the client may
 * take as long for its next step as the reply could have taken. What a grant's or renewal's reply is worth depends on
 * when it is heard, so these travel. */
inline serve(c) {
  execute(c, call[c], token[c]);
  if
  :: !waits[c]
  :: waits[c] && (answer == GRANTED_TO_US || (answer == RENEWED && job[c] != DEAD)) ->
    reply[c] = answer;
    reply_token[c] = answer_token
#ifdef PROCESS
  :: waits[c] && call[c] == RELEASE -> reply[c] = answer /* dblock may be killed before it knows */
#endif
  :: else ->
    got_reply(c);
    if
    :: answer == OURS -> at[c] = PROVE; token[c] = answer_token
    :: answer == HELD -> say_not_acquired(c); at[c] = IDLE
    :: answer == RENEWED
    :: answer == RELEASED || (answer == NOT_OURS && call[c] == RELEASE) -> end_run(c)
    :: answer == NOT_OURS && call[c] == RENEW && at[c] == PROVE -> at[c] = IDLE; token[c] = 0 /* not_ours_after_all() */
    :: answer == NOT_OURS && call[c] == RENEW && at[c] != PROVE -> /* the heartbeat's on_lost: stop_lost() */
      check_I3(!freed[c]);
      lost[c] = (job[c] != DEAD)
    fi
  fi;
  answer = NONE;
  answer_token = 0
}

/* The server's end of the connections of client c. */
proctype Server(byte c) {
  byte answer, answer_token;
end:
  do
  :: d_step { call[c] != NONE -> serve(c); call[c] = NONE }
#ifdef NETWORK
  :: d_step { call[c] != NONE && late == NONE && !healed -> /* a proxy repeats it later */
       late = call[c]; late_of = c; late_token = token[c];
       serve(c);
       call[c] = NONE }
  :: d_step { call[c] != NONE && waits[c] && !healed -> /* Errc::unreachable: "not done", as 1213, 1205 or 1290 */
       if :: at[c] == TRY -> at[c] = IDLE :: else fi;
       got_reply(c);
       call[c] = NONE }
#endif
  :: d_step { free_sent[c] -> /* release_after_death(): by owner id */
       release_statement(c, 0, answer);
       answer = NONE;
       free_sent[c] = false }
  od
}

#ifdef CALLS_FAIL
proctype Late() {
  byte answer, answer_token;
end:
  do
  :: d_step { late != NONE ->
       execute(late_of, late, late_token);
       if
       :: answer == GRANTED_TO_US ->
         granted_late[late_of] = true;
#ifdef WITNESS_LATE_GRANT
         never_happens(true)
#endif
       :: else
       fi;
       answer = NONE;
       answer_token = 0;
       late = NONE; late_of = 0; late_token = 0 }
  od
}
#endif

/* ---- dblock */

#ifdef MUTANT_DEADLINE_FROM_REPLY
#define proved_at(c) local(c)
#else
#define proved_at(c) call_sent[c]
#endif

#ifdef LIVE
#define may_begin(c) (T == MAXT || local(c) > polled[c]) /* polls once a tick */
#else
#define may_begin(c) (c == 0 || row || T > 1 || !dblock_able(0) || g_gone[0])
#endif
#define beats(c) (at[c] == OPENING || at[c] == RUN)

proctype Dblock(byte c) {
end:
  do
  /* -- src/lease/acquire.cpp */
  :: d_step { dblock_able(c) && at[c] == IDLE && !g_gone[c] && call[c] == NONE && may_begin(c) -> /* try_once() */
       at[c] = TRY;
#ifdef LIVE
       polled[c] = local(c);
#endif
       send_call(c, ACQUIRE) }
  /* prove(), Run::run_under(), SupervisorRules::job_ready(): there must be time left. The last look, which is
   * also the strictest, stands for all. */
  :: d_step { dblock_able(c) && !g_gone[c] &&
              ((at[c] == TRY && reply[c] == GRANTED_TO_US) || (at[c] == PROVE && reply[c] == RENEWED)) ->
       sent[c] = proved_at(c);
       if :: at[c] == TRY -> token[c] = reply_token[c] :: else fi;
       got_reply(c);
       if
#ifndef MUTANT_NO_RECHECK
       :: kill_due(c) -> at[c] = GIVE_BACK; dies(c)
#endif
       :: else -> at[c] = OPENING
       fi }
  /* resolve(): the row is read back. A plain read: when it is answered makes no difference. */
  :: d_step { dblock_able(c) && at[c] == READ_BACK ->
       if
       :: row && row_owner == owner_of(c) ->
#ifdef WITNESS_READ_BACK
         never_happens(true);
#endif
         at[c] = PROVE;
         token[c] = row_token
       :: else -> say_not_acquired(c); at[c] = IDLE
       fi }
  :: d_step { dblock_able(c) && at[c] == PROVE && !waits[c] && call[c] == NONE -> /* prove(): an acknowledged renewal */
       send_call(c, RENEW) }
#ifdef CALLS_FAIL
  :: atomic { dblock_able(c) && at[c] == TRY && may_drop(c) -> /* Errc::indeterminate */
#ifdef MUTANT_UNKNOWN_IS_FAILURE
       say_not_acquired(c);
       drop_call(c);
       end_run(c)
#else
#ifdef MUTANT_UNKNOWN_IS_SUCCESS
       sent[c] = call_sent[c];
       drop_call(c);
       at[c] = OPENING
#else
       drop_call(c);
       at[c] = READ_BACK
#endif
#endif
     }
  :: atomic { dblock_able(c) && at[c] == PROVE && may_drop(c) -> drop_call(c) }
  :: d_step { dblock_able(c) && (at[c] == READ_BACK || at[c] == PROVE) && !waits[c] && !healed -> /* undecided() */
       end_run(c) }
#endif
  /* Awaited::guardian_died, cancel_acquire(). The job behind the gate has died with its parent. */
  :: d_step { dblock_able(c) && at[c] < OPENING && g_gone[c] && (!waits[c] || reply[c] != NONE) ->
       if :: reply[c] == GRANTED_TO_US -> token[c] = reply_token[c] :: else fi;
       got_reply(c);
       at[c] = GIVE_BACK }

  /* -- the gate, SupervisorRules::job_ready(): the guardian first, for it may have to do it alone. dblock may have
   * been frozen since it looked, so the child looks as well (become_job()). Who was killed behind the gate stays dead. */
#ifdef MUTANT_BLIND_GUARDIAN
#define woken(c) true
#else
#define woken(c) guarded[c]
#endif
  :: d_step { dblock_able(c) && at[c] == OPENING && !woken(c) -> guarded[c] = true }
  :: d_step { dblock_able(c) && at[c] == OPENING && woken(c) ->
       at[c] = RUN;
       if
#if !defined(MUTANT_NO_LOOK_BEHIND_THE_GATE) && !defined(MUTANT_NO_RECHECK)
       :: job[c] == GATED && kill_due(c) -> dies(c)
#endif
       :: else
       fi;
       if
       :: job[c] == GATED ->
         check_I5(token[c] != 0 && token[c] == given[c]);
#ifdef WITNESS_RUN_AFTER_DEATH
         never_happens(killed[1 - c] && !free_sent[1 - c]);
#endif
         alone(c);
         job[c] = ALIVE;
         dead_in_time()
       :: else
       fi }

  /* -- the heartbeat: run_heartbeat(), from the grant on; it does not look at deadlines */
  :: d_step { dblock_able(c) && beats(c) && job[c] != DEAD && !lost[c] && !waits[c] && call[c] == NONE &&
              local(c) > sent[c] ->
       send_call(c, RENEW) }
  :: d_step { dblock_able(c) && beats(c) && reply[c] == RENEWED -> /* on_renewed: extend_deadline() */
       if :: job[c] != DEAD -> sent[c] = proved_at(c) :: else fi;
       got_reply(c) }
#ifdef CALLS_FAIL
  :: atomic { dblock_able(c) && beats(c) && may_drop(c) -> /* unknown is not renewed */
#ifdef MUTANT_UNKNOWN_IS_RENEWED
       if :: job[c] != DEAD -> sent[c] = call_sent[c] :: else fi;
#endif
       drop_call(c) }
#endif

  /* -- SupervisorRules::time_passed(), act_for_guardian(): whatever the worker thread hangs in */
#ifndef MUTANT_NO_SELF_FENCE
  :: d_step { dblock_able(c) && at[c] == RUN && job[c] != DEAD && (kill_due(c) || g_gone[c]) ->
       dies(c);
       g_gone[c] = true; g_paused[c] = false }
#endif

  /* -- the end: Run::release(). The job's tree is dead, the heartbeat has ended or its call has been broken off */
#ifdef MUTANT_RELEASE_BEFORE_JOIN
  :: d_step { dblock_able(c) && at[c] == RUN && job[c] == DEAD && waits[c] && !free_sent[c] -> free_sent[c] = true }
#endif
#ifdef MUTANT_RELEASE_BEFORE_DEAD
  :: d_step { dblock_able(c) && at[c] == RUN && !waits[c] && call[c] == NONE -> /* it was signalled, that must do */
#else
  :: d_step { dblock_able(c) && at[c] == RUN && job[c] == DEAD && !waits[c] && call[c] == NONE ->
#endif
       at[c] = GIVE_BACK;
       send_call(c, RELEASE) }
  :: d_step { dblock_able(c) && at[c] == GIVE_BACK && !waits[c] && call[c] == NONE -> send_call(c, RELEASE) }
  :: d_step { dblock_able(c) && at[c] == GIVE_BACK && reply[c] != NONE -> got_reply(c); end_run(c) }
#ifdef CALLS_FAIL
  :: atomic { dblock_able(c) && at[c] == GIVE_BACK && may_drop(c) -> drop_call(c) } /* and again */
  :: d_step { dblock_able(c) && at[c] == GIVE_BACK && !waits[c] && !healed -> end_run(c) }  /* out of patience */
#endif

#ifdef RERUN
  /* -- the next run. Its owner id is new: only the name is used again, once nothing of the old one is anywhere */
  :: d_step { at[c] == ENDED && job[c] == DEAD && call[c] == NONE && (late == NONE || late_of != c) && !free_sent[c] && !healed &&
              row_owner != owner_of(c) && !in_replica(c) &&
              row_token <= server_now -> /* the clock has reached the last token: it ticks faster than runs begin */
       at[c] = IDLE;
       job[c] = GATED;
       killed[c] = false;
       g_gone[c] = false }
#endif
  od
}

/* ---- src/process/guardian/guardian_rules.cpp */
proctype Guardian(byte c) {
end:
  do
  :: d_step { guardian_able(c) && job[c] != DEAD && guarded[c] && kill_due(c) -> dies(c) } /* GuardianRules::time_passed() */
  :: d_step { guardian_able(c) && job[c] == ALIVE && lost[c] -> dies(c) }               /* ::begin_stop() */
  :: d_step { guardian_able(c) && job[c] != DEAD && killed[c] -> dies(c) }              /* ::dblock_died() */
#ifdef MUTANT_GUARDIAN_RELEASES_FIRST
  :: d_step { guardian_able(c) && killed[c] && at[c] != ENDED && !free_sent[c] && !freed[c] -> free_sent[c] = true }
#else
  :: d_step { guardian_able(c) && killed[c] && at[c] != ENDED && job[c] == DEAD && !free_sent[c] && !freed[c] ->
       free_sent[c] = true } /* ::release_and_end() */
#endif
  :: d_step { guardian_able(c) && killed[c] && job[c] == DEAD && (freed[c] || !healed) -> /* done, or out of patience */
       end_run(c) }
  od
}

/* ---- the job: a tree of processes that may ignore signals, and daemons that outlive their parents */
proctype Job(byte c) {
end:
  do
  :: d_step { job[c] == ALIVE -> dies(c) }
#ifdef FENCED
  :: d_step { job[c] == ALIVE && token[c] >= stored_token -> /* accepted */
       check_FENCE(grant_of[c] >= stored_grant);
       stored_token = token[c];
       stored_grant = grant_of[c] }
#ifdef WITNESS_STALE_WRITE
  :: d_step { job[c] == ALIVE && token[c] < stored_token -> never_happens(true) }
#endif
#endif
#ifdef BOTH
  :: d_step { job[c] == DEAD && killed[c] && g_gone[c] && at[c] != ENDED -> end_run(c) }
#endif
  od
}

/* ---- true time, and how clocks follow it. Nothing can happen before the first call is sent, and which client sends
 * it makes no difference. */
#ifdef LIVE
#define begun true
#else
#define begun (row || T > 1 || call[0] != NONE || call[1] != NONE || !dblock_able(0))
#endif
#define held_up (overdue(0) || overdue(1) || overdue_2)
#if N > 2
#define overdue_2 overdue(2)
#else
#define overdue_2 false
#endif
#ifdef LIVE
/* After the faults a call takes less than a tick. */
#define busy(c) (healed && (call[c] != NONE || free_sent[c] || \
  (dblock_able(c) && (waits[c] || (at[c] >= READ_BACK && at[c] <= OPENING)))))
#define may_tick (begun && !held_up && !busy(0) && !busy(1))
#else
#define may_tick (begun && !held_up)
#endif

proctype Time() {
  do
  :: d_step { T < MAXT && may_tick -> T++; dead_in_time() }
#ifdef CLOCK
  :: d_step { T < MAXT && may_tick && lag[0] < lag_max -> T++; lag[0]++; dead_in_time() }
  :: d_step { T < MAXT && may_tick && lag[1] < lag_max -> T++; lag[1]++; dead_in_time() }
#endif
  :: T == MAXT -> break
  od
}

/* ---- faults */
#ifndef VICTIMS
#define VICTIMS N /* how many clients have mishaps */
#endif
#define may_disturb_dblock(c) (dblock_able(c) && (guardian_able(c) || both_allowed))
#define may_disturb_guardian(c) (guardian_able(c) && (dblock_able(c) || both_allowed))
#ifdef BOTH
#define both_allowed true
#else
#define both_allowed false
#endif

#define may_kill_dblock(c) (!killed[c] && at[c] != ENDED && (guardian_able(c) || both_allowed))
#define may_kill_guardian(c) (!g_gone[c] && (dblock_able(c) || both_allowed))

#ifdef PROCESS
proctype Mishap(byte c) {
end:
  do
  :: d_step { begun && !healed && may_disturb_dblock(c) -> paused[c] = true }
  :: d_step { !healed && paused[c] -> paused[c] = false }
  :: d_step { begun && !healed && may_kill_dblock(c) ->
       killed[c] = true;
       paused[c] = false;
       waits[c] = false; reply[c] = NONE; reply_token[c] = 0; call_sent[c] = 0;
       lost[c] = false;
       if :: job[c] == GATED -> dies(c) :: else fi } /* the gate's pipe is closed */
  :: d_step { begun && !healed && may_disturb_guardian(c) -> g_paused[c] = true }
  :: d_step { !healed && g_paused[c] -> g_paused[c] = false } /* by whoever stopped it, or check_guardian() */
  :: d_step { begun && !healed && may_kill_guardian(c) ->
       g_gone[c] = true;
       g_paused[c] = false;
       if :: job[c] == GATED -> dies(c) :: else fi } /* PR_SET_PDEATHSIG; later the tree outlives it */
  od
}
#endif

/* Whatever was on its way to the old primary is lost, and every connection is broken. */
inline cut_off(c) {
  call[c] = NONE;
  free_sent[c] = false
}

inline promote() {
  promoted = true;
  old_row = false; old_owner = 0; old_expire = 0; old_token = 0; old_idle = 0;
  late = NONE; late_of = 0; late_token = 0;
  cut_off(0);
  cut_off(1);
#if N > 2
  cut_off(2)
#endif
}

#ifdef CLOCK
#define clock_error sigma
#else
#define clock_error 0
#endif

proctype Environment() {
end:
  do
  :: false -> break /* there may be no other */
#ifdef CLOCK
  :: d_step { off < sigma -> off++; dead_in_time() }
  :: d_step { off > 0 -> off--; dead_in_time() }
#endif
#ifdef REAP
  :: d_step { row && row_owner != 0 && row_expire + MARGIN <= server_now -> /* abandon_statement() */
       before_commit();
       row_owner = 0; row_expire = 0; row_idle = server_now }
#ifdef MUTANT_FORGETS_FRESH_ROWS
  :: d_step { row && row_owner == 0 ->
#else
  :: d_step { row && row_owner == 0 && row_idle + IDLE_TICKS < server_now && row_token + IDLE_TICKS < server_now -> /* forget_statement() */
#endif
       before_commit();
       row = false; row_token = 0; row_idle = 0 }
#endif
#ifdef FAILOVER
  :: d_step { !promoted && !healed && server_now > top_token + clock_error -> promote() }
#ifdef LOSSY_FAILOVER
  :: d_step { !promoted && !healed && server_now > top_token + clock_error -> /* the replica missed the last commit */
       row = old_row; row_owner = old_owner; row_expire = old_expire; row_token = old_token; row_idle = old_idle;
       promote() }
#endif
#endif
#ifdef LIVE
  :: d_step { !healed && T <= LIVE -> /* what is paused stays so, what is late is lost */
       healed = true;
       late = NONE; late_of = 0; late_token = 0 }
#endif
  od
}

init {
  atomic {
#ifdef CLOCK
    /* What the margin has to make up for, and no more: sigma + rho * TTL <= margin. */
    if
    :: sigma = SIGMA
    :: lag_max = LAG_MAX
    fi;
#endif
    byte c;
    for (c : 0 .. N - 1) {
      run Server(c);
      run Dblock(c);
      run Guardian(c);
      run Job(c);
#ifdef PROCESS
      if
      :: c < VICTIMS -> run Mishap(c)
      :: else
      fi
#endif
    }
    c = 0;
#ifdef CALLS_FAIL
    run Late();
#endif
    run Time();
    run Environment()
  }
}

#ifdef LIVE
/* Whoever is left trying when the faults have stopped, gets the lock. */
ltl eventually_acquired { [] ((healed && at[1] == IDLE) -> <> (at[1] == RUN)) }
#endif
