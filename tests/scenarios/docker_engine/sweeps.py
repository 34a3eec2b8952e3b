"""Sweeps over the acts of a client or of a watcher, which dies at one of them, and the rests of its app."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from launcher.errors import ReservedError
from launcher.specs.attempt import Attempt, StoodOn, needs_to_json
from launcher.turns.line import Ask
from tests.contract.conftest import DockerCase
from tests.engines.docker import Daemon, Thing
from tests.lanes import EVERY_ACT, thinned
from tests.waiting import until

ACTS = """
import os, sys
from launcher.schedulers.docker import record
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.watching.client import WatcherClient
from launcher.turns.table import Place
at, seen = {at}, []
def did(act):
    seen.append(act)
    if len(seen) == at:
        os.kill(os.getpid(), 9)
def around(owner, name):
    real = getattr(owner, name)
    def call(*args, **how):
        if {begun}:
            did(name)
        made = real(*args, **how)
        did(name)
        return made
    setattr(owner, name, call)
for name in "create remove create_volume remove_volume put_archive start".split():
    around(Engine, name)
around(record, "append")
around(record, "write_attempt")
for name in "look leave release".split():
    around(Place, name)
"""
"""Python text: this process dies at its act number `at`; each act counts when done, and when `begun`."""

PARTS = 2
"""A sweep over acts has so many parts: few enough that each meets every state. CI tries one of them."""

CLIENT = """
import json, sys
from launcher.schedulers import get_scheduler
from launcher.specs.attempt import Attempt, needs_from_json
from launcher.specs.canonical import app_from_document
attempt, needs, ask = map(json.loads, sys.argv[1:])
attempt = Attempt.from_json(attempt)
staged = get_scheduler("local_docker", "x")
reservation = staged.reserve(attempt)
reservation.waits_for = needs_from_json(needs)
if ask:
    from launcher.turns.line import Ask
    reservation.turn = Ask.from_dict(ask)
staged.create(reservation, app_from_document(attempt.document, "train", {}), {})
staged.start(reservation)
"""
"""Python text of a client that submits an attempt."""


def dying(at: int) -> str:
    """Python text that a process runs first, to die at its act number `at`.

    Where EVERY_ACT also before each act, though the act before it left the same."""
    return ACTS.format(at=at, begun=EVERY_ACT)


def swept(part: int) -> Iterator[int]:
    """Return the numbers of the acts of a part, without end: a sweep ends with the process that lives."""
    return count(part + 1, PARTS)


def in_parts(first: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("part", thinned(range(PARTS), first=first, every=PARTS))


def client(
    attempt: Attempt, *, needs: Iterable[StoodOn] = (), ask: Ask | None = None, at: int | None = None
) -> list[str]:
    """Return the command of a client that submits an attempt, and dies at its act number `at`.

    One that survives that prints the number of its acts.
    """
    program = CLIENT
    if at is not None:
        program = f'{dying(at)}\naround(WatcherClient, "_send")\n{CLIENT}\nprint(len(seen))'
    given = attempt.to_json(), needs_to_json(needs), None if ask is None else ask.to_dict()
    return [sys.executable, "-c", program, *map(json.dumps, given)]


def killed_client(attempt: Attempt, at: int, **asked: Any) -> int:
    """Submit an attempt in a process that dies at this act; return the acts of one that survived."""
    done = subprocess.run(client(attempt, at=at, **asked), check=False, stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, -9)
    return int(done.stdout or 0)


def state_of(case: DockerCase, attempt: Attempt) -> str:
    staged: Any = case.scheduler
    found = staged.attempt(attempt.app_id)
    return "none" if found is None else found.state


def settle(case: DockerCase, attempt: Attempt, submit: Callable[[], object]) -> None:
    """Do as apply until the attempt is accepted: wait for live owners, resume an attempt without one.

    Args:
        submit: submits the attempt again; it may find that another process has reserved it meanwhile.
    """
    staged: Any = case.scheduler

    def is_accepted() -> bool:
        found = staged.attempt(attempt.app_id)
        is_rest = found is not None and found.state == "running" and found.unstarted
        if found is not None and not (is_rest or found.state in ("reserved", "created", "waiting", "queued")):
            return True
        if found is not None and found.owner:
            return found.state in ("waiting", "queued")
        with suppress(ReservedError):
            submit()
        return False

    until(is_accepted)


def containers(attempt: Attempt) -> list[Thing]:
    return [one for one in Daemon().containers() if one.labels.get("launcher.app-id") == attempt.app_id]


def traces(app_id: str) -> list[str]:
    """Return a text for each object of an app on the engine."""
    return [str(one) for one in Daemon().everything() if one.labels.get("launcher.app-id") == app_id]


def rests(case: DockerCase) -> list[str]:
    """Return volumes that only a decision or a submission leaves, and containers that never ran."""
    own = [one for one in Daemon().everything() if case.session in json.dumps(dict(one.labels))]
    decided = [str(one) for one in own if "launcher.turn" in one.labels]
    return [*decided, *(str(one) for one in own if one.kind == "container" and one.state == "created")]
