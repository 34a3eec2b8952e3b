"""Outcomes of jobs, and decisions about waiting attempts, stored at the engine as labels of empty volumes.

A tombstone is one volume per attempt, with its outcome.

Clients with other state folders have no journal and no ledger row of an attempt: its containers alone show
neither its first start nor why it ended. Once `launcher gc` or `docker rm` has removed its containers, only
this volume keeps these clients from running it again. The volume is written before the end is journalled, and
removed when both the containers are gone and a later attempt of the job has ended; a skipped attempt replaces
only another skipped one. It has no label `launcher.app-id`, so that it does not count as a part of the app.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress

from launcher.dataclass import dataclass, replace
from launcher.holding import use
from launcher.schedulers.docker.client.errors import EngineRefused
from launcher.schedulers.docker.journal import Outcome
from launcher.schedulers.docker.labels import APP_ID, PREFIX, TOMBSTONE, TURN, Labels
from launcher.schedulers.owner import from_json, this_process
from launcher.specs.attempt import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from launcher.holding.use import Use
    from launcher.schedulers.docker.client.engine import Engine
    from launcher.schedulers.docker.client.objects import Container, Labelled
    from launcher.schedulers.docker.client.view import EngineView
    from launcher.schedulers.docker.status import DockerAppView
    from launcher.specs.attempt import Attempt

_LEFT_OUT = (
    "app-id",
    "holder",
    "images",
    "owner",
    "part",
    "replica",
    "retries",
    "role",
    "waits-for",
    "watcher",
)
_KEY = ("project", "target", "job")


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The outcome of one attempt, as the labels of a volume keep it.

    Attributes:
        volume: its name.
        labels: the labels of the attempt's containers that matter after its end.
    """

    volume: str
    labels: Labels
    outcome: Outcome
    started_at: float | None

    @property
    def app_id(self) -> str:
        return self.labels.app_id

    @property
    def number(self) -> int:
        return self.labels.attempt_number

    @property
    def is_skipped(self) -> bool:
        """Whether nothing of the attempt has run: then the outcome of the attempt before it still counts."""
        return self.outcome.state == "skipped"

    @property
    def used(self) -> dict[str, Use]:
        """See `Attempt`; {} for a label that another program wrote."""
        with suppress(ValueError):
            return use.from_json(json.loads(self.labels.text("used") or "{}"))
        return {}

    def attempt(self) -> Attempt | None:
        found = self.labels.attempt
        return found and replace(found, **self.outcome._asdict(), started_at=self.started_at, used=self.used)


def name_of(app_id: str) -> str:
    """The name of an attempt's volume. App ids are made of job key and number, and have no dot."""
    return f"{app_id}.ended"


def body(labels: Mapping[str, str], view: DockerAppView) -> dict[str, str]:
    """The labels of the volume, from the labels of an attempt's containers and its outcome."""
    outcome: dict[str, Any] = {
        "outcome": view.state,
        "message": view.message,
        "exit-code": view.exit_code,
        "drift": view.drift,
        "inputs-changed": view.inputs_changed,
        "started-at": view.started_at,
        "ended-at": view.ended_at,
        "used": json.dumps(use.to_json(view.used)) if view.used else "",
        "output-digest": view.output_digest,
        "image-ids": json.dumps(view.images, sort_keys=True) if view.images else "",
    }
    ours = {name: text for name, text in labels.items() if name.startswith(PREFIX)}
    return {
        **{name: text for name, text in ours.items() if name.removeprefix(PREFIX) not in _LEFT_OUT},
        **{PREFIX + name: str(value) for name, value in outcome.items() if value not in (None, "")},
        TOMBSTONE: labels.get(APP_ID, ""),
    }


def parse(volume: Labelled) -> Tombstone | None:
    """The outcome in a volume's labels; None without one: other programs may set labels, too."""
    app_id, state = volume.labels.get(TOMBSTONE, ""), volume.labels.get(PREFIX + "outcome", "")
    if not app_id or state not in ENDED_STATES:
        return None
    labels = Labels({**volume.labels, APP_ID: app_id})
    code = labels.number("exit-code", None)
    outcome = Outcome(
        state,  # type: ignore[arg-type]  # one of ENDED_STATES
        labels.text("message"),
        None if code is None else int(code),
        labels.text("drift"),
        labels.text("inputs-changed"),
        labels.number("ended-at", None),
    )
    return Tombstone(volume.name, labels, outcome, labels.number("started-at", None))


def read(engine: EngineView, app_id: str) -> Tombstone | None:
    """The outcome of one attempt; None where no volume has it."""
    volume = engine.volume(name_of(app_id))
    return None if volume is None else parse(volume)


def read_all(engine: EngineView, key: tuple[str, str, str] | None = None) -> dict[str, Tombstone]:
    """App id → outcome of that attempt, for all jobs or one job. Makes one request."""
    found = (parse(volume) for volume in engine.volumes(TOMBSTONE, *(_of_job(key) if key else ())))
    return {each.app_id: each for each in found if each is not None}


def _of_job(key: tuple[str, str, str]) -> list[str]:
    """The labels of all objects of a job."""
    return [f"{PREFIX}{part}={text}" for part, text in zip(_KEY, key, strict=True)]


