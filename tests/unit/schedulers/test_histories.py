"""Histories of an app, event by event, and what follows from each: which roles may start, how it ended.

Each row is data: roles, events, answer. Nothing of it depends on how the answer is computed.
"""

from __future__ import annotations

from typing import Any

import pytest

from launcher.schedulers.local.implied import implied
from launcher.schedulers.order import (
    Order,
    from_list,
    has_order,
    made_by_others,
    pause_s,
    to_list,
    waits_for,
)

SERVER = {"server": {"service": True, "ready": {"port": 80}}}
CLIENT = {"client": {"depends_on": {"server": "ready"}}}
AFTER = {"server": {"depends_on": {"data": "succeeded"}}, **CLIENT}


def progress(counts: dict[str, int], rules: dict[str, Any], history: str) -> Order:
    """`+a` starts the roles that may, `a/0 ready` reaches a condition, `a/0 again` restarts a replica."""
    order = Order(counts, rules)
    for event in filter(None, history.split("; ")):
        where, _, word = event.partition(" ")
        role, _, k = where.partition("/")
        if event == "release":
            for each in order.release():
                for number in range(counts[each]):
                    order.reach(each, number, "started")
        elif event == "begin":
            order.begin()
        elif word == "again":
            order.restart(role, int(k))
        else:
            order.reach(role, int(k), word)
    return order


TWO = {"server": 2, "client": 1}


@pytest.mark.parametrize(
    ("counts", "rules", "history", "waiting", "may_start"),
    [
        (TWO, {}, "", ["server", "client"], ["server", "client"]),
        (TWO, {}, "release", [], []),
        (TWO, CLIENT, "release", ["client"], []),
        (TWO, CLIENT, "release; server/0 ready", ["client"], []),
        (TWO, CLIENT, "release; server/0 ready; server/0 ready", ["client"], []),
        (TWO, CLIENT, "release; server/0 ready; server/1 ready", ["client"], ["client"]),
        # A replica that is started again has to become ready again.
        (TWO, CLIENT, "release; server/0 ready; server/0 again; server/1 ready", ["client"], []),
        (TWO, CLIENT, "release; server/0 ready; server/1 again; server/1 ready", ["client"], ["client"]),
        # Its success does not count either, but that it was started does.
        (
            {"data": 1, "server": 1, "client": 1},
            AFTER,
            "release; data/0 succeeded; data/0 again",
            ["server", "client"],
            [],
        ),
        (
            {"data": 1, "server": 1},
            {"server": {"depends_on": {"data": "started"}}},
            "release; data/0 again",
            ["server"],
            ["server"],
        ),
        # All are started anew: nothing of before counts.
        (TWO, CLIENT, "release; server/0 ready; server/1 ready; begin", ["server", "client"], ["server"]),
        # Roles start in the order of the app.
        ({"b": 1, "a": 1, "c": 1}, {"a": {"depends_on": {"c": "ready"}}}, "", ["b", "a", "c"], ["b", "c"]),
    ],
)
def test_which_roles_wait_and_which_may_start(counts, rules, history, waiting, may_start):
    order = progress(counts, rules, history)
    assert order.waiting == waiting
    assert order.release() == may_start
    assert order.waiting == [role for role in waiting if role not in may_start]


@pytest.mark.parametrize(
    ("counts", "rules", "history", "is_done"),
    [
        (TWO, {}, "release", False),
        (TWO, {}, "release; server/0 succeeded; server/1 succeeded", False),
        (TWO, {}, "release; server/0 succeeded; server/1 succeeded; client/0 succeeded", True),
        (
            TWO,
            {},
            "release; server/0 succeeded; server/1 succeeded; client/0 succeeded; server/1 again",
            False,
        ),
        (TWO, {**SERVER, **CLIENT}, "release; client/0 succeeded", True),
        (TWO, {**SERVER, **CLIENT}, "release; server/0 succeeded; server/1 succeeded", False),
    ],
)
def test_an_app_is_done_when_all_but_its_services_have_succeeded(counts, rules, history, is_done):
    assert progress(counts, rules, history).is_done() is is_done


@pytest.mark.parametrize(
    ("history", "ended", "stuck"),
    [
        ("release", ("server", 0), "client"),
        ("release; server/1 ready", ("server", 0), "client"),
        # It was ready before it ended: the role that waits for it waits for the others.
        ("release; server/0 ready", ("server", 0), ""),
        ("release; server/0 ready; server/0 again", ("server", 0), "client"),
        ("release; server/0 ready; server/1 ready; release", ("server", 0), ""),
        ("release", ("client", 0), ""),
    ],
)
def test_which_role_is_stuck_behind_a_replica_that_has_ended(history, ended, stuck):
    assert progress(TWO, {**SERVER, **CLIENT}, history).stuck_behind(*ended) == stuck


