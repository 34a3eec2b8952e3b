"""The restarts of an app, from the journal of its watcher: rows of events, and the lines about restarts."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from launcher.schedulers.docker import record
from launcher.schedulers.docker.app_logs import DockerLogs
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.restarts import Restart, RestartNotes

RETRIES = {"a": [2, "REPLICA"], "b": [1, "ROLE"]}


def journal(history: str, retries: dict[str, Any] = RETRIES) -> str:
    """Record an app whose watcher has exited; return its id.

    history: `a/0=3` ends with 3, `a/0=!` is not ready in time, `REPLICA a/0` is a restart, `ROLE b/0 b/1` one
    of several replicas, `end` the end of the app; anything else is a line as it is.
    """
    folder = record.folder("app")
    os.makedirs(folder)
    record.write_attempt(folder, {"labels": {"launcher.retries": json.dumps(retries)}})
    lines = []
    for number, event in enumerate(history.split("; ")):
        words, at = event.split(), 10.0 + number
        where, _, end = words[0].partition("=")
        role, _, k = where.partition("/")
        if words[0] in ("REPLICA", "ROLE", "APPLICATION"):
            again = [[each.split("/")[0], int(each.split("/")[1])] for each in words[1:]]
            about = {"e": "restart", "role": again[0][0], "policy": words[0], "again": again}
            was = {f"{name}-{each}": None for name, each in again}
            lines.append(json.dumps({**about, "was": was, "t": at, "delay_s": 5}))
        elif event == "end":
            lines.append(json.dumps({"e": "end", "t": at, "state": "failed"}))
        elif end == "!":
            late = {"e": "late", "role": role, "k": int(k), "id": f"{role}-{k}", "why": "not ready"}
            lines.append(json.dumps({**late, "t": at}))
        elif end:
            lines.append(json.dumps({"e": "exit", "role": role, "k": int(k), "code": int(end), "t": at}))
        else:
            lines.append(event)
    with open(os.path.join(folder, "journal.jsonl"), "w") as file:
        file.write("".join(line + "\n" for line in lines))
    return "app"


def _logs(app_id: str) -> DockerLogs:
    return DockerLogs(connect(readonly=True, environ={"DOCKER_HOST": "unix:///nowhere"}), app_id)


def restarts(app_id: str) -> Iterator[Restart]:
    return _logs(app_id).restarts()


@pytest.mark.parametrize(("history", "lines"), [
    ("a/0=3; end", []),
    ("a/0=3; REPLICA a/0; end", ["a/0 exited with 3; restart 1 of 2 in 5 s"]),
    ("a/0=3; REPLICA a/0; a/0=4; REPLICA a/0; end",
        ["a/0 exited with 3; restart 1 of 2 in 5 s", "a/0 exited with 4; restart 2 of 2 in 5 s"]),
    # Each replica has restarts of its own, a role has them for all of its replicas.
    ("a/0=3; REPLICA a/0; a/1=4; REPLICA a/1; end",
        ["a/0 exited with 3; restart 1 of 2 in 5 s", "a/1 exited with 4; restart 1 of 2 in 5 s"]),
    ("b/1=0; b/0=3; ROLE b/0 b/1; b/1=4; b/0=137; ROLE b/0 b/1; end",
        ["b/0 exited with 3; restart 1 of 1 in 5 s", "b/1 exited with 4; restart 2 of 1 in 5 s"]),
    ("a/0=!; a/0=0; REPLICA a/0; end", ["a/0 was not ready; restart 1 of 2 in 5 s"]),
    # Of several ends of one replica the last one counts, and the replica that ended first is the cause.
    ("b/0=3; b/1=4; b/0=5; ROLE b/0 b/1; end", ["b/1 exited with 4; restart 1 of 1 in 5 s"]),
    ("ROLE b/1 b/0; end", ["b/1 exited; restart 1 of 1 in 5 s"]),
    # What was before the restart is not the cause of the next one.
    ("b/0=!; b/0=3; ROLE b/0 b/1; b/1=4; ROLE b/0 b/1; end",
        ["b/0 was not ready; restart 1 of 1 in 5 s", "b/1 exited with 4; restart 2 of 1 in 5 s"]),
    # A line that was torn, or that a later version wrote, is passed over.
    ('{"e": "res; a/0=3; {"e": "restart"}; REPLICA a/0; end', ["a/0 exited with 3; restart 1 of 2 in 5 s"]),
    ("a/0=3; end; REPLICA a/0", ["a/0 exited with 3; restart 1 of 2 in 5 s"]),
])  # fmt: skip
def test_each_restart_has_a_line_with_cause_number_and_pause(launcher_home, history, lines):
    assert [str(restart) for restart in restarts(journal(history))] == lines


def test_restarts_are_reported_from_a_time_on_for_the_replicas_that_are_followed(launcher_home):
    app = journal("a/0=3; REPLICA a/0; a/1=4; REPLICA a/1; b/0=5; ROLE b/0 b/1; end")

    def reported(names, since=None, *, of_cause=False):
        found: list[Restart] = []
        notes = RestartNotes(_logs(app).restart_reader(), found.append, names, since, of_cause=of_cause)
        notes.flush(notes.look())
        return [f"{each.role}/{each.k}" for each in found]

    assert reported([("a", 0), ("a", 1)]) == ["a/0", "a/1"]
    assert reported([("a", 0), ("a", 1)], 12.0) == ["a/1"]
    assert reported([("b", 1)]) == ["b/0"]
    assert reported([("b", 1)], of_cause=True) == []


def test_restarts_are_read_where_one_role_may_be_restarted(launcher_home):
    retries = {"a": [1, "REPLICA"], "b": [0, "ROLE"]}
    assert len([*restarts(journal("a/0=3; REPLICA a/0; end", retries))]) == 1


def test_a_restart_says_when_it_was_and_what_starts_again(launcher_home):
    [restart] = restarts(journal("b/0=3; ROLE b/0 b/1; end"))
    assert (restart.at, restart.scope, restart.policy, restart.role) == (11.0, "role", "ROLE", "b")


def test_an_app_that_restarts_nothing_is_not_read(launcher_home):
    assert [*restarts(journal("a/0=3; REPLICA a/0; end", {"a": [0, "REPLICA"]}))] == []
    assert [*restarts("unknown")] == []
