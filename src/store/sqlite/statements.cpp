#include "store/sqlite/statements.hpp"

#include <vector>

namespace dblock::store::sqlite {
namespace {

// The present on the time line of the row's lease; of a lease of another boot nothing is known but that it is
// over.
#define DBLOCK_SQL_NOW "(:boot+boot_offset_us)"
// Two ids of which one is a container's own may be of one boot. The boot clock had come to SEEN when the row
// was last changed. In a later boot the wall clock is further from the boot clock, by more than SEEN; or, on
// a machine whose wall clock begins anew with each boot, the row is of another boot until its boot clock has
// come to SEEN.
#define DBLOCK_SQL_SEEN "(update_time-boot_offset_us)"
#define DBLOCK_SQL_THIS_BOOT                                                  \
  "(boot_id=:boot_id OR (instr(boot_id||:boot_id,'*')>0 AND " DBLOCK_SQL_SEEN \
  "<=:boot AND abs(:offset-boot_offset_us)<" DBLOCK_SQL_SEEN "))"
#define DBLOCK_SQL_PAST_MARGIN "(NOT " DBLOCK_SQL_THIS_BOOT " OR expire_time+margin_us<=" DBLOCK_SQL_NOW ")"
// A hold with more than twice its length to go was promised by a clock that has been set back since.
#define DBLOCK_SQL_HOLD_IS_OVER \
  "(hold_until IS NULL OR hold_until<=:wall OR hold_until-:wall>2*(hold_until-create_time))"
// By the wall clock: what a period means to people, and it outlives the boot. See promises.hpp.
#define DBLOCK_SQL_NOT_DONE                                                                      \
  "(:period IS NULL OR success_acquired_at IS NULL OR success_acquired_at<=:wall-:look_back OR " \
  "success_acquired_at>:wall+:look_ahead)"
#define DBLOCK_SQL_FREED_AT "iif(" DBLOCK_SQL_THIS_BOOT "," DBLOCK_SQL_NOW "+" DBLOCK_SQL_STEP ",:wall)"
// Among all rows of the key, or the one that is known.
#define DBLOCK_SQL_IS_REF                                                                                \
  "lock_key=:key AND slot BETWEEN :first_slot AND :last_slot AND lock_value=:owner AND (:token IS NULL " \
  "OR token=:token) AND (NOT :script OR kind='acquire')"
// A step of the wall clock since the grant, which shows in what people see, and in the record of the run, and
// nowhere else. 100 ms is k_least_clock_step of boot.hpp: less is the jitter of reading two clocks.
#define DBLOCK_SQL_STEP                                                  \
  "iif(" DBLOCK_SQL_THIS_BOOT                                            \
  " AND lock_value IS NOT NULL AND abs(:offset-boot_offset_us)>=100000," \
  ":offset-boot_offset_us,0)"
#define DBLOCK_SQL_KEEP "keep_until=iif(:period IS NULL,keep_until,max(coalesce(keep_until,0),:wall+:period))"
#define DBLOCK_SQL_FREE                                                                                 \
  "version=version+1,update_time=" DBLOCK_SQL_FREED_AT ",last_acquired_at=create_time+" DBLOCK_SQL_STEP \
  ",lock_value=NULL,expire_time=NULL,revoke_time=NULL,lock_count=0"

// What a grant changes in a row, besides its token.
#define DBLOCK_SQL_GRANTED                                                                          \
  "last_acquired_at=iif(lock_value IS NULL,last_acquired_at,create_time+" DBLOCK_SQL_STEP           \
  "),last_released_at=iif(lock_value IS NULL,last_released_at,NULL),"                               \
  "last_outcome=iif(lock_value IS NULL,last_outcome,'abandoned'),"                                  \
  "last_exit_code=iif(lock_value IS NULL,last_exit_code,NULL),"                                     \
  "version=version+1,lock_value=:owner,boot_id=:boot_id,boot_offset_us=:offset,"                    \
  "create_time=:wall,update_time=:wall,expire_time=:wall+:ttl,lock_count=1,kind=:kind,ttl_us=:ttl," \
  "margin_us=:margin,heartbeat_us=:heartbeat,hold_until=:wall+:min_hold," DBLOCK_SQL_KEEP           \
  ",revoke_time=NULL,holder_host=:host,holder_pid=:pid,holder_user=:user,holder_command=:command,"  \
  "holder_note=:note,mode=:mode,slots=:slots"

// While the lock is exclusive nobody holds another row of it, which is not looked at.
constexpr std::string_view k_grant =
    "UPDATE dblock_lock SET token=max(token+1,:wall)," DBLOCK_SQL_GRANTED
    " WHERE lock_key=:key AND slot=0 AND mode='exclusive' AND (lock_value IS NULL OR " DBLOCK_SQL_PAST_MARGIN
    ") AND " DBLOCK_SQL_HOLD_IS_OVER " AND " DBLOCK_SQL_NOT_DONE " RETURNING token";

// The first grant must be above the floor.
constexpr std::string_view k_add =
    "INSERT INTO dblock_lock (lock_key,slot,mode,slots,boot_id,boot_offset_us,create_time,update_time,token,"
    "version,lock_count,kind,ttl_us,margin_us,holder_host,holder_pid,holder_user,holder_command,holder_note) "
    "SELECT :key,:slot,'exclusive',1,:boot_id,:offset,:wall,:wall,token_floor,0,0,'run',0,0,'',0,'','','' "
    "FROM dblock_state WHERE true ON CONFLICT (lock_key,slot) DO NOTHING";

constexpr std::string_view k_put = "UPDATE dblock_lock SET token=:token,intent_until=NULL," DBLOCK_SQL_GRANTED
                                   " WHERE lock_key=:key AND slot=:slot";

// Idle as far as the row tells; that it is not forgotten is up to those of the holders.
constexpr std::string_view k_put_gate =
    "UPDATE dblock_lock SET token=:token,mode=:mode,slots=:slots,intent_until=NULL,version=version+1,"
    "hold_until=NULL,update_time=:wall WHERE lock_key=:key AND slot=0";

constexpr std::string_view k_inherit =
    "UPDATE dblock_lock SET last_acquired_at=:last_acquired,last_released_at=:last_released,"
    "last_outcome=:last_outcome,last_exit_code=:last_exit_code,success_acquired_at=:success_acquired,"
    "success_released_at=:success_released WHERE lock_key=:key AND slot=0";

constexpr std::string_view k_keep_readers_away =
    "UPDATE dblock_lock SET boot_id=:boot_id,boot_offset_us=:offset,"
    "intent_until=max(:until,iif(" DBLOCK_SQL_THIS_BOOT
    " AND intent_until+:offset-boot_offset_us<=:wall+:longest,intent_until+:offset-boot_offset_us,0)) "
    "WHERE lock_key=:key AND slot=0 AND lock_value IS NULL";

constexpr std::string_view k_let_readers_in =
    "UPDATE dblock_lock SET intent_until=NULL WHERE lock_key=:key AND slot=0 AND intent_until=:until";

constexpr std::string_view k_renew =
    "UPDATE dblock_lock SET version=version+1,"
    "update_time=" DBLOCK_SQL_NOW ",expire_time=max(expire_time," DBLOCK_SQL_NOW
    "+coalesce(:ttl,ttl_us)),ttl_us=coalesce(:ttl,ttl_us) "
    "WHERE " DBLOCK_SQL_IS_REF " AND " DBLOCK_SQL_THIS_BOOT
    " AND revoke_time IS NULL AND expire_time>" DBLOCK_SQL_NOW
    " RETURNING ttl_us,expire_time+" DBLOCK_SQL_STEP;

constexpr std::string_view k_nest =
    "UPDATE dblock_lock SET "
    "version=version+1,lock_count=lock_count+1,expire_time=max(expire_time," DBLOCK_SQL_NOW
    "+:ttl) WHERE " DBLOCK_SQL_IS_REF " AND " DBLOCK_SQL_THIS_BOOT
    " AND revoke_time IS NULL AND expire_time>" DBLOCK_SQL_NOW
    " AND mode=:mode AND (mode='exclusive' OR slots=:slots) RETURNING token";

constexpr std::string_view k_unnest =
    "UPDATE dblock_lock SET version=version+1,lock_count=max(lock_count-1,1) WHERE " DBLOCK_SQL_IS_REF;

constexpr std::string_view k_release =
    "UPDATE dblock_lock SET " DBLOCK_SQL_FREE ",last_released_at=" DBLOCK_SQL_FREED_AT
    ",last_outcome=:outcome,last_exit_code=:exit_code,"
    "success_acquired_at=iif(:outcome='succeeded',create_time+" DBLOCK_SQL_STEP
    ",success_acquired_at),"
    "success_released_at=iif(:outcome='succeeded'," DBLOCK_SQL_FREED_AT
    ",success_released_at) "
    "WHERE " DBLOCK_SQL_IS_REF " AND (NOT :script OR (" DBLOCK_SQL_THIS_BOOT
    " AND expire_time>" DBLOCK_SQL_NOW
    ")) AND (NOT :leaves_nested OR lock_count<2 OR NOT " DBLOCK_SQL_THIS_BOOT
    " OR expire_time<=" DBLOCK_SQL_NOW ")";

// update_time stays: it dates the holder's last heartbeat.
constexpr std::string_view k_revoke =
    "UPDATE dblock_lock SET version=version+1,hold_until=NULL,revoke_time=iif(lock_value IS NULL,NULL,"
    "coalesce(revoke_time,iif(" DBLOCK_SQL_THIS_BOOT "," DBLOCK_SQL_NOW
    ",:wall))) WHERE lock_key=:key AND slot=:slot AND token=:token AND (lock_value IS NOT NULL OR "
    "NOT " DBLOCK_SQL_HOLD_IS_OVER ")";

constexpr std::string_view k_free_now =
    "UPDATE dblock_lock SET " DBLOCK_SQL_FREE ",last_released_at=" DBLOCK_SQL_FREED_AT
    ",last_outcome='abandoned',last_exit_code=NULL,hold_until=NULL WHERE lock_key=:key AND slot=:slot AND "
    "token=:token AND lock_value IS NOT NULL AND (heartbeat_us IS NULL OR NOT " DBLOCK_SQL_THIS_BOOT
    " OR update_time+2*heartbeat_us<=" DBLOCK_SQL_NOW ")";

constexpr std::string_view k_abandon =
    "UPDATE dblock_lock SET " DBLOCK_SQL_FREE
    ",last_released_at=NULL,last_outcome='abandoned',last_exit_code=NULL "
    "WHERE lock_key=:key AND slot=:slot AND lock_value=:owner AND token=:token AND " DBLOCK_SQL_PAST_MARGIN;

// A lease of another boot ended, at the latest, when that boot did, and needs no margin.
#define DBLOCK_SQL_STATUS                                                                                  \
  "SELECT lock_key,lock_value,token,lock_count,kind,holder_host,holder_pid,holder_user,holder_command,"    \
  "holder_note,create_time+" DBLOCK_SQL_STEP ",update_time+" DBLOCK_SQL_STEP ",iif(" DBLOCK_SQL_THIS_BOOT  \
  ",expire_time+" DBLOCK_SQL_STEP ",min(expire_time,:wall-:boot)),revoke_time+" DBLOCK_SQL_STEP            \
  ",iif(" DBLOCK_SQL_HOLD_IS_OVER ",NULL,hold_until),ttl_us,iif(" DBLOCK_SQL_THIS_BOOT                     \
  " OR lock_value IS NULL,margin_us,0),heartbeat_us,"                                                      \
  "last_acquired_at,last_released_at,last_outcome,last_exit_code,success_acquired_at,success_released_at," \
  "iif(" DBLOCK_SQL_THIS_BOOT " AND lock_value IS NOT NULL," DBLOCK_SQL_NOW "+" DBLOCK_SQL_STEP            \
  ",:wall),mode,slots,slot,iif(" DBLOCK_SQL_THIS_BOOT                                                      \
  ",intent_until+:offset-boot_offset_us,NULL) FROM dblock_lock"
#define DBLOCK_SQL_IN_ORDER " ORDER BY lock_key,slot"

constexpr std::string_view k_look = DBLOCK_SQL_STATUS " WHERE lock_key=:key AND slot=0";
constexpr std::string_view k_survey = DBLOCK_SQL_STATUS " WHERE lock_key=:key ORDER BY slot";
constexpr std::string_view k_expired =
    DBLOCK_SQL_STATUS " WHERE expire_time IS NOT NULL AND " DBLOCK_SQL_PAST_MARGIN DBLOCK_SQL_IN_ORDER;

// Old enough by every mark the row carries.
#define DBLOCK_SQL_FORGETTABLE                                                                               \
  "lock_value IS NULL AND update_time<:wall-:forget_after AND token<:wall-:forget_after AND (keep_until IS " \
  "NULL OR keep_until<=:wall) AND " DBLOCK_SQL_HOLD_IS_OVER
// A lock's own row, with its token, stays as long as others of it do.
#define DBLOCK_SQL_OLD                                                                  \
  "FROM dblock_lock WHERE " DBLOCK_SQL_FORGETTABLE                                      \
  " AND (slot>0 OR lock_key NOT IN (SELECT lock_key FROM dblock_lock WHERE slot>0 AND " \
  "(" DBLOCK_SQL_FORGETTABLE ") IS NOT TRUE))"

constexpr std::string_view k_count_idle = "SELECT count(*) " DBLOCK_SQL_OLD;
constexpr std::string_view k_forget =
    "DELETE FROM dblock_lock WHERE (lock_key,slot) IN (SELECT lock_key,slot " DBLOCK_SQL_OLD
    " ORDER BY slot=0,update_time LIMIT :limit) RETURNING token";
constexpr std::string_view k_raise_floor = "UPDATE dblock_state SET token_floor=max(token_floor,:token)";

}  // namespace

std::string_view grant_sql() {
  return k_grant;
}
std::string_view add_sql() {
  return k_add;
}
std::string_view put_sql() {
  return k_put;
}
std::string_view put_gate_sql() {
  return k_put_gate;
}
std::string_view inherit_sql() {
  return k_inherit;
}
std::string_view keep_readers_away_sql() {
  return k_keep_readers_away;
}
std::string_view let_readers_in_sql() {
  return k_let_readers_in;
}
std::string_view renew_sql() {
  return k_renew;
}
std::string_view nest_sql() {
  return k_nest;
}
std::string_view unnest_sql() {
  return k_unnest;
}
std::string_view release_sql() {
  return k_release;
}
std::string_view revoke_sql() {
  return k_revoke;
}
std::string_view free_now_sql() {
  return k_free_now;
}
std::string_view abandon_sql() {
  return k_abandon;
}
std::string_view look_sql() {
  return k_look;
}
std::string_view survey_sql() {
  return k_survey;
}
std::string_view expired_sql() {
  return k_expired;
}
std::string_view count_idle_sql() {
  return k_count_idle;
}
std::string_view forget_sql() {
  return k_forget;
}
std::string_view raise_floor_sql() {
  return k_raise_floor;
}

std::string list_sql(const lease::Selection& selection) {
  std::vector<std::string> conditions;
  if (!selection.keys.empty()) {
    std::string keys;
    for (std::size_t i = 0; i < selection.keys.size(); ++i)
      keys += (i > 0 ? ",:key" : ":key") + std::to_string(i);
    conditions.push_back("lock_key IN (" + keys + ")");
  }
  if (selection.prefix && !selection.prefix->empty()) {
    conditions.emplace_back("lock_key>=:from AND (:to IS NULL OR lock_key<:to)");
  }
  if (selection.held_only)
    conditions.emplace_back("expire_time IS NOT NULL AND " DBLOCK_SQL_THIS_BOOT
                            " AND expire_time>" DBLOCK_SQL_NOW);
  if (selection.at_most) conditions.emplace_back("slot=0");
  std::string sql = DBLOCK_SQL_STATUS;
  for (std::size_t i = 0; i < conditions.size(); ++i) sql += (i > 0 ? " AND " : " WHERE ") + conditions[i];
  sql += DBLOCK_SQL_IN_ORDER;
  return selection.at_most ? sql + " LIMIT " + std::to_string(*selection.at_most) : sql;
}

#undef DBLOCK_SQL_OLD
#undef DBLOCK_SQL_IN_ORDER
#undef DBLOCK_SQL_NOW
#undef DBLOCK_SQL_THIS_BOOT
#undef DBLOCK_SQL_SEEN
#undef DBLOCK_SQL_PAST_MARGIN
#undef DBLOCK_SQL_HOLD_IS_OVER
#undef DBLOCK_SQL_NOT_DONE
#undef DBLOCK_SQL_FREED_AT
#undef DBLOCK_SQL_IS_REF
#undef DBLOCK_SQL_STEP
#undef DBLOCK_SQL_KEEP
#undef DBLOCK_SQL_FREE
#undef DBLOCK_SQL_GRANTED
#undef DBLOCK_SQL_STATUS
#undef DBLOCK_SQL_FORGETTABLE

}  // namespace dblock::store::sqlite
