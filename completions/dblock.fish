# fish completion for dblock(1)

# Prints the subcommand of the line so far, "global" where there is none yet, or "job" and its words.
function __dblock_state
    set -l words (commandline -opc)
    set -l subcommand global
    set -l i 2
    while test $i -le (count $words)
        set -l word $words[$i]
        set i (math $i + 1)
        if test "$word" = --
            test $subcommand = run; and printf '%s\n' job $words[$i..-1]
            return
        else if string match -q -- '-*' $word
            # Of a cluster of short options the last letter decides.
            string match -q -- '--*' $word; or set word -(string sub -s -1 -- $word)
            contains -- $word $__dblock_valued; and set i (math $i + 1)
        else if test $subcommand = global
            set subcommand $word
        else
            test $subcommand = run; and printf '%s\n' job $words[(math $i - 1)..-1]
            return
        end
    end
    echo $subcommand
end

function __dblock_wants_subcommand
    test "$(__dblock_state)" = global
end

# Global options stand before and after the subcommand.
function __dblock_in
    set -l state (__dblock_state)
    test "$state[1]" != job; and test -n "$state[1]"; and contains -- $argv[1] global $state[1]
end

# Where a command may begin or has begun.
function __dblock_in_job
    set -l state (__dblock_state)
    test "$state[1]" = job; or test "$state[1]" = run
end

function __dblock_job
    set -l state (__dblock_state)
    # Before the command has begun, a word with a dash is an option of dblock's.
    test "$state[1]" = run; and string match -q -- '-*' (commandline -ct); and return
    complete --do-complete=(string join ' ' -- (string escape -- $state[2..-1]) (commandline -ct))
end

# The options of the line that say where the locks are.
function __dblock_store
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        switch $words[$i]
            case --
                return
            case --local '--db=*' '--config=*' '--defaults-file=*'
                echo $words[$i]
            case --db --config --defaults-file
                test $i -lt (count $words); and printf '%s\n' $words[$i] $words[(math $i + 1)]
        end
    end
end

# The keys that the database knows now. Silent and quick when there is none, or none that answers.
function __dblock_key
    set -l prefix (commandline -ct | string replace -r -- '^(--key=|-k)' '' | string unescape)
    type -q dblock; or return
    dblock (__dblock_store) __keys --prefix="$prefix" 2>/dev/null </dev/null
end

function __dblock_duration
    printf '%s\n' 30s 2m 10m 1h 1d
end
function __dblock_wait
    printf '%s\n' 0 30s 5m 1h forever
end
function __dblock_signal
    printf '%s\n' TERM INT HUP QUIT USR1 USR2 KILL
end
function __dblock_pid
    echo $fish_pid
end
function __dblock_command
    __fish_complete_command
end
function __dblock_url
    printf '%s\n' mysql:// mariadb:// sqlite:
    __fish_complete_path (commandline -ct | string replace -r '^(--db=)?sqlite:' '') | string replace -r '^' 'sqlite:'
end

