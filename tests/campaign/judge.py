#!/usr/bin/env python3
"""judge.py [--tolerance-ms N] HISTORY...: the second judge of a campaign's history; history.hpp tells the format.

It shares no code and no method with checker.cpp. Each key is one object, and its history is linearizable if its operations,
each at some moment between its call and its return, are what the sequential lock below does. The search is that of Wing and
Gong with Lowe's two improvements, as in porcupine: an operation is placed just in time, before a return that needs it, and a
pair of placed operations and state is tried once. An operation of unknown outcome has no return: it is placed or not. To place
it twice would change nothing, so the pairs name only the others.

Times are bounds. `least` is the earliest end that a lease can have by the server's clock, `most` the latest. What another
clock, or the scheduler, could explain is no violation; so a violation holds whatever they did. Prints one violation a line.
Exit 0: none; 1: some; 65: no history.
"""
import bisect
import json
import sys
from collections import defaultdict, namedtuple

SECOND = 1_000_000_000
FOR_EVER = 1 << 63
LONG_FREE = 3 * SECOND  # a lock that has been free for this long goes to whoever asks
NOTHING_RUN = {64, 69, 75, 77, 78, 126, 127}  # with these a run says that its job was not started

Terms = namedtuple("Terms", "margin step tolerance")
Op = namedtuple("Op", "kind call ret hold event")  # ret None: of unknown outcome
Hold = namedtuple("Hold", "op key token mode slots slot call ret ttl")
Lease = namedtuple("Lease", "token least most revoked")
State = namedtuple("State", "granted leases paused line free_since")


class Refused(Exception):
    """The sequential lock does not do this operation in this state."""


class Lock:
    """The sequential lock. `holds`: what was granted, in the order of the tokens, which is that of the grants."""

    start = State(0, (), 0, (), -FOR_EVER)

    def __init__(self, holds, terms):
        self.holds, self.terms = holds, terms
        self.by_token = {hold.token: hold for hold in holds}
        self.place_of = {id(hold): place for place, hold in enumerate(holds)}
        # The clock was moved further than the margin allows: only tokens protect.
        self.beyond = terms.step > terms.margin

    def step(self, state, op):
        return getattr(self, op.kind)(state, op)

    def grant(self, state, op):
        hold, place = op.hold, self.place_of[id(op.hold)]
        if place != state.granted:
            raise Refused("grants do not follow the order of the tokens")
        if place and hold.token <= self.holds[place - 1].token:
            raise Refused("the token was given before")
        if hold.slot > hold.slots:
            raise Refused(f"there is no slot {hold.slot}")
        if state.paused:
            raise Refused("the key is paused")
        kept, free_since = [], state.free_since
        for lease in state.leases:
            if self.together(self.by_token[lease.token], hold):
                kept.append(lease)
                continue
            over = lease.least + self.terms.margin - self.terms.step
            if op.ret < over and not self.beyond:
                raise Refused(f"token {lease.token} is within its lease or its margin for {(over - op.ret) / 1e6:.0f} ms more")
            free_since = max(free_since, over)
        line = state.line
        if op.ret >= free_since + LONG_FREE - self.terms.step:
            line = ()  # who passes places deletes them
        elif any(other != hold.op and hold.call > since for other, since in line):
            raise Refused("another request, which came earlier, stands in the line")
        lease = Lease(hold.token, hold.call + hold.ttl, hold.ret + hold.ttl, False)
        return State(state.granted + 1, (*kept, lease), 0, line, free_since)

    @staticmethod
    def together(one, other):
        if one.mode != other.mode or one.mode == "exclusive":
            return False
        return one.mode == "shared" or one.slot != other.slot

    def find(self, state, op):
        for lease in state.leases:
            if lease.token == op.hold.token:
                return lease
        raise Refused("the lease has ended")

    def in_force(self, state, op):
        lease = self.find(state, op)
        if lease.revoked and op.kind != "release":
            raise Refused("the lease is revoked")
        if op.call > lease.most + self.terms.step and not self.beyond:
            raise Refused(f"the lease had expired {(op.call - lease.most) / 1e6:.0f} ms before")
        return lease

    @staticmethod
    def put(state, old, new):
        return state._replace(leases=tuple(new if lease is old else lease for lease in state.leases if lease is not old or new))

    def renew(self, state, op):
        lease = self.in_force(state, op)
        if op.ret is None:
            return self.put(state, lease, lease._replace(most=FOR_EVER))
        ttl = op.event["ttl"]
        return self.put(state, lease, lease._replace(least=max(lease.least, op.call + ttl), most=max(lease.most, op.ret + ttl)))

    def release(self, state, op):
        return self.put(self.freed(state, op), self.in_force(state, op), None)

    def give_back(self, state, op):
        return self.put(self.freed(state, op), self.find(state, op), None)

    @staticmethod
    def freed(state, op):
        """Not before the operation."""
        return state._replace(free_since=max(state.free_since, op.call))

    def store(self, state, op):
        self.in_force(state, op)
        return state

    def commit(self, state, op):
        if self.holds[state.granted - 1] is not op.hold:
            raise Refused("another was granted the lock during the transaction")
        return state

    def work(self, state, op):
        lease = self.find(state, op)
        if op.call > lease.most and not is_run(op.event):
            raise Refused(f"the holder works {(op.call - lease.most) / 1e6:.0f} ms after the end of its lease")
        return self.freed(state, op)

    def revoke(self, state, op):
        lease = self.find(state, op)
        return self.put(state, lease, lease._replace(revoked=True))

    def pause(self, state, _):
        return state._replace(paused=state.paused + 1)

    def resume(self, state, _):
        return state._replace(paused=state.paused - 1)

    def stand(self, state, op):
        return state._replace(line=(*state.line, (op.event["op"], op.call + self.terms.step)))

    def leave(self, state, op):
        return state._replace(line=tuple(place for place in state.line if place[0] != op.event["op"]))

    def final(self, state, op):
        if state.granted and self.holds[state.granted - 1].token > op.event.get("token", 0):
            raise Refused("the key's row knows no token as late as that")
        return state


