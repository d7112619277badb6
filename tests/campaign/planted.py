"""Violations to plant in a real history: each edit breaks one rule, and both judges must find it.

A history in which an edit has no site (no script that forgot its release, say) raises NoSite.
"""
import copy
from collections import defaultdict

import judge

MS = 1_000_000
PLANTS = {}


class NoSite(Exception):
    """The history has no place for the edit."""


def plant(name):
    def register(edit):
        PLANTS[name] = edit
        return edit

    return register


def planted(name, events):
    story = Story(copy.deepcopy(events))
    PLANTS[name](story)
    return story.events


class Story:
    def __init__(self, events):
        self.events = events
        self.terms = next((event for event in events if event["e"] == "terms"), None)
        if self.terms is None:
            raise NoSite
        self.step, self.margin = self.terms.get("step", 0), self.terms["margin"]
        if self.step > self.margin:
            raise NoSite  # there tokens alone protect
        self.commands, self.uses = defaultdict(judge.Command), defaultdict(list)
        for event in events:
            if "op" in event:
                self.commands[event["op"]].add(event)
            if event["e"] == "use":
                self.uses[event["op"]].append(event)

    def add(self, kind, t, **fields):
        self.events.append({"t": t, "e": kind, **fields})

    def holds(self, what="", mode=None):
        """In the order of the tokens of each key."""
        found = []
        for command in self.commands.values():
            for begin in command.begins:
                if command.invoke and command.invoke["what"].startswith(what) and mode in (None, begin["mode"]):
                    found.append(command.hold(begin))
        return sorted(found, key=lambda hold: (hold.key, hold.token))

    def pairs(self, first="", mode=None):
        """Holds, each with the next one of its key."""
        chosen, everything = set(self.holds(first, mode)), self.holds()
        return [(one, two) for one, two in zip(everything, everything[1:]) if one.key == two.key and one in chosen]

    def begun(self, hold):
        """A script's hold begins after it has heard of the grant."""
        return next(begin["t"] for begin in self.commands[hold.op].begins if begin["key"] == hold.key)

    def last_sign(self, hold):
        return max(self.commands[hold.op].signs)

    def next_begin(self, hold):
        return min((other.ret for other in self.holds() if other.key == hold.key and other.token > hold.token), default=judge.FOR_EVER)

    def sure_uses(self, hold):
        """The uses of the lease, where each answer is known."""
        uses = [use for use in self.uses[hold.op] if use["key"] == hold.key and use["token"] == hold.token]
        command = self.commands[hold.op]
        if any(use.get("code", 0) not in (0, 76) for use in uses) or not command.returned or command.returned.get("code", 0) < 0:
            raise NoSite
        return uses

    def use(self, hold, verb, start, op=None):
        self.add("use", start + MS, **{"from": start}, op=op or hold.op, key=hold.key, token=hold.token, verb=verb, ttl=hold.ttl)

    def run(self, key, at, token, mode="exclusive", slots=1, slot=0):
        """Another run, at work for two nanoseconds."""
        op = 1 + max(self.commands)
        self.add("invoke", at - 1, op=op, key=key, what="run", ttl=self.terms["ttl"])
        self.add("begin", at, op=op, key=key, token=token, mode=mode, slots=slots, slot=slot)
        self.add("end", at + 1, op=op)
        self.add("return", at + 2, op=op)


def first(sites, fits=lambda site: True):
    for site in sites:
        try:
            if fits(site):
                return site
        except NoSite:
            pass
    raise NoSite


def long_run(story, mode=None):
    return first(story.holds("run", mode), lambda hold: story.last_sign(hold) > hold.ret + 10 * MS)


# Exclusion.


@plant("a job is still at work when the next holder begins")
def _(story):
    one, two = first(story.pairs("run", "exclusive"))
    story.add("alive", two.ret + MS, op=one.op)


def beside(name, mode, other, slots=1, slot=0):
    @plant(name)
    def _(story):
        hold = long_run(story, mode)
        story.run(hold.key, story.last_sign(hold) - 5 * MS, hold.token + 1, other, slots, slot)


beside("two exclusive holders at once", "exclusive", "exclusive")
beside("a reader beside a writer", "exclusive", "shared")
beside("a writer beside a reader", "shared", "exclusive")
beside("a writer beside a holder of a slot", "slots", "exclusive")
beside("a reader beside a holder of a slot", "slots", "shared")


@plant("three holders of two slots")
def _(story):
    one, two = first(story.pairs("run", "slots"), lambda pair: pair[0].ret < pair[1].ret and story.last_sign(pair[0]) > pair[1].ret + 5 and story.last_sign(pair[1]) > pair[1].ret + 5)
    story.run(two.key, two.ret + 2, two.token + 1, "slots", 2, two.slot)


@plant("slot 3 of 2")
def _(story):
    begin = story.commands[first(story.holds("run", "slots")).op].begins[0]
    begin["slot"] = begin["slots"] + 1


