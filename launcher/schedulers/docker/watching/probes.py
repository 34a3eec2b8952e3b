"""Probe the replicas of an app for its watcher: a thread for each run that is not known to be ready.

A replica is probed over its network, by the engine's archive call, or by a command in its container.
"""

from __future__ import annotations

import _socket
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from posixpath import join
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from launcher.holding.replica import RUNNING
from launcher.schedulers import probes
from launcher.schedulers.docker.client.configuration import is_on_this_host
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineRefused, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView
from launcher.schedulers.docker.journal import HeldApp
from launcher.schedulers.docker.names import where
from launcher.schedulers.probes import UNPROBED, Probing, bad_end, no_file, old_file

ANSWER_S = 1.0
"""How long a connection and its answer may take, together."""

_LEAST_LIMIT_S = 0.1
_CUT_SHORT_S = 1.0  # a probe with less time than this says less than the previous probe
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25
_EARLY_S = 10.0
"""How long before the start that the engine records a replica may have written its file: the engine takes the
time after the process began, on a busy machine long after."""


class _Run(Probing):
    """One run of a container, while it is probed.

    Attributes:
        over: the run has ended, or is being stopped.
    """

    def __init__(self, container: Container, probe: Mapping[str, Any], age_s: float) -> None:
        super().__init__(probe)
        self.container = container
        self._until = time.monotonic() + self.timeout_s - age_s
        self.over = Event()

    @property
    def left_s(self) -> float:
        return self._until - time.monotonic()


