# bash completion for dblock(1)                             -*- shell-script -*-

# begin: made from dblock's table of options by: cmake --build --preset dev --target update-completions
_dblock_subcommands='run acquire renew release pause resume inspect wait history reap migrate doctor help version completion'

# The options of subcommand $1, or "global" ones.
_dblock_options() {
  case $1 in
    global) echo '--db --local --defaults-file --config --json -q --quiet -v --verbose --log-format --color -V --version -h --help' ;;
    run) echo '-k --key --any --ttl --heartbeat --margin --min-hold --keep-on-failure --once-per --slots -s --shared -x --exclusive --no-reentrant -w --wait -n --nonblock --attempts --backoff --backoff-multiplier --splay --line --replace --replaceable -E --conflict-exit-code -c --command --max-runtime --retry --retry-delay --retry-max-delay --expect --signal --kill-grace --stop-grace --leftovers --with-parent --note --record-args --status-file --on-wait --on-start --on-lost --on-conflict --on-overdue --on-end --warn-after' ;;
    acquire) echo '-k --key --ttl --while-pid --lost-signal --margin --min-hold --slots -s --shared -w --wait --attempts --backoff --backoff-multiplier --note --warn-after --format' ;;
    renew) echo '-k --key --owner --ttl' ;;
    release) echo '-k --key --owner --force --token --now -w --wait' ;;
    pause) echo '-k --key --prefix --for --until --note -w --wait' ;;
    resume) echo '-k --key --prefix' ;;
    inspect) echo '-k --key --prefix --all --format --watch --exit-code --max-age --max-held --max-failures' ;;
    wait) echo '-k --key --prefix --success-within --timeout' ;;
    history) echo '-k --key --prefix --since --outcome --limit --format' ;;
    reap) echo '--dry-run --every --forget-after --forget-history' ;;
    migrate) echo '--status --dry-run --print-grants --applications --history' ;;
    doctor) echo '--try' ;;
    help) echo '' ;;
    version) echo '' ;;
    completion) echo '' ;;
  esac
}

# What the value of option $2 of subcommand $1 is; fails when it has none.
_dblock_kind() {
  case "$1 $2" in
    'global --db') echo 'url' ;;
    'global --defaults-file') echo 'file' ;;
    'global --config') echo 'file' ;;
    'global --log-format') echo 'words text json' ;;
    'global --color') echo 'words auto always never' ;;
    'run --key' | 'run -k') echo 'key' ;;
    'run --any') echo 'key' ;;
    'run --ttl') echo 'duration' ;;
    'run --heartbeat') echo 'duration' ;;
    'run --margin') echo 'duration' ;;
    'run --min-hold') echo 'duration' ;;
    'run --keep-on-failure') echo 'duration' ;;
    'run --once-per') echo 'duration' ;;
    'run --slots') echo 'any' ;;
    'run --wait' | 'run -w') echo 'wait' ;;
    'run --attempts') echo 'any' ;;
    'run --backoff') echo 'duration' ;;
    'run --backoff-multiplier') echo 'any' ;;
    'run --splay') echo 'duration' ;;
    'run --line') echo 'words fifo one newest' ;;
    'run --conflict-exit-code' | 'run -E') echo 'any' ;;
    'run --command' | 'run -c') echo 'command' ;;
    'run --max-runtime') echo 'duration' ;;
    'run --retry') echo 'any' ;;
    'run --retry-delay') echo 'duration' ;;
    'run --retry-max-delay') echo 'duration' ;;
    'run --expect') echo 'duration' ;;
    'run --signal') echo 'signal' ;;
    'run --kill-grace') echo 'duration' ;;
    'run --stop-grace') echo 'duration' ;;
    'run --leftovers') echo 'words auto wait kill leave' ;;
    'run --note') echo 'any' ;;
    'run --status-file') echo 'file' ;;
    'run --on-wait') echo 'command' ;;
    'run --on-start') echo 'command' ;;
    'run --on-lost') echo 'command' ;;
    'run --on-conflict') echo 'command' ;;
    'run --on-overdue') echo 'command' ;;
    'run --on-end') echo 'command' ;;
    'run --warn-after') echo 'duration' ;;
    'acquire --key' | 'acquire -k') echo 'key' ;;
    'acquire --ttl') echo 'duration' ;;
    'acquire --while-pid') echo 'pid' ;;
    'acquire --lost-signal') echo 'signal' ;;
    'acquire --margin') echo 'duration' ;;
    'acquire --min-hold') echo 'duration' ;;
    'acquire --slots') echo 'any' ;;
    'acquire --wait' | 'acquire -w') echo 'wait' ;;
    'acquire --attempts') echo 'any' ;;
    'acquire --backoff') echo 'duration' ;;
    'acquire --backoff-multiplier') echo 'any' ;;
    'acquire --note') echo 'any' ;;
    'acquire --warn-after') echo 'duration' ;;
    'acquire --format') echo 'words owner shell' ;;
    'renew --key' | 'renew -k') echo 'key' ;;
    'renew --owner') echo 'any' ;;
    'renew --ttl') echo 'duration' ;;
    'release --key' | 'release -k') echo 'key' ;;
    'release --owner') echo 'any' ;;
    'release --token') echo 'any' ;;
    'release --wait' | 'release -w') echo 'wait' ;;
    'pause --key' | 'pause -k') echo 'key' ;;
    'pause --prefix') echo 'any' ;;
    'pause --for') echo 'duration' ;;
    'pause --until') echo 'any' ;;
    'pause --note') echo 'any' ;;
    'pause --wait' | 'pause -w') echo 'wait' ;;
    'resume --key' | 'resume -k') echo 'key' ;;
    'resume --prefix') echo 'any' ;;
    'inspect --key' | 'inspect -k') echo 'key' ;;
    'inspect --prefix') echo 'any' ;;
    'inspect --format') echo 'words table json csv prometheus html' ;;
    'inspect --max-age') echo 'duration' ;;
    'inspect --max-held') echo 'duration' ;;
    'inspect --max-failures') echo 'any' ;;
    'wait --key' | 'wait -k') echo 'key' ;;
    'wait --prefix') echo 'any' ;;
    'wait --success-within') echo 'duration' ;;
    'wait --timeout') echo 'wait' ;;
    'history --key' | 'history -k') echo 'key' ;;
    'history --prefix') echo 'any' ;;
    'history --since') echo 'duration' ;;
    'history --outcome') echo 'words succeeded failed signalled timed_out lost released not_run abandoned' ;;
    'history --limit') echo 'any' ;;
    'history --format') echo 'words table json csv html' ;;
    'reap --every') echo 'duration' ;;
    'reap --forget-after') echo 'duration' ;;
    'reap --forget-history') echo 'duration' ;;
    'migrate --print-grants') echo 'any' ;;
    'migrate --history') echo 'words on off' ;;
    *) return 1 ;;
  esac
}
# end

