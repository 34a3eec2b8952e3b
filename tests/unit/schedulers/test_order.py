"""Histories of an app, event by event, and which roles may start after each.

Each row is data: roles, events, answer. Nothing of it depends on how the answer is computed.
"""

from __future__ import annotations

from typing import Any

import pytest

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
