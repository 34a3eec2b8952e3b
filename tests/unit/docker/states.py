"""Apps as text: containers and journal in, the app as a reader sees it and the next step of its watcher out.

A row has the containers, the events of the journal and options, before `=>` what is seen of them::

    exited 3 | running ; go ; retries 1 REPLICA 9 => running: ; next restart replica main/0 in 9 s

Containers of the role `main` are in the order of their numbers, `none` is no container and `-` a missing one;
`server: running` is the only replica of another role, `waiting:` and `reservation:` are no replicas. A
container has a state, an exit code and a mark (`exited 143.stopped`), and `@30` (its end), `since 9` (its
start), `made 9` (its creation), `restarts 3`, `oom`, `listed` (not inspected). Without these it was
inspected, was started at 10, the next replica at 11, and ended at 20 and 21.

Events are those of version 0.1, or of today after `starting`; see `_event`. `-` is no journal. Options:
`retries N POLICY [PAUSE]`, `replicas N`, `engine N` (its start), `order ROLE after ROLE WHEN, …`, `time N`.

Of the app, `failed` is the state, `failed: TEXT` state and message, `NAME TEXT` any other attribute;
`replicas` lists them with exit code, end, restarts and wait: `main/0 failed 3 @20 ~1 (paused)`; `next` is
the next step of its watcher.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from launcher.holding.hold import decide
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.facts import (
    containers_to_events,
    declaration,
    end_of,
    has_begun,
    open_app,
    unended,
)
from launcher.schedulers.docker.journal import HeldApp, Journal, fold
from launcher.schedulers.docker.labels import Labels
from launcher.schedulers.docker.names import where
from launcher.schedulers.docker.status import DockerAppView, DockerReplica, view

NOW = 100.0
EXPECTED = [("main", 0), ("main", 1)]
SERVED: dict[str, dict[str, Any]] = {
    "client": {"depends_on": {"server": "ready"}},
    "server": {"service": True, "ready": {"file": "up"}},
}
Where = tuple[str, int]


# -- containers and journals -------------------------------------------------------------------------------


def container(
    k: int,
    state_text: str = "running",
    *,
    role: str = "main",
    part: str = "replica",
    retries: Sequence[Any] = (0, "APPLICATION"),
    order: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Container:
    """A container of replica k: `state_text` is a state, or "exited N"; a mark may follow after a dot."""
    state_text, _, mark = state_text.partition(".")
    state, _, code = state_text.partition(" ")
    roles = list(order or {"main": {}})
    labels = {
        "launcher.app-id": "app",
        "launcher.scheduler": "local_docker",
        "launcher.replicas": str(len(roles) if order else 2),
        "launcher.retries": json.dumps({name: list(retries) for name in roles}),
        "launcher.role": role,
        "launcher.replica": str(k),
        "launcher.part": part,
    }
    if order:
        labels["launcher.order"] = json.dumps([[name, 1, rule] for name, rule in order.items()])
    known: dict[str, Any] = {"inspected": True, "exit_code": int(code) if code else None}
    if state not in ("created", "removing"):
        known["started_at"] = 10.0 + k
    if state in ("exited", "dead"):
        known["ended_at"] = 20.0 + k
    name = f"app-{role}-{k}{'.' + mark if mark else ''}"
    id = f"id{k}" if role == "main" else role
    return Container(id=id, name=name, state=state, labels=labels, **{**known, **facts})


def journal(*lines: Mapping[str, object]) -> Journal:
    texts = [json.dumps({"t": 1.0 + at, **line}) for at, line in enumerate(lines)]
    return fold("".join(f"{text}\n" for text in texts).encode())


_FACTS = {"since": "started_at", "made": "created_at", "restarts": "restarts"}


def _container(k: int, text: str, **app: Any) -> Container | None:
    role, _, rest = text.rpartition(": ")
    words, facts = rest.split(), dict[str, Any]()
    if words[0] == "-":
        return None
    state = words.pop(0)
    if words and words[0].partition(".")[0].isdecimal():
        state = f"{state} {words.pop(0)}"
    while words:
        word = words.pop(0)
        if word in _FACTS:
            facts[_FACTS[word]] = float(words.pop(0))
        elif word[0] == "@":
            facts["ended_at"] = float(word[1:])
        else:
            facts |= {"inspected": False} if word == "listed" else {word: True}
    if "restarts" in facts:
        facts["restarts"] = int(facts["restarts"])
    if role in ("waiting", "reservation"):
        return container(9, state, part=role, **app, **facts)
    return container(k if not role else 0, state, role=role or "main", **app, **facts)


def _where(text: str) -> tuple[str, int, str, float | None]:
    """`0@9`: role, number and container of a replica, and the start of its run."""
    name, _, start = text.partition("@")
    at = float(start) if start else None
    return ("main", int(name), f"id{name}", at) if name.isdecimal() else (name, 0, name, at)


def _event(text: str, *, is_new: bool) -> dict[str, Any]:
    """`exit 0=3`, `exit 0=? why`, `hand 0@9`, `stop peer 0 1: why`, `restart ROLE 0@1 1@2 +9`, `ready s` …"""
    text, _, message = text.partition(": ")
    kind, *words = text.split()
    if kind == "wait":
        return {"e": "wait", "for": words}
    if kind == "end":
        return {"e": "end", "state": words[0], "message": message}
    if kind == "stop":
        of = [_where(each)[2] for each in words[1:]]
        return {"e": "stop", "why": words[0], "of": of, **({"message": message} if message else {})}
    if kind == "restart":
        pause = {"delay_s": int(words.pop())} if words[-1][0] == "+" else {}
        runs = [_where(each) for each in words[1:]]
        event = {"e": "restart", "role": runs[0][0], "policy": words[0], **pause}
        return {**event, "was": {each[2]: each[3] for each in runs}, "again": [[*each[:2]] for each in runs]}
    if not words:
        return {"e": kind, **({"by": "me"} if kind == "cancel" else {}), **({"t": 10**9} if is_new else {})}
    name, _, code = words[0].partition("=")
    role, k, id, start = _where(name)
    replica = {"role": role, "k": k}
    if kind in ("met", "spared", "halt"):
        of = {id: start} if kind == "halt" else [id]
        return {"e": kind, "job": name} if kind == "met" else {"e": kind, "of": of}
    if kind == "kill":
        return {"e": "kill", "id": id, "at": start}
    begun = 10.0 + k if start is None else start
    if kind == "hand":
        return {"e": "hand", "id": id, "started_at": begun}
    if kind == "spawn":
        return {"e": "spawn", **replica, "id": id, "start": start, "t": 10**9}
    if kind == "restarted":
        return {"e": "restart", **replica, "scope": "replica", "n": 1, "by": "engine"}
    if kind == "exit" and is_new:
        stopped = {"stopped": True} if words[1:] else {}
        return {"e": "exit", **replica, "id": id, "code": int(code), "t": 2 * 10**9, **stopped}
    if kind == "exit":
        lost = {"code": 0, "lost": " ".join(words[1:])} if code == "?" else {"code": int(code)}
        return {"e": "exit", **replica, "started_at": begun, **lost}
    return {"e": kind, **replica, "id": id, "started_at": begun, **({"why": message} if message else {})}


def journal_of(text: str) -> Journal | None:
    """The journal with these events; None for `-`."""
    if text == "-":
        return None
    is_new = text.startswith("starting")
    lines = [_event(each, is_new=is_new) for each in text.split(", ") if each]
    return Journal(lines) if is_new else journal(*lines)


# -- what is seen ------------------------------------------------------------------------------------------


class App:
    """An app, from the left side of a row."""

    def __init__(self, text: str) -> None:
        containers, events, *options = (each.strip() for each in text.split(";"))
        given = dict(each.partition(" ")[::2] for each in options)
        order = _order(given["order"]) if "order" in given else None
        most, policy, *pause = given.get("retries", "0 APPLICATION").split()
        about = {"retries": [int(most), policy, *map(int, pause)], "order": order}
        texts = [] if containers == "none" else containers.split(" | ")
        found = (_container(k, each, **about) for k, each in enumerate(texts))
        self.containers = [each for each in found if each is not None]
        self.journal = journal_of(events)
        self.expected = [(each, 0) for each in order] if order else EXPECTED[: int(given.get("replicas", 2))]
        self.engine = float(given["engine"]) if "engine" in given else None
        self.timeout_s = float(given["time"]) if "time" in given else None

    @property
    def view(self) -> DockerAppView:
        """The view of the app: the same whether its journal declares the app, or its labels alone do."""
        facts = {"engine_started_at": self.engine}
        found = view(self.containers, self.journal, expected_replicas=self.expected, **facts)
        parts = [each for each in self.containers if each.labels["launcher.part"] == "replica"]
        if self.journal is not None and parts and len(parts) == len(self.containers):
            counts = {role: k + 1 for role, k in self.expected}
            declared = Journal([declaration(Labels(parts[0].labels), counts), *self.journal.events])
            assert view(self.containers, declared, **facts) == found
        assert found is not None
        return found

    def next(self) -> str:
        return next_step(self.containers, self.journal or Journal(), self.expected, timeout_s=self.timeout_s)


def _order(text: str) -> dict[str, dict[str, Any]]:
    """`served`, or `train after data succeeded, …`: the rules of roles."""
    if text == "served":
        return SERVED
    rules = {}
    for each in text.split(", "):
        role, *rest = each.split()
        rules[role] = {"depends_on": {rest[1]: rest[2]}} if rest else {}
    return rules


def _replica(each: DockerReplica) -> str:
    words = [each.label, each.state]
    words += [str(each.exit_code)] if each.exit_code is not None else []
    words += [f"@{each.ended_at:g}"] if each.ended_at is not None else []
    words += [f"~{each.num_restarts}"] if each.num_restarts else []
    return " ".join([*words, *([f"({each.waits})"] if each.waits else [])])


def seen(app: App, wanted: str) -> str:
    """The app, as text of the form of `wanted`."""
    first, *more = (each.strip() for each in wanted.split(";"))
    found = app.view
    words = [f"{found.state}: {found.message}".strip() if ":" in first else found.state]
    for name in (each.partition(" ")[0] for each in more):
        if name == "replicas":
            text = ", ".join(map(_replica, found.replicas))
        else:
            text = app.next() if name == "next" else str(getattr(found, name))
        words.append(f"{name} {text}".strip())
    return " ; ".join(words)


def rows(table: str) -> pytest.MarkDecorator:
    """Parametrize a test with `row` and `wanted`. Each row follows a line with its name, or another row."""
    found, name = [], ""
    for line in filter(str.strip, table.splitlines()):
        if " => " not in line:
            name = line.strip()
            continue
        row, _, wanted = line.strip().partition(" => ")
        found.append(pytest.param(row, wanted, id=name))
    return pytest.mark.parametrize(("row", "wanted"), found)


# -- the next step -----------------------------------------------------------------------------------------


class _Recorded:
    """The decisions of one step."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []

    def append(self, event: Mapping[str, Any]) -> None:
        event["t"] = round(NOW * 1e9)
        self.events.append(event)

    def is_written(self) -> bool:
        return True


