"""Probe a replica once: over its network, by the engine's archive call, or by a command in its container."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from posixpath import join
from typing import Any

from launcher.schedulers import probes
from launcher.schedulers.docker.client.configuration import is_on_this_host
from launcher.schedulers.docker.client.engine import Engine
from launcher.schedulers.docker.client.errors import EngineError, EngineUnreachable
from launcher.schedulers.docker.client.objects import Container
from launcher.schedulers.docker.client.view import EngineView

ANSWER_S = 1.0
"""How long a connection and its answer may take, together."""

_HERE = ("127.0.0.1", "::1")
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25
_EARLY_S = 10.0
"""How long before the start that the engine records a replica may have written its file: the engine takes the
time after the process began, on a busy machine long after."""


def why_not_ready(engine: Engine, container: Container, probe: Mapping[str, Any], *, limit_s: float) -> str:
    """Probe a replica once: "" when it is ready, else what is missing, in one phrase.

    Args:
        probe: as `Probe.to_json` makes it.
        limit_s: the most that a command may take; a connection takes up to ANSWER_S.

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
    except EngineUnreachable:
        raise
    except EngineError as error:
        return error.cause


def taken_port(engine: EngineView, network: str, probe: Mapping[str, Any] | None) -> str:
    """Why a replica cannot be started: another process has the port of its probe; "" when it can.

    Only with the network of the host, where the probe would find that process.
    """
    port = (probe or {}).get("port")
    if port is None or network != "host" or not is_on_this_host(engine.host):
        return ""
    return probes.taken_port(port)


# -- command -----------------------------------------------------------------------------------------------


def _why_no_success(engine: Engine, seen: Container, argv: tuple[str, ...], limit_s: float) -> str:
    deadline, pause_s = time.monotonic() + limit_s, _FIRST_PAUSE_S
    run = _running(engine, seen, argv) or engine.execute(seen.id, argv)
    while True:
        found = engine.executed(run)
        if found is None:
            return probes.not_ended(argv[0])
        if found.exit_code is not None:
            return probes.bad_end(argv[0], found.exit_code)
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return probes.not_ended(argv[0])
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _running(engine: Engine, seen: Container, argv: tuple[str, ...]) -> str:
    """The run of an earlier probe that has not ended: no engine can end it, and each probe would add one."""
    for each in seen.exec_ids:
        found = engine.executed(each)
        if found is not None and found.running and found.argv == argv:
            return each
    return ""


# -- file --------------------------------------------------------------------------------------------------


def _why_no_file(engine: Engine, seen: Container, name: str) -> str:
    try:
        found = engine.path_stat(seen.id, join(seen.working_dir, name))
    except EngineUnreachable:
        raise
    except EngineError as error:  # a loop of links, or a mount that broke
        return f"the file {name} cannot be seen: {error.cause}"
    if found is None:
        return probes.no_file(name)
    return probes.old_file(name) if (found.written_at or 0.0) < _began_at(seen) else ""


def _began_at(seen: Container) -> float:
    """A time before the first write of this run, and after all of the runs before it."""
    before = seen.last_run_ended_at or seen.created_at or 0.0
    return max(before, (seen.started_at or 0.0) - _EARLY_S)


# -- port and http -----------------------------------------------------------------------------------------


def _why_no_answer(engine: Engine, seen: Container, probe: Mapping[str, Any], limit_s: float) -> str:
    port = probe["port"]
    if not is_on_this_host(engine.host):
        return f"port {port} is on another machine, that of the engine: probe it by a command"
    hosts = _addresses(engine, seen)
    if not hosts:
        return f"port {port} cannot be reached: the replica has no network"
    deadline = time.monotonic() + limit_s
    sock, why = _connect(hosts, port, deadline)
    if sock is None:
        return why
    with sock:
        return _why_bad(sock, probe["http"], port, deadline, limit_s) if "http" in probe else ""


def _addresses(engine: Engine, seen: Container) -> Sequence[str]:
    if seen.network == "host":
        return _HERE
    kind, _, other = seen.network.partition(":")
    if kind == "container":
        found = engine.inspect(other)
        return () if found is None else _addresses(engine, found)
    return seen.addresses


def _connect(hosts: Sequence[str], port: int, deadline: float) -> tuple[socket.socket | None, str]:
    """A connection to the first of the hosts where something listens; else None, and why there is none."""
    why = probes.nothing_listens(port)
    for host in hosts:
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError:  # no IPv6 here
            continue
        try:
            sock.settimeout(_left(deadline))
            sock.connect((host, port))
            if sock.getsockname() != sock.getpeername():  # a free port may be the one that it comes from
                return sock, ""
        except TimeoutError:
            why = f"port {port} at {host} does not answer"
        except OSError as error:
            if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH) and ":" not in host:
                why = f"port {port} at {host} cannot be reached: {error.strerror}"
        sock.close()
    return None, why


def _why_bad(sock: socket.socket, path: str, port: int, deadline: float, limit_s: float) -> str:
    what, answer = probes.http_name(path, port), b""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it answers without reading
            sock.settimeout(_left(deadline))
            sock.sendall(probes.http_request(path, port))
        while len(answer) < probes.ENOUGH:
            sock.settimeout(_left(deadline))
            data = sock.recv(4096)
            if not data:
                break
            answer += data
    except TimeoutError:
        return probes.no_answer_within(what, round(limit_s, 1))
    except OSError:  # closed by the server
        pass
    return probes.bad_answer(what, answer)


def _left(deadline: float) -> float:
    """The seconds that are left. Raises TimeoutError for none: a socket takes 0 for "do not wait"."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