def decisive(attempts: Iterable[tuple[Labels, str]]) -> set[str]:
    """The app ids of the attempts that decide about their jobs: the last of each, and the last that has run.

    Args:
        attempts: the labels and the state of each.
    """
    known = sorted(attempts, key=lambda each: (each[0].attempt_number, each[0].app_id))
    last = {labels.key: labels.app_id for labels, _ in known}
    ran = {labels.key: labels.app_id for labels, state in known if state != "skipped"}
    return {*last.values(), *ran.values()}


def write(engine: Engine, labels: Mapping[str, str], view: DockerAppView) -> DockerAppView:
    """Write the outcome of an attempt at the engine; returns the app with the outcome that is there now.

    The first writer counts, unless it could not tell how the attempt ended. Does nothing for an app without
    a job, or when the engine creates no volume: the end is recorded here all the same. Raises
    EngineUnreachable.
    """
    attempt = Labels(labels).attempt
    if attempt is None or not view.ended:
        return view
    try:
        return _write(engine, attempt, labels, view)
    except EngineRefused:
        engine.answer_anew()  # a stopping engine refuses for reasons of its own; it may be back by now
    with suppress(EngineRefused):
        return _write(engine, attempt, labels, view)
    return view


def _write(engine: Engine, attempt: Attempt, labels: Mapping[str, str], view: DockerAppView) -> DockerAppView:
    others = read_all(engine, attempt.key)
    there = others.pop(attempt.app_id, None)
    if any(each.number > attempt.number and not each.is_skipped for each in others.values()):
        return view
    if there is not None and there.outcome.state == "lost" != view.state:
        engine.remove_volume(there.volume)
        there = None
    if there is None:
        asked_at = Labels(labels).asked_at
        if not engine.create_volume(name_of(attempt.app_id), body(labels, view), since=asked_at):
            there = read(engine, attempt.app_id)
    if others:
        remove_replaced(engine, attempt.key)
    return view if there is None else replace(view, **there.outcome._asdict())


def remove_replaced(engine: Engine, key: tuple[str, str, str]) -> None:
    """Remove the outcomes of a job that later ones have replaced, and whose containers are gone."""
    stones = read_all(engine, key)
    if replaced := stones.keys() - decisive((each.labels, each.outcome.state) for each in stones.values()):
        there = {each.labels[APP_ID] for each in engine.containers(APP_ID, *_of_job(key))}
        for app_id in replaced - there:
            engine.remove_volume(stones[app_id].volume)


# -- decisions about waiting attempts ----------------------------------------------------------------------

# Each decision is taken once, although the watcher and any client may decide at the same time: the engine
# creates one volume of a name. The name has the id of the container that represents the attempt, so that the
# decision for one attempt is never read for another. When the process dies that decided to start the attempt
# or to submit it again, the next volume decides.

START = "start"
"""The decision that the attempt's watcher starts it."""
RESUME = "resume"
"""The decision that a client submits the attempt again, after removing it: its watcher is dead."""
OVER = ""
"""The answer that the attempt does not wait any more: its container is gone."""
_BY = PREFIX + "by"


def ending(state: str, message: str) -> str:
    """The decision that an attempt ends in this state."""
    return json.dumps([state, message])


def outcome(decision: str) -> tuple[str, str]:
    """State and message of a decision that an attempt ends."""
    state, message = json.loads(decision)
    return str(state), str(message)


def is_end(decision: str) -> bool:
    return decision not in (START, RESUME, OVER)


def decide(engine: Engine, waiting: Container, decision: str, *, take_over: bool = False) -> str:
    """Decide how a waiting attempt goes on, unless another process has. Returns the valid decision, or OVER.

    Args:
        waiting: the container that represents the attempt.
        take_over: a process on another machine counts as dead.
    """
    from launcher.schedulers.docker.watchers import may_be_alive

    app_id = waiting.labels[APP_ID]
    labels = {APP_ID: app_id, TURN: decision, _BY: this_process().to_json()}
    number = 0
    while True:
        name = f"{_prefix(waiting)}{number}"
        if engine.create_volume(name, labels):
            if engine.inspect(waiting.id) is not None:
                return decision
            forget(engine, waiting)
            return OVER
        taken = engine.volume(name)
        if taken is None:  # another process has decided, carried that out and forgotten it since
            return OVER
        decider = from_json(taken.labels.get(_BY, ""))
        decided = taken.labels.get(TURN, OVER)
        if is_end(decided) or (decider and may_be_alive(engine, decider, math.inf, take_over=take_over)):
            return decided
        number += 1


def is_resumed(engine: Engine, waiting: Container) -> bool:
    """Whether a client submits the attempt again, and has not yet made a container of it."""
    return any(each.labels[TURN] == RESUME for each in _decisions(engine, waiting))


def forget(engine: Engine, waiting: Container) -> None:
    """Remove the decisions about an attempt, once its container is gone."""
    for volume in _decisions(engine, waiting):
        engine.remove_volume(volume.name)


def _decisions(engine: Engine, waiting: Container) -> list[Labelled]:
    found = engine.volumes(f"{APP_ID}={waiting.labels[APP_ID]}", TURN)
    return [each for each in found if each.name.startswith(_prefix(waiting))]


def _prefix(waiting: Container) -> str:
    """Return the text with which the names of all decisions about an attempt begin."""
    return f"{waiting.labels[APP_ID]}.{waiting.id[:12]}."