def opened(containers: Sequence[Container], journal: Journal, expected: Sequence[Where] = ()) -> HeldApp:
    """The app as a watcher sees it, before it decides."""
    app = open_app(Labels(containers[0].labels), containers, journal, expected)
    if has_begun(containers, app):
        for event in containers_to_events(app, containers, lambda each: end_of(each, app, None)):
            app.take(event)
    return app


def next_step(
    containers: Sequence[Container],
    journal: Journal,
    expected: Sequence[Where] = (),
    *,
    timeout_s: float | None = None,
    now: float = NOW,
) -> str:
    """The step as text: `stop peer, end failed`; `restart app in 9 s, start id0`; `wait until 120`."""
    app = opened(containers, journal, expected)
    app.timeout_s = timeout_s
    made = _Recorded()
    decide(app, made, now)
    is_live = any(each.live for each in containers)
    left = unended(app, containers) if app.stop is not None else []
    if app.wants_quiet and not (is_live or left):
        app.take({"e": "quiet"})
        decide(app, made, now)
    return ", ".join([*map(_words, made.events), *_acts(app, containers, left)]) or _rest(app)


def _acts(app: HeldApp, containers: Sequence[Container], left: Sequence[Container]) -> Iterator[str]:
    if left:
        yield "stop " + " ".join(each.id for each in left)
        return
    halted = [each for each in app.to_stop if each.is_active] if app.stop is None else []
    act, replicas = ("halt", halted) if halted else ("start", app.take_to_start(99))
    if named := [(each.role.name, each.k) for each in replicas]:
        yield " ".join([act, *(each.id for each in containers if where(each) in named)])


def _rest(app: HeldApp) -> str:
    if app.has_ended:
        return "leave"
    return "wait" if app.deadline() is None else f"wait until {app.deadline():g}"


def _words(event: Mapping[str, Any]) -> str:
    if event["e"] == "restart":
        who = f" {event['role']}" if event["scope"] == "role" else f" {event['role']}/{event['k']}"
        pause = f" in {event['delay_s']} s" if "delay_s" in event else ""
        return f"restart {event['scope']}{'' if event['scope'] == 'app' else who}{pause}"
    if event["e"] == "stopping":
        return f"{event['why']} {event.get('message') or event['by']}".strip()
    return f"end {event['state']}"