# Offers the words among "$@" that start with $current.
_dblock_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$*" -- "$current")
}

# The keys that the database knows now. Silent and quick when there is none, or none that answers. What readline
# takes for the current word may be the rest of it only, after ":" or "=": then that rest is what it wants.
_dblock_offer_keys() {
  local whole=${COMP_LINE:0:COMP_POINT} head key word
  whole=${whole##*[[:space:]]}
  whole=${whole#--*=}
  head=${whole%"$current"}
  COMPREPLY=()
  while IFS= read -r key; do
    printf -v word '%q' "$key"
    [[ $word == "$whole"* ]] && COMPREPLY+=("${word#"$head"}")
  done < <("${COMP_WORDS[0]}" "${store[@]}" __keys --prefix="${whole//\\/}" 2>/dev/null </dev/null)
}

_dblock_offer_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

# The value of option $2 of subcommand $1.
_dblock_value() {
  local kind
  kind=$(_dblock_kind "$1" "$2") || kind=$(_dblock_kind global "$2")
  case $kind in
    words*) _dblock_offer "${kind#words }" ;;
    key) _dblock_offer_keys ;;
    file) _dblock_offer_files ;;
    duration) _dblock_offer 30s 2m 10m 1h 1d ;;
    wait) _dblock_offer 0 30s 5m 1h forever ;;
    signal) _dblock_offer TERM INT HUP QUIT USR1 USR2 KILL ;;
    pid) _dblock_offer "\$\$" ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    url)
      if [[ $current == : || ${COMP_WORDS[COMP_CWORD - 1]} == : ]]; then
        current=${current#:}
        _dblock_offer_files
      else
        compopt -o nospace 2>/dev/null
        _dblock_offer mysql:// mariadb:// sqlite:
      fi
      ;;
  esac
}

# The job after `dblock run … `: its own command line.
_dblock_job() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif (($1 == COMP_CWORD)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  else
    compopt -o default 2>/dev/null
  fi
}

# True when the word $1 is an option of subcommand $2 whose value is the next word. Of a cluster of short options
# the last letter decides.
_dblock_wants_value() {
  local option=$1
  [[ $option == --* ]] || option=-${option: -1}
  _dblock_kind "$2" "$option" >/dev/null || _dblock_kind global "$option" >/dev/null
}

_dblock() {
  local current=${COMP_WORDS[COMP_CWORD]} subcommand='' word value i begin store=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      [[ $subcommand == run ]] && _dblock_job $((i + 1))
      return
    elif [[ $word == -?* ]]; then
      [[ $word == --local ]] && store+=(--local)
      _dblock_wants_value "$word" "${subcommand:-global}" || continue
      # "=" and ":" are words of their own, as in --db = sqlite : /path.
      begin=$((++i))
      [[ ${COMP_WORDS[i]} == '=' ]] && begin=$((++i))
      while [[ ${COMP_WORDS[i + 1]} == :* ]]; do ((i += 2)); done
      if ((i >= COMP_CWORD)); then
        [[ $current == '=' ]] && current=''
        _dblock_value "${subcommand:-global}" "$word"
        return
      fi
      printf -v value '%s' "${COMP_WORDS[@]:begin:i-begin+1}"
      case $word in --db | --config | --defaults-file) store+=("$word" "$value") ;; esac
    elif [[ -z $subcommand ]]; then
      subcommand=$word
    else
      [[ $subcommand == run ]] && _dblock_job "$i"
      return
    fi
  done
  if [[ $current == -* ]]; then
    _dblock_offer "$(_dblock_options global) $(_dblock_options "$subcommand")"
  elif [[ -z $subcommand ]]; then
    _dblock_offer "$_dblock_subcommands"
  elif [[ $subcommand == run ]]; then
    _dblock_job "$COMP_CWORD"
  elif [[ $subcommand == help ]]; then
    _dblock_offer "$_dblock_subcommands"
  elif [[ $subcommand == completion ]]; then
    _dblock_offer bash zsh fish
  fi
}

complete -F _dblock dblock
