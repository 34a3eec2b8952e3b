"""The record implies the end of an app whose holder died before it recorded one."""

from typing import Any

import pytest

from launcher.holding.events import restart, stop_for_restart, stopping
from launcher.holding.hold import implied_end
from tests.holding.histories import created, fact


def implied(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    return implied_end({"t": 10**9, **event} for event in events)


NONE = None
SUCCEEDED = ("succeeded", 0, "")


def event_of(text: str) -> dict[str, Any]:
    """Return an event: a fact of `histories`, or a decision of the dead holder.

    Restarts are `replica a/0 2`, the second one, `role a/0 1` and `app a/0 1`; stops are `stop failed`, and
    `stop` for a restart.
    """
    kind, _, rest = text.partition(" ")
    if kind == "stop":
        return stopping("peer", rest, "m", code=7) if rest else stop_for_restart("a/0")
    if kind in ("replica", "role", "app"):
        where, number = rest.split()
        return restart(kind, where[0], int(where[2]), int(number), 0)
    return fact(text)


def events(roles: str, history: str) -> list[dict[str, Any]]:
    return [created(roles), *map(event_of, filter(None, history.split("; ")))]


BEFORE = "s/0; a/0; b/0; a/0=0; b/0=3; app b/0 1"


@pytest.mark.parametrize(("roles", "history", "found"), [
    ("a", "", NONE), ("a", "a/0", NONE), ("a", "a/0; a/0=0", SUCCEEDED),
    ("a", "a/0; a/0=3", ("failed", 3, "a/0 exited with 3")),
    ("a", "a/0; a/0 late; a/0=0", ("failed", 0, "a/0 was not ready after 60 s")),
    ("a~0A b~0A", "a/0; b/0; a/0=0", NONE),
    ("a~0A b~0A", "a/0; b/0; a/0=0; b/0=0", SUCCEEDED),
    ("a~0A b~0A", "a/0; a/0=0", NONE),  # b was never started
    ("a~0A b~0A", "a/0; b/0; b/0=4; a/0=3", ("failed", 4, "b/0 exited with 4")),  # the first one counts
    # A stop that had begun is the outcome, unless it was for a restart.
    ("a~0A b~0A", "a/0; b/0; a/0=3; stop failed", ("failed", 7, "m")),
    ("a~0A b~0A", "a/0; b/0; stop cancelled; a/0=0; b/0=0", ("cancelled", 7, "m")),
    ("a~1A b~1A", "a/0; b/0; a/0=3; stop; b/0=0", NONE),
    ("a~1A b~1A", "a/0; b/0; a/0=3; stop; b/0=0; app a/0 1; a/0; b/0; a/0=0; b/0=0", SUCCEEDED),
    # A restarted replica has not ended.
    ("a~2", "a/0; a/0=3", NONE),
    ("a~2", "a/0; a/0=3; replica a/0 1", NONE),
    ("a", "a/0; a/0=3; a/0", NONE),  # the line of its restart was lost
    ("a~2", "a/0; a/0=3; replica a/0 1; a/0", NONE),
    ("a~2", "a/0; a/0=3; replica a/0 1; a/0; a/0=0", SUCCEEDED),
    ("a~2", "a/0; a/0=3; replica a/0 1; a/0; a/0=3", NONE),
    ("a~2", "a/0; a/0=3; replica a/0 2; a/0; a/0=4", ("failed", 4, "a/0 exited with 4")),
    # A role is restarted as a whole, by the failures of all of its replicas.
    ("a*2~1R b~0R", "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0", NONE),
    ("a*2~1R b~0R", "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1", NONE),
    ("a*2~1R b~0R", "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0", NONE),
    ("a*2~1R b~0R", "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0; a/1=0", SUCCEEDED),
    ("a*2~1R b~0R", "a/0; a/1; b/0; b/0=0; a/0=3; a/1=0; role a/0 1; a/0; a/1; a/0=0; a/1=5",
        ("failed", 5, "a/1 exited with 5")),
    ("a*2~1R b~0R", "a/0; a/1; b/0; a/0=3; a/1=4; b/0=5", ("failed", 5, "b/0 exited with 5")),
    # The whole app is restarted, whatever else has failed.
    ("a~1A b~1A c", "a/0; b/0; c/0; a/0=3; c/0=4; b/0=0", NONE),
    ("a~1A b~1A c", "a/0; b/0; c/0; c/0=4; a/0=3; b/0=0", ("failed", 4, "c/0 exited with 4")),
    ("a~1A b~1A", "a/0; b/0; a/0=3; b/0=0; app a/0 1; a/0; b/0; b/0=6; a/0=0",
        ("failed", 6, "b/0 exited with 6")),
    # With services the app has succeeded when all others have.
    ("s.s a<s:started", "s/0; a/0; a/0=0", SUCCEEDED),
    ("s.s a<s:started", "s/0; a/0; a/0=-0", NONE),
    ("s.s a<s:started", "s/0; a/0; a/0 late; a/0=0", ("failed", 0, "a/0 was not ready after 60 s")),
    ("s.s a<s:started", "s/0; a/0; s/0=0", NONE),
    ("s.s a<s:started", "s/0; a/0; s/0=3; a/0=0", SUCCEEDED),
    ("s.s a.s", "s/0; a/0; s/0=0", NONE),
    # A success of before the restart of the app counts no longer.
    ("s.s~1A a~1A<s:started b~1A", f"{BEFORE}; b/0; b/0=0", NONE),
    ("s.s~1A a~1A<s:started b~1A", f"{BEFORE}; s/0; a/0; b/0; b/0=0", NONE),
    ("s.s~1A a~1A<s:started b~1A", f"{BEFORE}; s/0; a/0; b/0; b/0=0; a/0=0", SUCCEEDED),
])  # fmt: skip
def test_the_record_of_a_dead_supervisor_implies_the_outcome_of_its_app(roles, history, found):
    outcome = implied(events(roles, history))
    assert (outcome and (outcome["state"], outcome["code"], outcome["message"])) == found


def test_a_record_of_the_first_version_names_no_policies():
    made = events("a", "a/0; a/0=3")
    del made[0]["retries"]
    del made[0]["order"]
    assert implied(made) is None
    succeeded = implied([*made[:2], {"e": "exit", "role": "a", "k": 0, "code": 0, "signal": 0}])
    assert succeeded["state"] == "succeeded"


def test_a_time_limit_that_passed_after_the_last_event_is_no_end():
    made = events("a", "a/0")
    made[0]["timeout"] = 0.5
    assert implied([*made, {"e": "starting"}]) is None
