#!/bin/sh
# The lock script people write around redis-cli: SET NX PX, then a compare-and-delete.
#   redis-cli-lock.sh PORT KEY COMMAND [ARG...]
# 75 when held. No renewal, no token.
set -eu

port=$1 key=$2
shift 2
owner=$(uname -n)-$$

[ "$(redis-cli -p "$port" SET "$key" "$owner" NX PX 120000)" = OK ] || exit 75
status=0
"$@" || status=$?
redis-cli -p "$port" EVAL \
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" \
  1 "$key" "$owner" >/dev/null
exit $status