def search(lock, ops):
    """None if the operations can be placed one after the other, else (operation, reason) of where the search came furthest."""
    ends = [(op.call, 0, number) for number, op in enumerate(ops)]
    ends += [(op.ret, 1, number) for number, op in enumerate(ops) if op.ret is not None]
    ends.sort()
    size = len(ends)
    call_at, return_at = {}, {}
    for at, (_, is_return, number) in enumerate(ends):
        (return_at if is_return else call_at)[number] = at
    after = [*range(1, size + 1), 0]  # a ring; its entry `size` is the head
    before = [size, *range(size)]

    def unlink(at):
        after[before[at]], before[after[at]] = after[at], before[at]

    def link(at):
        after[before[at]] = before[after[at]] = at

    state, placed, left = lock.start, 0, sum(op.ret is not None for op in ops)
    seen, stack, furthest, stuck = {(0, state)}, [], size + 1, None
    at = after[size]
    while left:
        _, is_return, number = ends[at]
        op = ops[number]
        if not is_return:
            try:
                new = lock.step(state, op)
            except Refused:
                at = after[at]
                continue
            trial = (placed if op.ret is None else placed | 1 << number, new)
            if trial in seen:
                at = after[at]
                continue
            seen.add(trial)
            stack.append((number, state))
            state, placed, left = new, trial[0], left - (op.ret is not None)
            unlink(call_at[number])
            if op.ret is not None:
                unlink(return_at[number])
            at = after[size]
            continue
        if left < furthest:
            furthest, stuck = left, (op, why_not(lock, state, op))
        if not stack:
            return stuck
        number, state = stack.pop()
        if ops[number].ret is not None:
            placed ^= 1 << number
            left += 1
            link(return_at[number])
        link(call_at[number])
        at = after[call_at[number]]
    return None