complete -c dblock -f
complete -c dblock -n 'test "$(__dblock_state)" = help' -a '$__dblock_subcommands'
complete -c dblock -n 'test "$(__dblock_state)" = completion' -a 'bash zsh fish'
complete -c dblock -n __dblock_in_job -a '(__dblock_job)'
# begin: made from dblock's table of options by: cmake --build --preset dev --target update-completions
set -g __dblock_subcommands run acquire renew release pause resume inspect wait history reap migrate doctor help version completion
# Options with a value, by which the subcommand and the job are found.
set -g __dblock_valued --any --attempts --backoff --backoff-multiplier --color --command --config --conflict-exit-code --db --defaults-file --every --expect --for --forget-after --forget-history --format --heartbeat --history --keep-on-failure --key --kill-grace --leftovers --limit --line --log-format --lost-signal --margin --max-age --max-failures --max-held --max-runtime --min-hold --note --on-conflict --on-end --on-lost --on-overdue --on-start --on-wait --once-per --outcome --owner --prefix --print-grants --retry --retry-delay --retry-max-delay --signal --since --slots --splay --status-file --stop-grace --success-within --timeout --token --ttl --until --wait --warn-after --while-pid -E -c -k -w
complete -c dblock -n __dblock_wants_subcommand -a run -d 'run a command under a lock'
complete -c dblock -n __dblock_wants_subcommand -a acquire -d 'take a lock for a script'
complete -c dblock -n __dblock_wants_subcommand -a renew -d 'extend a lease that acquire took'
complete -c dblock -n __dblock_wants_subcommand -a release -d 'release a lease, or revoke another'\''s'
complete -c dblock -n __dblock_wants_subcommand -a pause -d 'grant no new locks for a while'
complete -c dblock -n __dblock_wants_subcommand -a resume -d 'end a pause before its time'
complete -c dblock -n __dblock_wants_subcommand -a inspect -d 'show who holds what'
complete -c dblock -n __dblock_wants_subcommand -a wait -d 'wait until locks are free or jobs succeeded'
complete -c dblock -n __dblock_wants_subcommand -a history -d 'show the runs that have ended'
complete -c dblock -n __dblock_wants_subcommand -a reap -d 'clear up expired leases and keys long unused'
complete -c dblock -n __dblock_wants_subcommand -a migrate -d 'create or update dblock'\''s tables'
complete -c dblock -n __dblock_wants_subcommand -a doctor -d 'tell whether this configuration deserves trust'
complete -c dblock -n __dblock_wants_subcommand -a help -d 'show the help of dblock or of a subcommand'
complete -c dblock -n __dblock_wants_subcommand -a version -d 'show the version'
complete -c dblock -n __dblock_wants_subcommand -a completion -d 'print a shell'\''s completion'
complete -c dblock -n '__dblock_in global' -l db -x -a '(__dblock_url)' -d 'mysql://[USER[:PASS]@]HOST[:PORT]/DATABASE or sqlite:PATH'
complete -c dblock -n '__dblock_in global' -l local -d 'no server: the locks guard this user'\''s jobs on this host only'
complete -c dblock -n '__dblock_in global' -l defaults-file -r -F -d 'MariaDB option file instead of the usual ones'
complete -c dblock -n '__dblock_in global' -l config -r -F -d 'defaults for any option, instead of /etc/dblock.conf and ~/.config/dblock.conf'
complete -c dblock -n '__dblock_in global' -l json -d 'results on stdout as JSON'
complete -c dblock -n '__dblock_in global' -s q -l quiet -d 'errors only on stderr'
complete -c dblock -n '__dblock_in global' -s v -l verbose -d 'say more on stderr'
complete -c dblock -n '__dblock_in global' -l log-format -x -a 'text json' -d 'shape of stderr lines: text or json'
complete -c dblock -n '__dblock_in global' -l color -x -a 'auto always never' -d 'auto, always or never'
complete -c dblock -n '__dblock_in global' -s V -l version -d 'show the version'
complete -c dblock -n '__dblock_in global' -s h -l help -d 'show this help; also after a subcommand'
complete -c dblock -n '__dblock_in run' -s k -l key -x -a '(__dblock_key)' -d 'name of the lock; several: all or none'
complete -c dblock -n '__dblock_in run' -l any -x -a '(__dblock_key)' -d 'instead: the first of these that is free, in their order; DBLOCK_KEY tells the job which'
complete -c dblock -n '__dblock_in run' -l ttl -x -a '(__dblock_duration)' -d 'lease length, 1s to 30d'
complete -c dblock -n '__dblock_in run' -l heartbeat -x -a '(__dblock_duration)' -d 'renewal interval'
complete -c dblock -n '__dblock_in run' -l margin -x -a '(__dblock_duration)' -d 'extra wait at a takeover'
complete -c dblock -n '__dblock_in run' -l min-hold -x -a '(__dblock_duration)' -d 'hold at least D, even after the job'
complete -c dblock -n '__dblock_in run' -l keep-on-failure -x -a '(__dblock_duration)' -d 'after a failed job keep the lock for D'
complete -c dblock -n '__dblock_in run' -l once-per -x -a '(__dblock_duration)' -d 'skip (exit 0) if a success began < 0.9 D ago'
complete -c dblock -n '__dblock_in run' -l slots -x -d 'up to N holders at a time'
complete -c dblock -n '__dblock_in run' -s s -l shared -d 'a reader: excludes only exclusive holders'
complete -c dblock -n '__dblock_in run' -s x -l exclusive -d 'excludes everybody; this is the default'
complete -c dblock -n '__dblock_in run' -l no-reentrant -d 'do not join an outer run'\''s lock'
complete -c dblock -n '__dblock_in run' -s w -l wait -x -a '(__dblock_wait)' -d 'how long to wait for the lock'
complete -c dblock -n '__dblock_in run' -s n -l nonblock -d 'try once: --wait 0'
complete -c dblock -n '__dblock_in run' -l attempts -x -d 'at most N tries, no place in line'
complete -c dblock -n '__dblock_in run' -l backoff -x -a '(__dblock_duration)' -d 'first pause between tries'
complete -c dblock -n '__dblock_in run' -l backoff-multiplier -x -d 'each next pause X times longer'
complete -c dblock -n '__dblock_in run' -l splay -x -a '(__dblock_duration)' -d 'before the first try wait up to D, each host its own time, the same each day'
complete -c dblock -n '__dblock_in run' -l line -x -a 'fifo one newest' -d 'who may wait: fifo, all; one, a single run; newest, the run that came last'
complete -c dblock -n '__dblock_in run' -l replace -d 'revoke a --replaceable holder instead of waiting for its end'
complete -c dblock -n '__dblock_in run' -l replaceable -d 'a --replace run may revoke this one'
complete -c dblock -n '__dblock_in run' -s E -l conflict-exit-code -x -d 'exit code if the lock is held'
complete -c dblock -n '__dblock_in run' -s c -l command -x -a '(__dblock_command)' -d 'run /bin/sh -c STRING'
complete -c dblock -n '__dblock_in run' -l max-runtime -x -a '(__dblock_duration)' -d 'stop the job after D: exit 124'
complete -c dblock -n '__dblock_in run' -l retry -x -d 'start a failed job again up to N times'
complete -c dblock -n '__dblock_in run' -l retry-delay -x -a '(__dblock_duration)' -d 'first pause; each next one doubles'
complete -c dblock -n '__dblock_in run' -l retry-max-delay -x -a '(__dblock_duration)' -d 'longest pause'
complete -c dblock -n '__dblock_in run' -l expect -x -a '(__dblock_duration)' -d 'warn when the job runs longer'
complete -c dblock -n '__dblock_in run' -l signal -x -a '(__dblock_signal)' -d 'first signal to stop the job'
complete -c dblock -n '__dblock_in run' -l kill-grace -x -a '(__dblock_duration)' -d 'time left before SIGKILL'
complete -c dblock -n '__dblock_in run' -l stop-grace -x -a '(__dblock_duration)' -d 'the same where dblock is asked to stop'
complete -c dblock -n '__dblock_in run' -l leftovers -x -a 'auto wait kill leave' -d 'orphans: auto, wait, kill or leave'
complete -c dblock -n '__dblock_in run' -l with-parent -d 'stop the job when dblock'\''s parent ends'
complete -c dblock -n '__dblock_in run' -l note -x -d 'label stored with the lease'
complete -c dblock -n '__dblock_in run' -l record-args -d 'store the job'\''s arguments too'
complete -c dblock -n '__dblock_in run' -l status-file -r -F -d 'write the outcome as a JSON document'
complete -c dblock -n '__dblock_in run' -l on-wait -x -a '(__dblock_command)' -d 'sh -c CMD once the wait begins'
complete -c dblock -n '__dblock_in run' -l on-start -x -a '(__dblock_command)' -d 'sh -c CMD once the job runs'
complete -c dblock -n '__dblock_in run' -l on-lost -x -a '(__dblock_command)' -d 'sh -c CMD when the lease is lost'
complete -c dblock -n '__dblock_in run' -l on-conflict -x -a '(__dblock_command)' -d 'sh -c CMD when dblock gives up on a held lock'
complete -c dblock -n '__dblock_in run' -l on-overdue -x -a '(__dblock_command)' -d 'sh -c CMD when the job outruns --expect'
complete -c dblock -n '__dblock_in run' -l on-end -x -a '(__dblock_command)' -d 'sh -c CMD when the run has ended'
complete -c dblock -n '__dblock_in run' -l warn-after -x -a '(__dblock_duration)' -d 'warn when the database takes longer'
complete -c dblock -n '__dblock_in acquire' -s k -l key -x -a '(__dblock_key)' -d 'name of the lock'
complete -c dblock -n '__dblock_in acquire' -l ttl -x -a '(__dblock_duration)' -d 'lease, 1s to 30d'
complete -c dblock -n '__dblock_in acquire' -l while-pid -x -a '(__dblock_pid)' -d 'renew until process PID ends, then release'
complete -c dblock -n '__dblock_in acquire' -l lost-signal -x -a '(__dblock_signal)' -d 'sent to PID if the lease is lost'
complete -c dblock -n '__dblock_in acquire' -l margin -x -a '(__dblock_duration)' -d 'extra wait at a takeover'
complete -c dblock -n '__dblock_in acquire' -l min-hold -x -a '(__dblock_duration)' -d 'hold at least D, even after the job'
complete -c dblock -n '__dblock_in acquire' -l slots -x -d 'up to N holders at a time'
complete -c dblock -n '__dblock_in acquire' -s s -l shared -d 'a reader: excludes only exclusive holders'
complete -c dblock -n '__dblock_in acquire' -s w -l wait -x -a '(__dblock_wait)' -d 'how long to wait for the lock'
complete -c dblock -n '__dblock_in acquire' -l attempts -x -d 'at most N tries, no place in line'
complete -c dblock -n '__dblock_in acquire' -l backoff -x -a '(__dblock_duration)' -d 'first pause between tries'
complete -c dblock -n '__dblock_in acquire' -l backoff-multiplier -x -d 'each next pause X times longer'
complete -c dblock -n '__dblock_in acquire' -l note -x -d 'label stored with the lease'
complete -c dblock -n '__dblock_in acquire' -l warn-after -x -a '(__dblock_duration)' -d 'warn when the database takes longer'
complete -c dblock -n '__dblock_in acquire' -l format -x -a 'owner shell' -d 'owner (the owner id) or shell (export lines for eval)'
complete -c dblock -n '__dblock_in renew' -s k -l key -x -a '(__dblock_key)' -d 'name of the lock'
complete -c dblock -n '__dblock_in renew' -l owner -x -d 'what acquire printed'
complete -c dblock -n '__dblock_in renew' -l ttl -x -a '(__dblock_duration)' -d 'new lease length, 1s to 30d'
complete -c dblock -n '__dblock_in release' -s k -l key -x -a '(__dblock_key)' -d 'name of the lock'
complete -c dblock -n '__dblock_in release' -l owner -x -d 'what acquire printed'
complete -c dblock -n '__dblock_in release' -l force -d 'show another'\''s lease and how to revoke it'
complete -c dblock -n '__dblock_in release' -l token -x -d 'with --force: revoke this holder'\''s lease'
complete -c dblock -n '__dblock_in release' -l now -d 'with --token: free the lock at once'
complete -c dblock -n '__dblock_in release' -s w -l wait -x -a '(__dblock_wait)' -d 'with --token: until it is free'
complete -c dblock -n '__dblock_in pause' -s k -l key -x -a '(__dblock_key)' -d 'this lock'
complete -c dblock -n '__dblock_in pause' -l prefix -x -d 'the locks whose keys start with P; '\'''\'': all'
complete -c dblock -n '__dblock_in pause' -l for -x -a '(__dblock_duration)' -d 'for this long'
complete -c dblock -n '__dblock_in pause' -l until -x -d 'until this time, as 2026-11-25T06:00:00Z'
complete -c dblock -n '__dblock_in pause' -l note -x -d 'said to all who are refused'
complete -c dblock -n '__dblock_in pause' -s w -l wait -x -a '(__dblock_wait)' -d 'then wait until nobody holds these locks'
complete -c dblock -n '__dblock_in resume' -s k -l key -x -a '(__dblock_key)' -d 'this lock'
complete -c dblock -n '__dblock_in resume' -l prefix -x -d 'end the pause that was made for this P'
complete -c dblock -n '__dblock_in inspect' -s k -l key -x -a '(__dblock_key)' -d 'only this lock; may be repeated'
complete -c dblock -n '__dblock_in inspect' -l prefix -x -d 'only keys that start with P'
complete -c dblock -n '__dblock_in inspect' -l all -d 'expired, cooling-down and free locks too'
complete -c dblock -n '__dblock_in inspect' -l format -x -a 'table json csv prometheus html' -d 'table, json, csv, prometheus or html (a page)'
complete -c dblock -n '__dblock_in inspect' -l watch -d 'show it again every D; q ends it'
complete -c dblock -n '__dblock_in inspect' -l exit-code -d 'exit 75 if one of the --keys is not free now'
complete -c dblock -n '__dblock_in inspect' -l max-age -x -a '(__dblock_duration)' -d 'exit 1 if a key had no success within D'
complete -c dblock -n '__dblock_in inspect' -l max-held -x -a '(__dblock_duration)' -d 'exit 1 if a lock is held for longer than D'
complete -c dblock -n '__dblock_in inspect' -l max-failures -x -d 'exit 1 if N runs of a key failed in a row'
complete -c dblock -n '__dblock_in wait' -s k -l key -x -a '(__dblock_key)' -d 'this lock; may be repeated'
complete -c dblock -n '__dblock_in wait' -l prefix -x -d 'all known locks whose keys start with P'
complete -c dblock -n '__dblock_in wait' -l success-within -x -a '(__dblock_duration)' -d 'not until they are free, but until the last success of each is younger than D'
complete -c dblock -n '__dblock_in wait' -l timeout -x -a '(__dblock_wait)' -d 'exit 75 after D'
complete -c dblock -n '__dblock_in history' -s k -l key -x -a '(__dblock_key)' -d 'only this lock; may be repeated'
complete -c dblock -n '__dblock_in history' -l prefix -x -d 'only keys that start with P'
complete -c dblock -n '__dblock_in history' -l since -x -a '(__dblock_duration)' -d 'only runs that ended within D'
complete -c dblock -n '__dblock_in history' -l outcome -x -a 'succeeded failed signalled timed_out lost released not_run abandoned' -d 'only runs that ended so: succeeded, failed, signalled, timed_out, lost, released, not_run or abandoned'
complete -c dblock -n '__dblock_in history' -l limit -x -d 'at most the last N'
complete -c dblock -n '__dblock_in history' -l format -x -a 'table json csv html' -d 'table, json, csv or html (a page with a timeline)'
complete -c dblock -n '__dblock_in reap' -l dry-run -d 'report, change nothing'
complete -c dblock -n '__dblock_in reap' -l every -x -a '(__dblock_duration)' -d 'repeat until a signal comes'
complete -c dblock -n '__dblock_in reap' -l forget-after -x -a '(__dblock_duration)' -d 'forget keys unused for longer'
complete -c dblock -n '__dblock_in reap' -l forget-history -x -a '(__dblock_duration)' -d 'delete older records of history'
complete -c dblock -n '__dblock_in migrate' -l status -d 'show which migrations are applied, and which procedures can be called'
complete -c dblock -n '__dblock_in migrate' -l dry-run -d 'show the SQL that would be run'
complete -c dblock -n '__dblock_in migrate' -l print-grants -x -d 'show the GRANT statements USER needs'
complete -c dblock -n '__dblock_in migrate' -l applications -d 'with --print-grants: for applications, which call the procedures of dblock-sql(7)'
complete -c dblock -n '__dblock_in migrate' -l history -x -a 'on off' -d 'on: record runs that end; off: stop that, and keep what is recorded'
complete -c dblock -n '__dblock_in doctor' -l try -d 'also take, renew, hand on and release locks of its own'
# end