@plant("a process of another holder is alive")
def _(story):
    hold = first(story.holds())
    story.add("beside", hold.ret, op=hold.op, key=hold.key)


# Tokens.


@plant("a token is given twice")
def _(story):
    one, two = first(story.pairs())
    next(begin for begin in story.commands[two.op].begins if begin["key"] == two.key)["token"] = one.token


@plant("a token is lower than the one before")
def _(story):
    one, two = first(story.pairs("", "exclusive"), lambda pair: pair[1].call > pair[0].ret)
    next(begin for begin in story.commands[two.op].begins if begin["key"] == two.key)["token"] = one.token - 1


@plant("a token is lower than one that a reader had when it was asked for")
def _(story):
    hold = long_run(story, "shared")
    story.run(hold.key, story.last_sign(hold) - 5 * MS, hold.token - 1, "shared")


@plant("the key's row has an old token")
def _(story):
    last = first(reversed(story.holds()))
    for event in story.events:
        if event["e"] == "final" and event["key"] == last.key:
            event["token"] = last.token - 1
            return
    raise NoSite


# What succeeds with a lease that is no longer.


def after_the_next(verb):
    @plant(f"{verb} after the next grant")
    def _(story):
        one, two = first(story.pairs("a"), lambda pair: pair[1].mode == "exclusive" and story.sure_uses(pair[0]) is not None)
        story.use(one, verb, story.begun(two) + 1)


def after_release(verb):
    def released(story, hold):
        return [use for use in story.sure_uses(hold) if use["verb"] == "release" and use.get("code", 0) == 0]

    @plant(f"{verb} after the release")
    def _(story):
        hold = first(story.holds("a"), lambda hold: released(story, hold))
        story.use(hold, verb, released(story, hold)[0]["t"] + 1)


def expiry(story, hold):
    ends = [use["t"] + use["ttl"] for use in story.sure_uses(hold) if use["verb"] == "renew" and use.get("code", 0) == 0]
    return max([hold.ret + hold.ttl, *ends]) + story.step


def forgotten(story, hold):
    return not any(use["verb"] == "release" and use["from"] < story.next_begin(hold) for use in story.sure_uses(hold))


def after_expiry(verb):
    @plant(f"{verb} after the lease has expired")
    def _(story):
        hold = first(story.holds("a"), lambda hold: forgotten(story, hold))
        story.use(hold, verb, expiry(story, hold) + story.begun(hold) - hold.ret + MS)


def after_revocation(verb):
    @plant(f"{verb} after the revocation")
    def _(story):
        def fits(hold):
            return story.sure_uses(hold) and story.sure_uses(hold)[0]["from"] > story.begun(hold) + 9

        hold = first(story.holds("a"), fits)
        begun = story.begun(hold)
        story.add("revoke", begun + 2, **{"from": begun + 1}, key=hold.key, token=hold.token)
        story.use(hold, verb, begun + 3)


def with_anothers(verb):
    @plant(f"{verb} with another's lease")
    def _(story):
        hold = first(story.holds("a"), lambda hold: story.sure_uses(hold) is not None)
        other = first(story.holds("a"), lambda other: other.op != hold.op)
        story.use(hold, verb, hold.ret + 1, other.op)


for each in ("renew", "release", "store"):
    for make in (after_the_next, after_release, after_expiry, with_anothers):
        make(each)
for each in ("renew", "store"):
    after_revocation(each)


@plant("revoke of an old token")
def _(story):
    one, two = first(story.pairs(), lambda pair: pair[1].mode == "exclusive")
    story.add("revoke", story.begun(two) + 2, **{"from": story.begun(two) + 1}, key=one.key, token=one.token)


@plant("the fenced store takes an old token")
def _(story):
    write = first(event for event in story.events if event["e"] == "write" and event.get("accepted"))
    story.add("write", write["t"] + 1, op=write["op"], key=write["key"], token=write["token"] - 1, accepted=True)


@plant("the fenced store takes two holders' writes with one token")
def _(story):
    write = first(event for event in story.events if event["e"] == "write" and event.get("accepted"))
    story.add("write", write["t"] + 1, op=1 + max(story.commands), key=write["key"], token=write["token"], accepted=True)


def stored(story, hold):
    return [event for event in story.events if event["e"] == "stored" and event["op"] == hold.op]


@plant("a transaction finds a later token")
def _(story):
    hold = first(story.holds("application"), lambda hold: stored(story, hold))
    stored(story, hold)[0]["seen"] = hold.token + 1


@plant("a grant during a transaction")
def _(story):
    one, two = first(story.pairs("application"), lambda pair: stored(story, pair[0]))
    stored(story, one)[0]["t"] = story.begun(two) + 1


# Leases and their margins.


def granted_at(name, what, when):
    """A run is granted the lock at `when`, before the next real one."""
    @plant(name)
    def _(story):
        def fits(hold):
            return hold.mode == "exclusive" and story.last_sign(hold) < when(story, hold) < story.next_begin(hold) - 9

        hold = first(story.holds(what), fits)
        story.run(hold.key, when(story, hold), hold.token + 1)