def why_not(lock, state, op):
    try:
        lock.step(state, op)
    except Refused as reason:
        return str(reason)
    return "no order of the operations explains it"


def is_run(event):
    return event.get("what", "").startswith("run")


class Command:
    """The events of one op."""

    def __init__(self):
        self.invoke, self.returned, self.ended, self.begins, self.signs = None, None, False, [], []

    def add(self, event):
        kind = event["e"]
        if kind == "invoke":
            self.invoke = event
        elif kind == "return":
            self.returned = event
        elif kind == "begin":
            self.begins.append(event)
        self.ended |= kind == "end"
        if kind in ("begin", "alive", "end"):
            self.signs.append(event["t"])

    def hold(self, begin):
        """The grant came before the holder's first word, and before the answer to a script."""
        invoke, granted = self.invoke or begin, begin["t"]
        if self.returned and self.returned["t"] < granted:
            granted = self.returned["t"]
        return Hold(begin["op"], begin["key"], begin["token"], begin["mode"], begin.get("slots", 1), begin.get("slot", 0),
                    min(invoke["t"], granted), granted, invoke.get("ttl", 0))


class Judge:
    def __init__(self, events, tolerance):
        terms = next((event for event in events if event["e"] == "terms"), {})
        self.terms = Terms(terms.get("margin", 0), terms.get("step", 0), tolerance)
        self.events, self.found = events, []
        self.commands, self.of_key = defaultdict(Command), defaultdict(list)
        for event in events:
            if "op" in event:
                self.commands[event["op"]].add(event)
            if "key" in event:
                self.of_key[event["key"]].append(event)

    def judge(self):
        for key, events in sorted(self.of_key.items()):
            self.fence(key, events)
            self.lock(key, events)
        self.deadlines()
        self.outcomes()
        return self.found

    def blame(self, text):
        self.found.append(text)

    def lock(self, key, events):
        holds = {}
        for command in self.commands.values():
            for begin in command.begins:
                if begin["key"] == key:
                    holds.setdefault(begin["op"], command.hold(begin))
        lock = Lock(sorted(holds.values(), key=lambda hold: (hold.token, hold.ret)), self.terms)
        ops = [op for hold in lock.holds for op in self.of_hold(hold, lock.beyond)]
        for event in events:
            ops += self.of_event(key, event, holds, lock)
        stuck = search(lock, ops)
        if stuck:
            op, reason = stuck
            holder = f" with token {op.hold.token}" if op.hold else ""
            self.blame(f"{key}: {op.kind} of op {op.event.get('op', 0)}{holder} at {op.ret}: {reason}")

    def of_hold(self, hold, beyond):
        command = self.commands[hold.op]
        invoke = command.invoke or {}
        yield Op("grant", hold.call, hold.ret, hold, {"op": hold.op})
        signs = [sign for sign in command.signs if sign >= hold.ret] or [hold.ret]
        if not beyond:
            # Between two signs of life of a run nobody else can have had the lock, so the last one is enough.
            for sign in {max(signs)} if is_run(invoke) else set(signs):
                yield Op("work", sign, sign, hold, invoke | {"op": hold.op})
        killed = command.returned is None or command.returned.get("code", 0) < 0
        if is_run(invoke) or (invoke.get("what", "").startswith("application") and killed):
            yield Op("give_back", max(signs), None, hold, {"op": hold.op})

    def of_event(self, key, event, holds, lock):
        kind, t, start = event["e"], event["t"], event.get("from", 0)
        hold, code = holds.get(event.get("op")), event.get("code", 0)
        if kind in ("use", "stored") and (hold is None or hold.token != event["token"]):
            if code == 0 and event["token"] in lock.by_token:
                self.blame(f"{key}: op {event['op']} has used token {event['token']}, another's")
        elif kind == "use" and (code == 0 or event["verb"] == "release" or (code != 76 and event["verb"] == "renew")):
            # A release that was answered "lost" may be the repeat of one that was done.
            yield Op(event["verb"], start, t if code == 0 else None, hold, event)
        elif kind == "stored":
            if event.get("seen", 0) > event["token"]:
                self.blame(f"{key}: a transaction with the old token {event['token']} has committed")
            yield Op("commit", t, t, hold, event)
        elif kind == "revoke" and code not in (75, 76) and event["token"] in lock.by_token:
            yield Op("revoke", start, t if code == 0 else None, lock.by_token[event["token"]], event)
        elif kind == "paused" and not lock.beyond and start < t:
            yield Op("pause", start, start, None, event)
            yield Op("resume", t, t, None, event)
        elif kind == "line" and not lock.beyond:
            yield Op("stand", start, start, None, event)
            yield Op("leave", t, t, None, event)
        elif kind == "final":
            yield Op("final", t, t, None, event)
            if event.get("held"):
                self.blame(f"{key} was still held when all was over")

    def fence(self, key, events):
        """The fenced store tells its answers in the order in which it gave them."""
        last = None
        for event in sorted((event for event in events if event["e"] == "write"), key=lambda event: event["t"]):
            if not event.get("accepted"):
                continue
            if last and (event["token"] < last["token"] or (event["token"] == last["token"] and event["op"] != last["op"])):
                self.blame(f"{key}: the fenced store took token {event['token']} of op {event['op']} after {last['token']} of op {last['op']}")
            last = event

    def deadlines(self):
        """A renewal is sent in the light. So a holder has stopped a TTL after the light went out."""
        darks = [event for event in self.events if event["e"] == "dark"]
        for number, command in self.commands.items():
            invoke = command.invoke or {}
            if not command.signs or not invoke.get("what", "").startswith(("run", "application")):
                continue
            group = invoke.get("group", -1)
            mine = [(dark["t"], dark["until"]) for dark in darks
                    if dark.get("op", 0) in (0, number) and (dark.get("op", 0) or dark.get("group", -1) in (-1, group))]
            sign = max(command.signs)
            late = sign - last_light(mine, sign) - invoke["ttl"]
            if late > self.terms.tolerance:
                self.blame(f"the holder of op {number} was at work {late / 1e6:.0f} ms after the end of its lease")

    def outcomes(self):
        for event in self.events:
            if event["e"] == "late":
                self.blame(event.get("say", "late"))
            if event["e"] == "beside" and self.terms.step <= self.terms.margin:
                self.blame(f"{event['key']}: op {event['op']} began beside a living process of another holder")
        for number, command in self.commands.items():
            if command.invoke and not command.returned:
                self.blame(f"op {number} never ended")
            elif command.invoke and is_run(command.invoke):
                self.run_outcome(number, command)

    def run_outcome(self, number, command):
        code, begun = command.returned.get("code", 0), bool(command.begins)
        keys = [begin["key"] for begin in command.begins]
        if len(keys) != len(set(keys)):
            self.blame(f"op {number} ran its job twice")
        if code in NOTHING_RUN and begun:
            self.blame(f"op {number} said that nothing was run, but its job began")
        if code == 0 and not (begun and command.ended):
            self.blame(f"op {number} reported success for a job that did not get to its end")
        if code >= 0 and command.returned.get("alive"):
            self.blame(f"op {number} ended before its job")


def last_light(darks, at):
    """The latest time up to `at` that is in none of the darks."""
    for start, until in sorted(darks, key=lambda dark: -dark[1]):
        if start <= at <= until:
            at = start
    return at


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    events = []
    for number, line in enumerate(lines):
        try:
            events.append(json.loads(line))
        except ValueError:
            if number + 1 < len(lines):  # a kill can cut the last line short
                raise
    return events


def main(words):
    tolerance, bad = SECOND, 0
    if words[:1] == ["--tolerance-ms"]:
        tolerance, words = int(words[1]) * 1_000_000, words[2:]
    for path in words:
        try:
            events = read(path)
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 65
        found = Judge(events, tolerance).judge()
        for text in found:
            print(text)
        print(f"{path}: {len(events)} events: {len(found)} violations")
        bad |= bool(found)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