def test_a_role_that_waits_for_another_condition_is_not_stuck():
    rules = {"client": {"depends_on": {"server": "succeeded"}}}
    assert progress(TWO, rules, "release").stuck_behind("server", 0) == ""


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({}, False),
        ({"retry_delay": 3}, False),
        ({"service": True}, True),
        ({"ready": {"port": 80}}, True),
        ({"depends_on": {"server": "ready"}}, True),
    ],
)
def test_whether_an_app_has_an_order(rule, found):
    assert has_order({"client": rule, "other": {}}) is found
    assert has_order({"other": {}, "client": rule}) is found


def test_rules_survive_their_list_but_for_probes():
    rules = {**SERVER, **CLIENT}
    assert from_list(to_list(rules)) == {
        "server": {"service": True, "depends_on": {}},
        "client": {"service": False, "depends_on": {"server": "ready"}},
    }


def test_the_roles_that_another_one_may_make():
    rules = {
        "client": {"depends_on": {"server": "ready"}},
        "server": {"depends_on": {"data": "succeeded"}},
        "beside": {"depends_on": {"data": "started"}},
        "data": {},
    }
    assert made_by_others(rules) == {"server", "client"}


def test_a_phrase_says_what_a_role_waits_for():
    missing = [("server", "ready"), ("data", "succeeded")]
    assert waits_for(missing) == "waiting for server (ready), data (succeeded)"


@pytest.mark.parametrize(
    ("first_s", "count", "found"),
    [
        (0, 1, 0),
        (2, 1, 2),
        (2, 2, 4),
        (2, 3, 8),
        (2, 8, 256),
        (2, 9, 300),
        (1, 999, 300),
    ],
)
def test_the_pause_before_a_restart_doubles(first_s, count, found):
    assert pause_s(first_s, count) == found


# How an app ended whose supervisor died

NONE = None
SUCCEEDED = ("succeeded", 0, "")


def events(
    roles: dict[str, tuple[int, int, str]], rules: dict[str, Any], history: str
) -> list[dict[str, Any]]:
    """The record of a supervisor.

    roles: name → number of replicas, max_retries, policy.
    history: `a/0` starts, `a/0=3` ends with 3, `a/0=!` was not ready in time, `a/0=-` was stopped.
    `replica a/0 2` is restart 2 of it, `role a/0 1`, `app a/0 1`; `stop failed`, or `stop` for a restart.
    """
    made: list[dict[str, Any]] = [
        {
            "e": "created",
            "roles": [(name, count) for name, (count, _, _) in roles.items()],
            "retries": [(most, policy) for _, most, policy in roles.values()],
            "order": to_list(rules),
        }
    ]
    for event in filter(None, history.split("; ")):
        words = event.split()
        if words[0] == "stop":
            state = words[1] if words[1:] else None
            made.append({"e": "stopping", "state": state, "message": "m", "code": 7})
        elif words[0] in ("replica", "role", "app"):
            role, k = words[1].split("/")
            made.append({"e": "restart", "scope": words[0], "role": role, "k": int(k), "n": int(words[2])})
        else:
            where, _, end = event.partition("=")
            role, k = where.split("/")
            about: dict[str, Any] = {"role": role, "k": int(k)}
            late = {"late": "not ready after 60 s"} if end == "!" else {}
            stopped = {"stopped": "m"} if end == "-" else {}
            code = int(end) if end.isdigit() else 0
            ended = {"e": "exit", **about, "code": code, "signal": 0, **late, **stopped}
            made.append(ended if end else {"e": "spawn", **about})
    return made


ONE = {"a": (1, 0, "REPLICA")}
RETRIED = {"a": (1, 2, "REPLICA")}
PAIR = {"a": (1, 0, "APPLICATION"), "b": (1, 0, "APPLICATION")}
AGAIN = {"a": (1, 1, "APPLICATION"), "b": (1, 1, "APPLICATION")}
MIXED = {**AGAIN, "c": (1, 0, "REPLICA")}
TEAM = {"a": (2, 1, "ROLE"), "b": (1, 0, "ROLE")}
SERVED = {"s": {"service": True}, "a": {"depends_on": {"s": "started"}}}
WITH_SERVICE = {"s": (1, 0, "REPLICA"), "a": (1, 0, "REPLICA")}
BEFORE = "s/0; a/0; b/0; a/0=0; b/0=3; app b/0 1"
TWO_SERVED = {"s": (1, 1, "APPLICATION"), "a": (1, 1, "APPLICATION"), "b": (1, 1, "APPLICATION")}


