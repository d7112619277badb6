#!/usr/bin/env python3
"""both_judges.py CHECK_HISTORY HISTORY...
both_judges.py CHECK_HISTORY --play CAMPAIGNS CAMPAIGN [OPTION...]

Lets both judges, CHECK_HISTORY (checker.cpp) and judge.py, judge histories of campaigns: each whole, and what it tells of each
key alone. Neither may find a violation. Then plants each violation of planted.py in the first of these parts that has a site
for it. Both judges must find it, and each must have a site in some HISTORY. --play makes the histories: CAMPAIGNS short
campaigns of the program CAMPAIGN with seeds from 1 and with OPTIONs. Exit 0: the judges agree.
"""
import json
import os
import subprocess
import sys
import tempfile

import judge
import planted

ALWAYS = {"terms", "dark", "fault"}


class Judges:
    def __init__(self, check_history):
        self.check_history = check_history
        self.whole = self.damaged = 0
        self.failures = []

    def verdicts(self, events):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
            file.flush()
            checked = subprocess.run([self.check_history, file.name], capture_output=True, text=True, check=False)
        if checked.returncode not in (0, 1):
            raise RuntimeError(checked.stderr)
        return (checked.stdout.splitlines()[:-1], judge.Judge(events, judge.SECOND).judge())

    def blame(self, text, found):
        self.failures.append(text)
        print(f"FAILED: {text}")
        for line in [*found[0][:4], *found[1][:4]]:
            print("   ", line)

    def judge_whole(self, name, events):
        found = self.verdicts(events)
        self.whole += 1
        if any(found):
            self.blame(f"{name}: checker.cpp {bool(found[0])}, judge.py {bool(found[1])}", found)

    def judge_planted(self, name, plant, events):
        """False if there is no site for it."""
        try:
            events = planted.planted(plant, events)
        except planted.NoSite:
            return False
        found = self.verdicts(events)
        self.damaged += 1
        if not all(found):
            self.blame(f"{name}: '{plant}' found by checker.cpp: {bool(found[0])}, by judge.py: {bool(found[1])}", found)
        return True


def parts(events):
    """What the history tells of each key: with all of each op that had the lock, or that asked for it and had none."""
    keys = sorted({event["key"] for event in events if event["e"] == "final"})
    had = {}
    for event in events:
        if event.get("op") and event.get("key") and event["e"] not in ("invoke", "line"):
            had.setdefault(event["op"], set()).add(event["key"])
    for key in keys:
        asked = {event["op"] for event in events if event["e"] == "invoke" and event.get("key") == key and event["op"] not in had}
        mine = asked | {op for op, theirs in had.items() if key in theirs}
        yield key, [event for event in events if event["e"] in ALWAYS or event.get("key") == key and event["e"] != "invoke"
                    or event.get("op") in mine and (event["e"] == "invoke" or not event.get("key"))]


def play(campaign, seed, options, folder):
    keep = os.path.join(folder, str(seed))
    words = [campaign, "--seed", str(seed), "--duration", "8s", "--keep", keep, *options]
    played = subprocess.run(words, capture_output=True, text=True, check=False)
    if played.returncode not in (0, 1, 2):  # 2: too little has happened, in so short a time
        raise RuntimeError(played.stdout + played.stderr)
    return judge.read(os.path.join(keep, "history.jsonl"))


def histories(words):
    if words[0] != "--play":
        for path in words:
            yield path, judge.read(path)
        return
    for seed in range(1, int(words[1]) + 1):
        with tempfile.TemporaryDirectory() as folder:
            yield f"seed {seed}", play(words[2], seed, words[3:], folder)


def main(words):
    judges = Judges(words[0])
    missing = set(planted.PLANTS)
    for name, events in histories(words[1:]):
        judges.judge_whole(name, events)
        left = list(planted.PLANTS)
        for key, part in parts(events):
            part_name = f"{name}, {key}"
            judges.judge_whole(part_name, part)
            left = [plant for plant in left if not judges.judge_planted(part_name, plant, part)]
        missing.intersection_update(left)
    for plant in sorted(missing) if words[1] != "--play" else ():
        judges.failures.append(plant)
        print(f"FAILED: no history has a site for '{plant}'")
    print(f"{judges.whole} histories without a violation, {len(planted.PLANTS)} violations planted {judges.damaged} times: "
          f"{len(judges.failures)} failures")
    return 1 if judges.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
