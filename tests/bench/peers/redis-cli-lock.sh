#!/bin/sh
# The lock script people write around redis-cli: SET NX PX, then a compare-and-delete.
#   redis-cli-lock.sh SOCKET KEY COMMAND [ARG...]
# 75 when held. No renewal, no token.
set -eu

socket=$1 key=$2
shift 2
owner=$(uname -n)-$$

[ "$(redis-cli -s "$socket" SET "$key" "$owner" NX PX 120000)" = OK ] || exit 75
status=0
"$@" || status=$?
redis-cli -s "$socket" EVAL \
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" \
  1 "$key" "$owner" >/dev/null
exit $status
