"""Histories of apps: facts, one after the other, and the decisions that follow. Data, and the notation of it.

A row has the roles, the facts and the decisions. Python 3.6 runs this file, too: see `main`.

Roles, separated by blanks: `a*2` has two replicas; `a~1A` one retry of the policy APPLICATION, `R` ROLE,
`1` REPLICA alone; `a~1A+5` pauses 5 s before the first; `a.s` is a service; `b<a:ready` waits for `a`;
`%60` is the time limit of the app in seconds.

Facts, separated by `; `::

    go              the app starts              a/0             a replica runs
    a/0 ready       it is ready                 a/0 late        it is not ready in time
    a/0=3           it exits with 3             a/0=s9          a signal ended it
    a/0=oom         out of memory               a/0=-143        it was asked to stop
    a/0=?why        nothing is known of its end a/0=hand        another program stopped it; `0hand`: with 0
    a/0=1?why       its scheduler lost it       a/0=0ready      it wrote its probe's file and exited with 0
    a/0!why         it could not be started     a/0=3:words     with a last line of stderr
    a/0=0 use 1 0.5 200 process             it used 1.5 s of CPU time, 200 bytes; so may `quiet use …`
    cancel me       a client cancels, `cancel me 2` with a grace period, `interrupt me`, `signal 15`
    quiet           no process is left          @60             60 s after the start
    clock 60        the clock was set ahead by 60 s; `clock -60`: back
    orphaned, withdrawn, unmet WHY, broken WHY, adopted, waiting a b, met a, queued
    restart a/0     by its engine, its first    requeued        all of it is run again

Decisions::

    restart app a/0 1 +5        the first restart of the app for a/0, after 5 s
    stopping peer a/0           stopping cancel me ~2   (with a grace period)
    ended failed 3 a/0 exited with 3
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from launcher.holding.app import App
from launcher.holding.hold import decide

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

START_S = 1000.0
DECISIONS = ("restart", "stopping", "ended")
POLICIES = {"A": "APPLICATION", "R": "ROLE", "": "REPLICA"}

DONE = "ended succeeded 0"
HISTORIES = [
    # One replica: its ends
    ("a", "go; a/0; a/0=0; quiet", [DONE]),
    ("a", "go; a/0; a/0=3; quiet", ["stopping peer a/0", "ended failed 3 a/0 exited with 3"]),
    ("a", "go; a/0; a/0=3:no file; quiet", ["stopping peer a/0", "ended failed 3 a/0 exited with 3: no file"]),
    ("a", "go; a/0; a/0=s9; quiet", ["stopping peer a/0", "ended failed 137 a/0 was killed by signal 9"]),
    ("a", "go; a/0; a/0=oom; quiet", ["stopping peer a/0", "ended failed 137 a/0 was killed: out of memory"]),
    ("a", "go; a/0; a/0=137; quiet",
     ["stopping peer a/0", "ended failed 137 a/0 exited with 137 (128 + signal 9)"]),
    ("a", "go; a/0; a/0 late; a/0=143; quiet",
     ["stopping peer a/0", "ended failed 143 a/0 was not ready after 60 s"]),
    ("a", "go; a/0; a/0 late; a/0=0; quiet",
     ["stopping peer a/0", "ended failed 0 a/0 was not ready after 60 s"]),
    ("a", "go; a/0!no such file; quiet",
     ["stopping peer a/0", "ended failed 127 a/0 could not be started: no such file"]),
    ("a", "go; a/0; a/0=?; quiet", ["stopping lost a/0", "ended lost a/0 was lost"]),
    ("a", "go; a/0; a/0=hand; quiet", ["stopping hand a/0", "ended cancelled a/0 was stopped by hand"]),
    ("a~1", "go; a/0; a/0=hand; quiet", ["stopping hand a/0", "ended cancelled a/0 was stopped by hand"]),
    ("a", "go; a/0; a/0=0hand; quiet", ["stopping hand a/0", "ended cancelled a/0 was stopped by hand"]),
    ("a b<a:succeeded", "go; a/0; a/0=0hand; quiet",
     ["stopping hand a/0", "ended cancelled a/0 was stopped by hand"]),
    # The end waits until nothing is left
    ("a", "go; a/0; a/0=0", []),
    ("a", "go; a/0; a/0=3", ["stopping peer a/0"]),
    ("a~1A", "go; a/0; a/0=3", []),
    # Two replicas
    ("a*2", "go; a/0; a/1; a/0=0", []),
    ("a*2", "go; a/0; a/1; a/0=0; a/1=0; quiet", [DONE]),
    ("a*2", "go; a/0; a/1; a/1=4; a/0=-143; quiet", ["stopping peer a/1", "ended failed 4 a/1 exited with 4"]),
    ("a*2", "go; a/0; a/1; a/1=4; a/0=3; quiet", ["stopping peer a/1", "ended failed 4 a/1 exited with 4"]),
    # An end is judged at once, also while others are to be started
    ("a*2", "go; a/0; a/0=3; a/1; a/1=-143", ["stopping peer a/0"]),
    ("a*2~1", "go; a/0; a/0=3; a/1; a/0; a/0=0; a/1=0; quiet", ["restart replica a/0 1", DONE]),
    ("a*2", "go; a/0; a/1!no; a/0=-143; quiet",
     ["stopping peer a/1", "ended failed 127 a/1 could not be started: no"]),
    # Restarts of one replica
    ("a~2", "go; a/0; a/0=3; a/0; a/0=0; quiet", ["restart replica a/0 1", DONE]),
    ("a~2", "go; a/0; a/0=3; a/0; a/0=3; a/0; a/0=4; quiet",
     ["restart replica a/0 1", "restart replica a/0 2", "stopping peer a/0", "ended failed 4 a/0 exited with 4"]),
    ("a*2~1", "go; a/0; a/1; a/0=3; a/0; a/1=4; a/1; a/0=0; a/1=0; quiet",
     ["restart replica a/0 1", "restart replica a/1 1", DONE]),
    ("a~1", "go; a/0; a/0=s15; a/0; a/0=0; quiet", ["restart replica a/0 1", DONE]),
    ("a~1", "go; a/0; a/0 late; a/0=143; a/0; a/0=0; quiet", ["restart replica a/0 1", DONE]),
    ("a~1", "go; a/0; a/0=3; a/0!no; quiet",
     ["restart replica a/0 1", "stopping peer a/0", "ended failed 127 a/0 could not be started again: no"]),
    ("a~1", "go; a/0; a/0=?; quiet", ["stopping lost a/0", "ended lost a/0 was lost"]),
    ("a~1", "go; a/0!no; quiet",
     ["stopping peer a/0", "ended failed 127 a/0 could not be started: no"]),
    # The line of its restart is lost: its last run counts
    ("a", "go; a/0; a/0=0; a/0; a/0=3; quiet", ["stopping peer a/0", "ended failed 3 a/0 exited with 3"]),
    # An engine has restarted it: its restart is a fact that counts
    ("a~2", "go; a/0; restart a/0; a/0; a/0=3; a/0; a/0=0; quiet", ["restart replica a/0 2", DONE]),
    ("a~1", "go; a/0; restart a/0; a/0; a/0=3; quiet",
     ["stopping peer a/0", "ended failed 3 a/0 exited with 3"]),
    # A record that was lost counts no restarts, so none are made
    ("a~1", "go; adopted; a/0; a/0=3; quiet", ["stopping peer a/0", "ended failed 3 a/0 exited with 3"]),
    # Restarts of a role: the others of it are stopped first
    ("a*2~1R b", "go; a/0; a/1; b/0; a/0=3; a/1=-143; a/0; a/1; a/0=0; a/1=0; b/0=0; quiet",
     ["stopping restart a/0", "restart role a/0 1", DONE]),
    ("a*2~1R", "go; a/0; a/1; a/1=0; a/0=3; a/0; a/1; a/0=0; a/1=0; quiet", ["restart role a/0 1", DONE]),
    ("a*2~1R", "go; a/0; a/1; a/0=3; a/1=4; a/0; a/1; a/0=0; a/1=5; quiet",
     ["stopping restart a/0", "restart role a/0 1", "stopping peer a/1", "ended failed 5 a/1 exited with 5"]),
    ("a~1R b~1R", "go; a/0; b/0; a/0=3; a/0; b/0=4; b/0; a/0=0; b/0=0; quiet",
     ["restart role a/0 1", "restart role b/0 1", DONE]),
    # Restarts of the app: all of it ends first, and nothing of it is left
    ("a~1A b", "go; a/0; b/0; a/0=3; b/0=-143; quiet; a/0; b/0; a/0=0; b/0=0; quiet",
     ["stopping restart a/0", "restart app a/0 1", DONE]),
    ("a~1A", "go; a/0; a/0=3; quiet; a/0; a/0=4; quiet",
     ["restart app a/0 1", "stopping peer a/0", "ended failed 4 a/0 exited with 4"]),
    ("a~1A b", "go; a/0; b/0; b/0=0; a/0=3; quiet; a/0; b/0; a/0=0; quiet", ["restart app a/0 1"]),
    ("a~1A b", "go; a/0; b/0; a/0=3; b/0=4; quiet; a/0; b/0; a/0=0; b/0=0; quiet",
     ["stopping restart a/0", "restart app a/0 1", DONE]),
    ("a~1A b~9R", "go; a/0; b/0; b/0=3; b/0; a/0=4; b/0=-143; quiet; a/0; b/0; a/0=0; b/0=0; quiet",
     ["restart role b/0 1", "stopping restart a/0", "restart app a/0 1", DONE]),
    # A role in its restart does not keep the app from another one
    ("a*2~1R b~1A", "go; a/0; a/1; b/0; a/0=3; b/0=4; a/1=-143; quiet; a/0; a/1; b/0; a/0=0; a/1=0; b/0=0; quiet",
     ["stopping restart a/0", "stopping restart b/0", "restart app b/0 1", DONE]),
    ("a*2~1R b", "go; a/0; a/1; b/0; a/0=3; b/0=4; a/1=-143; quiet",
     ["stopping restart a/0", "stopping peer b/0", "ended failed 4 b/0 exited with 4"]),
    # Pauses: they double, hide nothing else, and end with the app
    ("a~3+5", "go; a/0; a/0=3; @4; @5; a/0; a/0=3; @14; @15; a/0; a/0=0; quiet",
     ["restart replica a/0 1 +5", "restart replica a/0 2 +10", DONE]),
    ("a~1A+5", "go; a/0; a/0=3; quiet; @5; a/0; a/0=0; quiet", ["restart app a/0 1 +5", DONE]),
    ("a~1R+5", "go; a/0; a/0=3; @5; a/0; a/0=0; quiet", ["restart role a/0 1 +5", DONE]),
    ("a~1+5 b", "go; a/0; b/0; a/0=3; b/0=4; quiet",
     ["restart replica a/0 1 +5", "stopping peer b/0", "ended failed 4 b/0 exited with 4"]),
    ("a~1+5", "go; a/0; a/0=3; cancel me; quiet",
     ["restart replica a/0 1 +5", "stopping cancel me", "ended cancelled cancelled by me"]),
    ("a~1+5 %3", "go; a/0; a/0=3; @3; quiet",
     ["restart replica a/0 1 +5", "stopping timeout", "ended failed timed out after 3 s"]),
    ("a~1A+5", "go; a/0; a/0=3; quiet; cancel me",
     ["restart app a/0 1 +5", "stopping cancel me", "ended cancelled cancelled by me"]),
    ("a~1+5 b~1A", "go; a/0; b/0; a/0=3; b/0=4; quiet; @5; a/0; b/0; a/0=0; b/0=0; quiet",
     ["restart replica a/0 1 +5", "restart app b/0 1", DONE]),
    ("a~9+200", "go; a/0; a/0=3; @200; a/0; a/0=3; @499; @500; a/0; a/0=0; quiet",
     ["restart replica a/0 1 +200", "restart replica a/0 2 +300", DONE]),
    # Cancellations
    ("a", "go; a/0; cancel me; a/0=-143; quiet", ["stopping cancel me", "ended cancelled cancelled by me"]),
    ("a", "go; a/0; cancel; a/0=-143; quiet", ["stopping cancel", "ended cancelled cancelled"]),
    ("a", "go; a/0; interrupt me; a/0=0; quiet", ["stopping cancel me", "ended cancelled interrupted by me"]),
    ("a", "go; a/0; signal 15; a/0=0; quiet", ["stopping cancel", "ended cancelled stopped by signal 15"]),
    ("a", "go; a/0; cancel me 2; a/0=0; quiet", ["stopping cancel me ~2", "ended cancelled cancelled by me"]),
    ("a", "go; a/0; cancel me; cancel you 0; a/0=0; quiet",
     ["stopping cancel me", "ended cancelled cancelled by me"]),
    ("a~1", "go; a/0; cancel me; a/0=3; quiet", ["stopping cancel me", "ended cancelled cancelled by me"]),
    ("a", "go; a/0; a/0=3; cancel me; quiet", ["stopping peer a/0", "ended failed 3 a/0 exited with 3"]),
    ("a", "go; a/0; a/0=0; cancel me; quiet", [DONE]),
    ("a*2~1A", "go; a/0; a/1; a/0=3; cancel me; a/1=-143; quiet",
     ["stopping restart a/0", "stopping cancel me", "ended cancelled cancelled by me"]),
    ("a", "go; a/0; orphaned; a/0=-143; quiet", ["stopping parent", "ended cancelled its parent process ended"]),
    ("a", "go; broken no folder; quiet", ["stopping start", "ended failed no folder"]),
    # Time limits
    ("a %60", "go; a/0; @59", []),
    ("a %60", "go; a/0; @60; a/0=-143; quiet", ["stopping timeout", "ended failed timed out after 60 s"]),
    # Its clock is set while it runs: no time has passed
    ("a %60", "go; a/0; @10; clock 3600; @3650; a/0=0; quiet", [DONE]),
    ("a %60", "go; a/0; @10; clock 3600; @3660; a/0=-143; quiet",
     ["stopping timeout", "ended failed timed out after 60 s"]),
    ("a %60", "go; a/0; @10; clock -30; @30; a/0=-143; quiet",
     ["stopping timeout", "ended failed timed out after 60 s"]),
    ("a~1+5", "go; a/0; a/0=3; clock 3600; @3604; @3605; a/0; a/0=0; quiet", ["restart replica a/0 1 +5", DONE]),
    ("a~1A %60", "go; a/0; clock 3600; a/0=3; quiet; a/0; @3659; a/0=0; quiet", ["restart app a/0 1", DONE]),
    ("a %60", "go; a/0; clock 3600; requeued; go; a/0; @60; a/0=-143; quiet",
     ["stopping timeout", "ended failed timed out after 60 s"]),
    ("a %0.5", "go; a/0; @1; a/0=-143; quiet", ["stopping timeout", "ended failed timed out after 0.5 s"]),
    ("a %60", "go; a/0; a/0=0; @60; quiet", [DONE]),
    ("a %60", "go; a/0; cancel me; @60; a/0=0; quiet", ["stopping cancel me", "ended cancelled cancelled by me"]),
    # Before the start
    ("a", "cancel me", ["ended cancelled cancelled by me"]),
    ("a", "waiting x y; met x; unmet y failed", ["ended skipped y failed"]),
    ("a", "waiting x; withdrawn", ["ended skipped withdrawn"]),
    ("a", "queued; withdrawn", ["ended skipped withdrawn"]),
    ("a", "waiting x; cancel me", ["ended cancelled cancelled by me"]),
    ("a", "waiting x; met x; go; a/0; a/0=0; quiet", [DONE]),
    ("a", "queued; cancel me", ["ended cancelled cancelled by me"]),
    ("a", "queued; orphaned", ["ended cancelled its parent process ended"]),
    ("a", "waiting x; met x; queued; go; a/0; a/0=0; quiet", [DONE]),
    # Its scheduler runs all of it again
    ("a~1", "go; a/0; a/0=3; a/0; requeued; go; a/0; a/0=3; a/0; a/0=0; quiet",
     ["restart replica a/0 1", "restart replica a/0 1", DONE]),
    ("a*2", "go; a/0; a/1; a/0=0; requeued; go; a/0; a/1; a/0=0; a/1=0; quiet", [DONE]),
    ("s.s a<s:ready", "go; s/0; s/0 ready; a/0; requeued; go; s/0; s/0 ready; a/0; a/0=0; s/0=-143; quiet",
     ["stopping end", DONE]),
    ("a", "go; requeued; go; a/0; a/0=0; quiet", [DONE]),
    # Services: the app has succeeded when all others have
    ("s.s a", "go; s/0; a/0; a/0=0; s/0=-143; quiet", ["stopping end", DONE]),
    ("s.s a", "go; s/0; a/0; s/0=0; a/0=0; quiet", [DONE]),
    ("s.s a", "go; s/0; a/0; s/0=3; a/0=-143; quiet", ["stopping peer s/0", "ended failed 3 s/0 exited with 3"]),
    ("s.s a", "go; s/0; a/0; a/0=0; s/0=3; quiet", ["stopping end", DONE]),
    ("s.s~1 a", "go; s/0; a/0; s/0=3; s/0; a/0=0; s/0=-1; quiet", ["restart replica s/0 1", "stopping end", DONE]),
    # Order: roles wait for conditions of all replicas of others
    ("s*2.s a<s:ready", "go; s/0; s/1; s/0 ready; s/1 ready; a/0; a/0=0; s/0=-1; s/1=-1; quiet",
     ["stopping end", DONE]),
    ("d a<d:succeeded", "go; d/0; d/0=0; a/0; a/0=0; quiet", [DONE]),
    ("d a<d:started", "go; d/0; a/0; d/0=0; a/0=0; quiet", [DONE]),
    ("d a<d:succeeded", "go; d/0; d/0=3; quiet", ["stopping peer d/0", "ended failed 3 d/0 exited with 3"]),
    ("d~1 a<d:succeeded", "go; d/0; d/0=3; d/0; d/0=0; a/0; a/0=0; quiet", ["restart replica d/0 1", DONE]),
    ("s.s a<s:ready", "go; s/0; s/0=0; quiet",
     ["stopping peer s/0", "ended failed 0 s/0 ended before it was ready, and a waits for it"]),
    ("s.s a<s:ready", "go; s/0; s/0=0ready; a/0; a/0=0; quiet", [DONE]),
    ("s.s a<s:ready", "go; s/0; s/0 ready; s/0=0ready; a/0; a/0=0; quiet", [DONE]),
    ("s*2.s a<s:ready", "go; s/0; s/1; s/0=0ready; s/1 ready; a/0; a/0=0; s/1=-1; quiet", ["stopping end", DONE]),
    ("s*2.s a<s:ready", "go; s/0; s/1; s/0 ready; s/0=0; s/1 ready; a/0; a/0=0; s/1=-1; quiet",
     ["stopping end", DONE]),
    ("s*2.s~1 a<s:ready", "go; s/0; s/1; s/0 ready; s/0=3; s/1 ready; s/0; s/0 ready; a/0; a/0=0; s/0=-1; s/1=-1; quiet",
     ["restart replica s/0 1", "stopping end", DONE]),
    ("s.s a<s:ready b~1A", "go; s/0; b/0; s/0 ready; a/0; b/0=3; s/0=-1; a/0=-1; quiet; s/0; b/0; s/0 ready; a/0; a/0=0; b/0=0; s/0=-1; quiet",
     ["stopping restart b/0", "restart app b/0 1", "stopping end", DONE]),
    ("a b<a:ready", "go; a/0; a/0 ready; b/0; a/0=0; b/0=0; quiet", [DONE]),
    ("a.s b<a:succeeded c<b:ready", "go; a/0; a/0=-0; quiet",
     ["stopping peer", "ended failed nothing runs any more that the other roles wait for"]),
    ("a b<a:started %60", "go; a/0; b/0; @60; a/0=-1; b/0=-1; quiet",
     ["stopping timeout", "ended failed timed out after 60 s"]),
]  # fmt: skip
"""(roles, facts, decisions)"""

USES = [
    # The runs of a replica, of all replicas of a role, and of the app count together
    ("a", "go; a/0; a/0=0 use 1 0.5 200 process; quiet", {"a": (1, 1.5, 200, "process")}),
    ("a~1", "go; a/0; a/0=3 use 1 0 200 process; a/0; a/0=0 use 2 0 100 process; quiet",
     {"a": (2, 3.0, 200, "process")}),
    ("a*2~1R b", "go; a/0; a/1; b/0; a/0=3 use 1 0 1 cgroup; a/1=-143 use 1 0 2 cgroup; a/0; a/1; a/0=0 use 1 0 3 cgroup; a/1=0; b/0=0 use 4 0; quiet",
     {"a": (3, 3.0, 3, "cgroup"), "b": (1, 4.0, 0, "")}),
    ("a~1A", "go; a/0; a/0=3 use 1 0 5 process; quiet use 0.25 0.25; a/0; a/0=0 use 1 0 4 process; quiet use 1 0",
     {"a": (2, 2.0, 5, "process"), "": (2, 1.5, 0, "")}),
    ("a", "go; a/0; requeued; go; a/0; a/0=0 use 1 0 7 accounting; quiet", {"a": (1, 1.0, 7, "accounting")}),
    # A better measurement counts more than a higher one
    ("a*3", "go; a/0; a/1; a/2; a/0=0 use 0 1 900 process; a/1=0 use 0 1 800 samples; a/2=0 use 0 1 700 cgroup; quiet",
     {"a": (3, 3.0, 700, "cgroup")}),
    # An older holder says nothing of it
    ("a*2", "go; a/0; a/1; a/0=0; a/1=0; quiet", {}),
    ("a", "go; a/0; a/0=?; quiet", {}),
]  # fmt: skip
"""(roles, facts, role → number of runs, CPU time, memory and its source)"""


def created(text):
    # type: (str) -> dict[str, Any]
    """Return the event `created` of an app with these roles."""
    event = {"e": "created", "t": 0, "roles": [], "retries": [], "delays": [], "order": []}  # type: dict[str, Any]
    for word in text.split():
        if word[0] == "%":
            event["timeout"] = float(word[1:])
            continue
        word, _, waits = word.partition("<")
        is_service = word.endswith(".s") or ".s~" in word
        word = word.replace(".s", "")
        head, _, rule = word.partition("~")
        head, _, count = head.partition("*")
        rule, _, delay = rule.partition("+")
        event["roles"].append([head, int(count or 1)])
        event["retries"].append([int(rule.rstrip("AR") or 0), POLICIES[rule.lstrip("0123456789")]])
        event["delays"].append(int(delay or 0))
        event["order"].append([head, is_service, [waits.split(":")] if waits else []])
    return event


def fact(text):
    # type: (str) -> dict[str, Any]
    """Return the event for a fact of the notation; its kind is `tick` when only time passes."""
    text, _, use = text.partition(" use ")
    event = _fact(text)
    if use:
        words = use.split()
        memory, source = (words[2], words[3]) if len(words) == 4 else ("0", "")
        event["use"] = [float(words[0]), float(words[1]), int(memory), source]
    return event


def _fact(text):
    # type: (str) -> dict[str, Any]
    word, _, rest = text.partition(" ")
    if "/" not in word:
        return _app_fact(word, rest)
    name, mark, end = word, "", ""
    for each in "=!":
        if each in text:
            name, mark, end = text.partition(each)
            break
    role, _, k = name.partition("/")
    where = {"role": role, "k": int(k)}  # type: dict[str, Any]
    if mark == "!":
        return dict(where, e="exit", code=127, why=end)
    if mark == "=":
        return dict(where, e="exit", **_end(end))
    if rest == "late":
        return dict(where, e="late", why="not ready after 60 s")
    return dict(where, e=rest) if rest else dict(where, e="spawn", pid=1, start=1)


def _end(text):
    # type: (str) -> dict[str, Any]
    text, _, output = text.partition(":")
    if text in ("hand", "0hand"):
        return {"code": 143 if text == "hand" else 0, "hand": True}
    if text == "0ready":
        return {"code": 0, "ready": True}
    if text == "oom":
        return {"code": 137, "signal": 9, "oom": True}
    if "?" in text:
        code, _, lost = text.partition("?")
        return {"code": int(code) if code else None, "lost": lost}
    if text[0] == "-":
        return {"code": int(text[1:]), "stopped": True}
    if text[0] == "s":
        return {"code": 128 + int(text[1:]), "signal": int(text[1:])}
    return dict({"code": int(text)}, **({"said": output} if output else {}))


def _app_fact(word, rest):
    # type: (str, str) -> dict[str, Any]
    if word[0] == "@":
        return {"e": "tick", "at": float(word[1:])}
    if word == "restart":
        role, _, k = rest.partition("/")
        return {"e": "restart", "scope": "replica", "role": role, "k": int(k), "n": 1}
    if word in ("cancel", "interrupt"):
        by, _, grace = rest.partition(" ")
        more = {"grace_s": float(grace)} if grace else {}  # type: dict[str, Any]
        return dict(more, e="cancel", by=by, interrupt=word == "interrupt")
    if word == "clock":
        return {"e": "clock", "by": float(rest)}
    if word == "signal":
        return {"e": "cancel", "by": "", "signal": int(rest)}
    fields = {
        "go": ("starting", {}), "waiting": ("waiting", {"for": rest.split()}), "met": ("met", {"job": rest}),
    }  # fmt: skip
    fields.update(unmet=("unmet", {"why": rest}), broken=("broken", {"why": rest}))
    fields.update(orphaned=("orphaned", {"why": "its parent process ended"}))
    kind, more = fields.get(word, (word, {}))
    return dict(more, e=kind)


def written(event):
    # type: (dict[str, Any]) -> str
    """Return a decision in the notation of the table."""
    if event["e"] == "restart":
        text = "restart {scope} {role}/{k} {n}".format(**event)
        return text + (" +{}".format(event["delay_s"]) if event.get("delay_s") else "")
    if event["e"] == "stopping":
        grace = " ~{:g}".format(event["grace_s"]) if "grace_s" in event else ""
        return "stopping {} {}{}".format(event["why"], event["by"], grace).rstrip()
    code = "" if event["code"] is None else event["code"]
    return " ".join("ended {} {} {}".format(event["state"], code, event["message"]).split())


class Record:
    """A record in memory, with the clock of its holder."""

    def __init__(self, events=()):
        # type: (Any) -> None
        self.events = list(events)
        self.decisions = []  # type: list[str]
        self.now = START_S

    def append(self, event):
        # type: (dict[str, Any]) -> None
        event.setdefault("t", int(self.now * 1e9))
        self.events.append(event)
        if event["e"] in DECISIONS and "fact" not in event:
            self.decisions.append(written(event))


def play(roles, facts):
    # type: (str, str) -> tuple[App, Record]
    """Hold an app through these facts; return the app and its record."""
    app, record = App(), Record()
    begin = created(roles)
    record.append(begin)
    app.take(begin)
    for text in facts.split("; "):
        step(app, record, fact(text))
    return app, record


def used_by(app):
    # type: (App) -> dict[str, Any]
    """Return the use of an app in the notation of the table."""
    return {role: (use.runs, use.cpu_s, use.memory, use.source) for role, use in app.used.items()}


def step(app, record, event):
    # type: (App, Record, dict[str, Any]) -> None
    """Give a holder one fact; it records and carries out the decisions that follow."""
    if event["e"] == "tick":
        record.now = START_S + event["at"]
    else:
        if event["e"] == "restart":
            event["fact"] = True
        if event["e"] in ("spawn", "exit"):
            app.take_to_start(8)
        record.append(event)
        app.take(event)
    decide(app, record, record.now)
    app.to_stop = {}


def main():
    # type: () -> None
    """Play every history: for a Python that has no pytest."""
    for roles, facts, decisions in HISTORIES:
        found = play(roles, facts)[1].decisions
        assert found == decisions or found[:-1] == decisions, (roles, facts, found)
    for roles, facts, used in USES:
        assert used_by(play(roles, facts)[0]) == used, (roles, facts)
    print(f"played {len(HISTORIES)} histories")


if __name__ == "__main__":
    main()
