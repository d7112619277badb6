# bash completion for dblock(1)                             -*- shell-script -*-

# The options of one subcommand, or of dblock itself. A test compares these lists with --help.
_dblock_options() {
  local options=
  case $1 in
    global) options='--db --local --defaults-file --config --json -q --quiet -v --verbose --log-format --color -V --version -h --help' ;;
    run) options='-k --key --ttl --heartbeat --margin --min-hold --once-per --slots -s --shared -x --exclusive --no-reentrant -w --wait -n --nonblock --attempts --backoff --backoff-multiplier -E --conflict-exit-code -c --command --max-runtime --signal --kill-grace --leftovers --with-parent --note --record-args --status-file --warn-after' ;;
    acquire) options='-k --key --ttl --while-pid --on-lost --margin --min-hold --slots -s --shared -w --wait --attempts --backoff --backoff-multiplier --note --warn-after --format' ;;
    renew) options='-k --key --owner --ttl' ;;
    release) options='-k --key --owner --force --token --now -w --wait' ;;
    inspect) options='-k --key --prefix --all --format --exit-code --max-age' ;;
    reap) options='--dry-run --every --forget-after' ;;
    migrate) options='--status --dry-run --print-grants' ;;
    doctor) options='' ;;
  esac
  printf '%s\n' "$options"
}

# True when the option named $1 takes a value.
_dblock_takes_value() {
  case $1 in
    --db | --defaults-file | --config | --log-format | --color | --key | --ttl | --heartbeat | --margin) return 0 ;;
    --wait | --conflict-exit-code | --command | --max-runtime | --signal | --kill-grace | --leftovers) return 0 ;;
    --note | --status-file | --warn-after | --format | --owner | --token | --prefix | --max-age) return 0 ;;
    --every | --forget-after | --print-grants | --min-hold | --once-per | --attempts | --backoff) return 0 ;;
    --backoff-multiplier | --while-pid | --on-lost | --slots) return 0 ;;
    --*) return 1 ;;
    # A cluster of short options: the last letter decides.
    -*[kwEc]) return 0 ;;
  esac
  return 1
}

_dblock_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# Completes the value $3 of option $2 of subcommand $1. Fails when nothing is known about it.
_dblock_value() {
  local words=
  case $2 in
    --defaults-file | --config | --status-file)
      _dblock_files "$3"
      return 0
      ;;
    --log-format) words='text json' ;;
    --color) words='auto always never' ;;
    --leftovers) words='auto wait kill leave' ;;
    --signal | --on-lost) words='TERM INT HUP QUIT USR1 USR2 KILL' ;;
    --format) if [[ $1 == acquire ]]; then words='owner shell'; else words='table json'; fi ;;
    --while-pid) words='$$' ;;
    --ttl) words='30s 2m 10m 1h' ;;
    --min-hold) words='30s 1m 5m' ;;
    --once-per) words='1h 1d 7d' ;;
    --wait | -*w) words='0 30s 5m 1h forever' ;;
    --max-runtime | --max-age) words='10m 1h 26h' ;;
    --every) words='6s 1m' ;;
    --db)
      compopt -o nospace 2>/dev/null
      words='mysql:// mariadb:// sqlite:'
      ;;
    *) return 1 ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$3")
}

# The line after `dblock … run … ` belongs to the job: complete it as its own command line.
_dblock_job() {
  local offset=$1
  if declare -F _command_offset >/dev/null; then
    _command_offset "$offset"
  elif ((offset == COMP_CWORD)); then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    compopt -o default 2>/dev/null
  fi
}

_dblock() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} subcommand='' word i
  local subcommands='run acquire renew release inspect reap migrate doctor'
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      ((++i))
      [[ $subcommand == run ]] && _dblock_job "$i"
      return
    elif [[ $word == -?* ]]; then
      if _dblock_takes_value "$word"; then
        # "=" is a word of its own where it is in COMP_WORDBREAKS.
        [[ ${COMP_WORDS[i + 1]} == '=' ]] && ((++i))
        ((++i))
        # So is ":", as in --db sqlite : /path.
        while [[ ${COMP_WORDS[i + 1]} == :* ]]; do ((i += 2)); done
      fi
    elif [[ -z $subcommand ]]; then
      subcommand=$word
    else
      [[ $subcommand == run ]] && _dblock_job "$i"
      return
    fi
  done
  if [[ $previous == '=' ]] && ((COMP_CWORD >= 3)); then
    _dblock_value "$subcommand" "${COMP_WORDS[COMP_CWORD - 2]}" "$current"
    return
  elif [[ $current == '=' ]]; then
    _dblock_value "$subcommand" "$previous" ''
    return
  elif ((i > COMP_CWORD)) && [[ $previous == : && ${COMP_WORDS[COMP_CWORD - 2]} == sqlite ]]; then
    _dblock_files "$current"
    return
  elif ((i > COMP_CWORD)) && [[ $current == : && $previous == sqlite ]]; then
    _dblock_files ''
    return
  elif ((i > COMP_CWORD)); then
    _dblock_value "$subcommand" "$previous" "$current"
    return
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_dblock_options global) $(_dblock_options "$subcommand")" -- "$current")
  elif [[ -z $subcommand ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$current")
  elif [[ $subcommand == run ]]; then
    _dblock_job "$COMP_CWORD"
  fi
}

complete -F _dblock dblock