def least(story, hold, renewed):
    """The earliest end of a lease that nobody released."""
    if not forgotten(story, hold):
        raise NoSite
    renewals = [use for use in story.sure_uses(hold) if use["verb"] == "renew" and use.get("code", 0) == 0]
    if bool(renewals) != renewed:
        raise NoSite
    return max([hold.call + hold.ttl, *(use["from"] + use["ttl"] for use in renewals)])


def before_release(story, hold):
    return first(use["from"] for use in story.sure_uses(hold) if use["verb"] == "release" and use.get("code", 0) == 0) - 9


for what in ("acquire", "application"):
    granted_at(f"a grant within a lease ({what})", what, lambda story, hold: least(story, hold, False) - 1)
    granted_at(f"a grant within the margin ({what})", what, lambda story, hold: least(story, hold, False) + story.margin - story.step - 9)
    granted_at(f"a grant before the release was sent ({what})", what, before_release)
granted_at("a grant within a renewed lease", "a", lambda story, hold: least(story, hold, True) - 1)
granted_at("a grant within the margin of a renewed lease", "a", lambda story, hold: least(story, hold, True) + story.margin - story.step - 9)


# Deadlines.


def in_the_dark(name, what, of):
    @plant(name)
    def _(story):
        hold = first(story.holds(what), lambda hold: of != "group" or "group" in story.commands[hold.op].invoke)
        sign = story.last_sign(hold)
        whom = {"op": {"op": hold.op}, "group": {"group": story.commands[hold.op].invoke.get("group")}, "all": {}}[of]
        story.add("dark", sign - hold.ttl - 1010 * MS, until=sign + MS, **whom)


in_the_dark("a job outlives the lease of a dblock that is frozen", "run", "op")
in_the_dark("a job outlives its lease behind a dead connection", "run", "group")
in_the_dark("a job outlives its lease while the server is away", "run", "all")
in_the_dark("an application outlives its lease, frozen", "application", "op")


def after_the_end(what):
    @plant(f"work after the end of the lease ({what})")
    def _(story):
        hold = first(story.holds(what), lambda hold: story.sure_uses(hold) is not None)
        story.add("alive", expiry(story, hold) - story.step + MS, op=hold.op)


after_the_end("acquire")
after_the_end("application")


# Answers.


def answered(name, code):
    @plant(name)
    def _(story):
        story.commands[first(story.holds("run")).op].returned["code"] = code


answered("a run that says 'held' has begun its job", 75)
answered("a run that says 'unreachable' has begun its job", 69)


def ended(story, hold):
    command = story.commands[hold.op]
    return command.returned and command.returned.get("code", 0) == 0


@plant("a success without a job")
def _(story):
    command = first(story.commands.values(), lambda command: command.invoke and judge.is_run(command.invoke) and not command.begins)
    command.returned["code"] = 0


@plant("a success of a job that did not end")
def _(story):
    hold = first(story.holds("run"), lambda hold: ended(story, hold))
    story.events = [event for event in story.events if not (event["e"] == "end" and event["op"] == hold.op)]


@plant("a run ends before its job")
def _(story):
    story.commands[first(story.holds("run"), lambda hold: ended(story, hold)).op].returned["alive"] = True


@plant("a command never ends")
def _(story):
    story.events.remove(story.commands[first(story.holds("run")).op].returned)


@plant("a job is run twice")
def _(story):
    hold = long_run(story)
    story.add("begin", hold.ret + MS, op=hold.op, key=hold.key, token=hold.token + 1, mode=hold.mode, slots=hold.slots, slot=hold.slot)


@plant("something came too late")
def _(story):
    story.add("late", 1, say="it was not to be had")


@plant("a key is held when all is over")
def _(story):
    first(event for event in story.events if event["e"] == "final")["held"] = True


# Pauses and the line.


def under_a_pause(what):
    @plant(f"a grant under a pause ({what})")
    def _(story):
        hold = first(story.holds(what))
        story.add("paused", hold.ret + 1, **{"from": hold.call - 1}, key=hold.key)


def before_another(what):
    @plant(f"a grant before one who came earlier ({'to a run' if what == 'run' else 'to no run'})")
    def _(story):
        def fits(pair):
            one, two = pair
            stood_since = two.call - story.step - 1
            return {one.mode, two.mode} == {"exclusive"} and one.ret < stood_since and two.ret < story.last_sign(one) + 2000 * MS

        two = first(((one, two) for one, two in story.pairs() if story.commands[two.op].invoke["what"].startswith(what)), fits)[1]
        story.add("line", two.ret + 1, **{"from": two.call - story.step - 1}, op=1 + max(story.commands), key=two.key)
        story.add("invoke", two.call - story.step - 2, op=1 + max(story.commands), what="acquire", ttl=two.ttl)
        story.add("return", two.ret + 9, op=1 + max(story.commands), code=75)


for what in ("run", "acquire", "application"):
    under_a_pause(what)
for what in ("run", "a"):
    before_another(what)