class Prober:
    """Finds out which replicas are ready, and which are late.

    Args:
        rules: role → its probe, for roles that have one.
        wake: wakes the watcher, which then calls `facts`.
        resumed: replicas may have been running for a while when they are first seen.
    """

    def __init__(
        self,
        engine: Engine,
        rules: Mapping[str, Mapping[str, Any]],
        wake: Callable[[], None],
        *,
        resumed: bool,
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._wake = wake
        self._resumed = resumed
        self._runs: dict[tuple[str, float | None], _Run] = {}
        self._results: SimpleQueue[tuple[Container, str]] = SimpleQueue()

    def facts(self, app: HeldApp) -> Iterator[dict[str, Any]]:
        """The results since the last call, as events."""
        while True:
            try:
                container, why = self._results.get_nowait()
            except Empty:
                return
            role, k = where(container)
            if app.roles[role].replicas[k].run == (container.id, container.started_at):
                run = {"role": role, "k": k, "id": container.id, "start": container.started_at}
                yield {"e": "late", **run, "why": why} if why else {"e": "ready", **run}

    def follow(self, containers: Iterable[Container], app: HeldApp) -> None:
        """Begin to probe new running replicas, and end the probes of replicas that run no more."""
        wanted: dict[tuple[str, float | None], tuple[Container, Mapping[str, Any]]] = {}
        for each in containers if app.stop is None else ():
            role, k = where(each)
            replica = app.roles[role].replicas[k]
            is_open = replica.state == RUNNING and not (replica.is_ready or replica.late)
            if role in self._rules and is_open and each.state == "running":
                wanted[each.id, each.started_at] = each, self._rules[role]
        for run in [run for run in self._runs if run not in wanted]:
            self._runs.pop(run).over.set()
        now = time.time()
        for run, (container, probe) in wanted.items():
            if run not in self._runs:
                age_s = now - (container.started_at or now) if self._resumed else 0.0
                self._runs[run] = _Run(container, probe, max(0.0, age_s))
                Thread(target=self._probe, args=(self._runs[run],), daemon=True).start()
        self._resumed = False

    def has_file(self, ended: Container, app: HeldApp) -> bool:
        """Whether a replica that no probe has found ready has written its probe's file before it ended."""
        role, k = where(ended)
        replica, name = app.roles[role].replicas[k], self._rules.get(role, {}).get("file")
        if name is None or replica.is_ready or replica.restarts:  # a file of another run would look alike
            return False
        return not _why_no_file(self._engine, ended, name)

    def close(self) -> None:
        """End the probes."""
        for run in self._runs.values():
            run.over.set()

    def _probe(self, run: _Run) -> None:
        pause_s = run.pause_s()
        while not run.over.wait(pause_s):
            pause_s, left_s = run.pause_s(), run.left_s
            try:
                why = why_not_ready(
                    self._engine, run.container, run.probe, limit_s=max(left_s, _LEAST_LIMIT_S)
                )
            except EngineUnreachable:
                continue  # the run has not been probed yet
            except Exception as error:  # a thread that dies would leave the replica waiting for ever
                why = f"{type(error).__name__}: {error}"
            if left_s >= _CUT_SHORT_S or run.why == UNPROBED:
                run.why = why
            left_s = run.left_s
            if why and left_s > 0:
                pause_s = min(pause_s, left_s)
                continue
            if not (why and run.over.is_set()):
                self._results.put((run.container, run.late() if why else ""))
                self._wake()
            return


def why_not_ready(engine: Engine, container: Container, probe: Mapping[str, Any], *, limit_s: float) -> str:
    """Probe a replica once: "" when it is ready, else what is missing, in one phrase.

    Args:
        probe: as `Probe.to_json` makes it.
        limit_s: time limit of a command; a connection takes up to ANSWER_S.

    Raises EngineUnreachable; other errors of the engine are phrases.
    """
    try:
        seen = engine.inspect(container.id)
        if seen is None:
            return "its container is gone"
        if seen.state != "running":
            return f"its container is {seen.state}"
        if "command" in probe:
            return _why_no_success(engine, seen, tuple(probe["command"]), limit_s)
        if "file" in probe:
            return _why_no_file(engine, seen, probe["file"])
        return _why_no_answer(engine, seen, probe, min(limit_s, ANSWER_S))
    except EngineRefused as error:
        return error.cause


def taken_port(engine: EngineView, network: str, probe: Mapping[str, Any] | None) -> str:
    """The reason why a replica cannot be started: another process has the port of its probe; "" when it can.

    This can be so only with the network of the host, where the probe would find that process.
    """
    port = (probe or {}).get("port")
    if port is None or network != "host" or not is_on_this_host(engine.host):
        return ""
    return probes.taken_port(port)


# -- command -----------------------------------------------------------------------------------------------


def _why_no_success(engine: Engine, seen: Container, argv: tuple[str, ...], limit_s: float) -> str:
    deadline, pause_s = time.monotonic() + limit_s, _FIRST_PAUSE_S
    run = _running(engine, seen, argv) or engine.execute(seen.id, argv)
    not_ended = f"`{argv[0]}` has not ended yet"
    while True:
        found = engine.executed(run)
        if found is None:
            return not_ended
        if found.exit_code is not None:
            return bad_end(argv[0], found.exit_code)
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return not_ended
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _running(engine: Engine, seen: Container, argv: tuple[str, ...]) -> str:
    """The id of an earlier probe's command that still runs: no engine can end it, so no other is started."""
    for each in seen.exec_ids:
        found = engine.executed(each)
        if found is not None and found.running and found.argv == argv:
            return each
    return ""


# -- file --------------------------------------------------------------------------------------------------


def _why_no_file(engine: Engine, seen: Container, name: str) -> str:
    try:
        found = engine.path_stat(seen.id, join(seen.working_dir, name))
    except EngineRefused as error:  # a loop of links, or a mount that broke
        return f"the file {name} cannot be seen: {error.cause}"
    if found is None:
        return no_file(name)
    # A time before the first write of this run, and after all writes of earlier runs.
    began_at = max(seen.last_run_ended_at or seen.created_at or 0.0, (seen.started_at or 0.0) - _EARLY_S)
    return old_file(name) if (found.written_at or 0.0) < began_at else ""


# -- port and http -----------------------------------------------------------------------------------------


def _why_no_answer(engine: Engine, seen: Container, probe: Mapping[str, Any], limit_s: float) -> str:
    port = probe["port"]
    if not is_on_this_host(engine.host):
        return f"port {port} is on another machine, that of the engine: probe it by a command"
    hosts = list(_addresses(engine, seen))
    if not hosts:
        return f"port {port} cannot be reached: the replica has no network"
    steps = probes.ask(probe, hosts, limit_s)
    while True:
        try:
            fd, most_s, _ = next(steps)
        except StopIteration as over:
            return str(over.value)
        poll = select.poll()
        if fd >= 0:
            poll.register(fd, select.POLLIN)
        poll.poll(1000 * most_s)


def _addresses(engine: Engine, seen: Container) -> Iterable[tuple[int, str]]:
    """The (family, address) of a replica in each of its networks."""
    if seen.network == "host":
        return probes.HOSTS
    kind, _, other = seen.network.partition(":")
    if kind == "container":
        found = engine.inspect(other)
        return () if found is None else _addresses(engine, found)
    return [(_socket.AF_INET6 if ":" in each else _socket.AF_INET, each) for each in seen.addresses]
