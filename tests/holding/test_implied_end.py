"""The record implies the end of an app whose holder died before it recorded one."""

from typing import Any

import pytest

from launcher.holding.events import stop_for_restart, stopping
from launcher.holding.hold import implied_end


def implied(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    return implied_end({"t": 10**9, **event} for event in events)


NONE = None
SUCCEEDED = ("succeeded", 0, "")


def events(
    roles: dict[str, tuple[int, int, str]], rules: dict[str, Any], history: str
) -> list[dict[str, Any]]:
    """Return the record of a supervisor.

    roles: name → number of replicas, max_retries, policy.
    history: `a/0` starts, `a/0=3` ends with 3, `a/0=!` was not ready in time, `a/0=-` was stopped.
    `replica a/0 2` is restart 2 of it, `role a/0 1`, `app a/0 1`; `stop failed`, or `stop` for a restart.
    """
    made: list[dict[str, Any]] = [
        {
            "e": "created",
            "roles": [(name, count) for name, (count, _, _) in roles.items()],
            "retries": [(most, policy) for _, most, policy in roles.values()],
            "order": [
                [role, bool(rule.get("service")), [list(each) for each in rule.get("depends_on", {}).items()]]
                for role, rule in rules.items()
            ],
        }
    ]
    for event in filter(None, history.split("; ")):
        words = event.split()
        if words[0] == "stop":
            made.append(stopping("peer", words[1], "m", code=7) if words[1:] else stop_for_restart("a/0"))
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
        (WITH_SERVICE, SERVED, "s/0; a/0; a/0=!", ("failed", 0, "a/0 was not ready after 60 s")),
        (WITH_SERVICE, SERVED, "s/0; a/0; s/0=0", NONE),
        (WITH_SERVICE, SERVED, "s/0; a/0; s/0=3; a/0=0", SUCCEEDED),
        (WITH_SERVICE, {"s": {"service": True}, "a": {"service": True}}, "s/0; a/0; s/0=0", NONE),
        # A success of before the restart of the app counts no longer.
        (TWO_SERVED, SERVED, f"{BEFORE}; b/0; b/0=0", NONE),
        (TWO_SERVED, SERVED, f"{BEFORE}; s/0; a/0; b/0; b/0=0", NONE),
        (TWO_SERVED, SERVED, f"{BEFORE}; s/0; a/0; b/0; b/0=0; a/0=0", SUCCEEDED),
    ],
)
def test_the_record_of_a_dead_supervisor_implies_the_outcome_of_its_app(roles, rules, history, found):
    outcome = implied(events(roles, rules, history))
    assert (outcome and (outcome["state"], outcome["code"], outcome["message"])) == found


def test_a_record_of_the_first_version_names_no_policies():
    made = events(ONE, {}, "a/0; a/0=3")
    del made[0]["retries"]
    del made[0]["order"]
    assert implied(made) is None
    succeeded = implied([*made[:2], {"e": "exit", "role": "a", "k": 0, "code": 0, "signal": 0}])
    assert succeeded["state"] == "succeeded"


def test_a_time_limit_that_passed_after_the_last_event_is_no_end():
    made = events(ONE, {}, "a/0")
    made[0]["timeout"] = 0.5
    assert implied([*made, {"e": "starting"}]) is None