@pytest.mark.parametrize(
    ("roles", "rules", "history", "found"),
    [
        (ONE, {}, "", NONE),
        (ONE, {}, "a/0", NONE),
        (ONE, {}, "a/0; a/0=0", SUCCEEDED),
        (ONE, {}, "a/0; a/0=3", ("failed", 3, "a/0 exited with 3")),
        (ONE, {}, "a/0; a/0=!", ("failed", 0, "a/0 was not ready after 60 s")),
        (PAIR, {}, "a/0; b/0; a/0=0", NONE),
        (PAIR, {}, "a/0; b/0; a/0=0; b/0=0", SUCCEEDED),
        (PAIR, {}, "a/0; a/0=0", NONE),  # b was never started
        (PAIR, {}, "a/0; b/0; b/0=4; a/0=3", ("failed", 4, "b/0 exited with 4")),  # the first one counts
        # A stop that had begun is the outcome, unless it was for a restart.
        (PAIR, {}, "a/0; b/0; a/0=3; stop failed", ("failed", 7, "m")),
        (PAIR, {}, "a/0; b/0; stop cancelled; a/0=0; b/0=0", ("cancelled", 7, "m")),
        (AGAIN, {}, "a/0; b/0; a/0=3; stop; b/0=0", NONE),
        (AGAIN, {}, "a/0; b/0; a/0=3; stop; b/0=0; app a/0 1; a/0; b/0; a/0=0; b/0=0", SUCCEEDED),
        # A restarted replica has not ended.
        (RETRIED, {}, "a/0; a/0=3", NONE),
        (RETRIED, {}, "a/0; a/0=3; replica a/0 1", NONE),
        (ONE, {}, "a/0; a/0=3; a/0", NONE),  # the line of its restart was lost
        (RETRIED, {}, "a/0; a/0=3; replica a/0 1; a/0", NONE),
        (RETRIED, {}, "a/0; a/0=3; replica a/0 1; a/0; a/0=0", SUCCEEDED),
        (RETRIED, {}, "a/0; a/0=3; replica a/0 1; a/0; a/0=3", NONE),
        (RETRIED, {}, "a/0; a/0=3; replica a/0 2; a/0; a/0=4", ("failed", 4, "a/0 exited with 4")),
        # A role is restarted as a whole, by the failures of all of its replicas.
        (TEAM, {}, "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0", NONE),
        (TEAM, {}, "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1", NONE),
        (TEAM, {}, "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0", NONE),
        (TEAM, {}, "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0; a/1=0", SUCCEEDED),
        (
            TEAM,
            {},
            "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0; a/1=5",
            ("failed", 5, "a/1 exited with 5"),
        ),
        (TEAM, {}, "a/0; a/1; b/0; a/0=3; a/1=4; b/0=5", ("failed", 5, "b/0 exited with 5")),
        # The whole app is restarted, whatever else has failed.
        (MIXED, {}, "a/0; b/0; c/0; a/0=3; c/0=4; b/0=0", NONE),
        (MIXED, {}, "a/0; b/0; c/0; c/0=4; a/0=3; b/0=0", ("failed", 4, "c/0 exited with 4")),
        (
            AGAIN,
            {},
            "a/0; b/0; a/0=3; b/0=0; app a/0 1; a/0; b/0; b/0=6; a/0=0",
            ("failed", 6, "b/0 exited with 6"),
        ),
        # With services the app has succeeded when all others have.
        (WITH_SERVICE, SERVED, "s/0; a/0; a/0=0", SUCCEEDED),
        (WITH_SERVICE, SERVED, "s/0; a/0; a/0=-", NONE),
        (WITH_SERVICE, SERVED, "s/0; a/0; a/0=!", NONE),
        (WITH_SERVICE, SERVED, "s/0; a/0; s/0=0", NONE),
        (WITH_SERVICE, SERVED, "s/0; a/0; s/0=3; a/0=0", SUCCEEDED),
        (WITH_SERVICE, {"s": {"service": True}, "a": {"service": True}}, "s/0; a/0; s/0=0", NONE),
        # A success of before the restart of the app counts no longer.
        (TWO_SERVED, SERVED, f"{BEFORE}; b/0; b/0=0", NONE),
        (TWO_SERVED, SERVED, f"{BEFORE}; s/0; a/0; b/0; b/0=0", NONE),
        (TWO_SERVED, SERVED, f"{BEFORE}; s/0; a/0; b/0; b/0=0; a/0=0", SUCCEEDED),
    ],
)
def test_the_outcome_that_the_record_of_a_dead_supervisor_implies(roles, rules, history, found):
    outcome = implied(events(roles, rules, history))
    assert (outcome and (outcome.state, outcome.code, outcome.message)) == found


def test_a_record_of_the_first_version_names_no_policies():
    made = events(ONE, {}, "a/0; a/0=3")
    del made[0]["retries"]
    del made[0]["order"]
    assert implied(made) is None
    assert (
        implied([*made[:2], {"e": "exit", "role": "a", "k": 0, "code": 0, "signal": 0}]).state == "succeeded"
    )


@pytest.mark.parametrize(
    ("oom", "message"),
    [
        (True, "a/0 was killed by signal 9; the machine was out of memory"),
        (False, "a/0 was killed by signal 9"),
    ],
)
def test_a_replica_that_a_signal_killed(oom, message):
    made = events(ONE, {}, "a/0; a/0=0")
    made[-1].update(code=137, signal=9, oom=oom)
    assert implied(made).message == message


def test_the_last_line_of_the_replica_that_failed_is_said():
    history = events(ONE, {}, "a/0; a/0=3")
    history[-1]["said"] = "no such file"
    found = implied(history)
    assert found is not None
    assert found.message == "a/0 exited with 3: no such file"
