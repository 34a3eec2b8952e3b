"""Watchers on the engine: the modules that travel, their names, and the apps that they cannot hold."""

import ast
import socket
import sys
import time
from collections.abc import Container, Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.schedulers.docker import images, watchers
from launcher.schedulers.docker.client.errors import NotFound
from launcher.schedulers.docker.client.streams import ExecSocket
from launcher.schedulers.docker.labels import APP_ID, WATCHER
from launcher.schedulers.docker.rules import options
from launcher.schedulers.docker.scheduler import DockerScheduler
from launcher.schedulers.docker.watching import container
from launcher.schedulers.docker.watching.container import MAIN, EngineWatcher, name_of, program, socket_of
from launcher.schedulers.owner import Owner, this_process
from launcher.specs.app import AppDef, Probe, Resource, Role
from tests.unit.test_layers import modules

ON_ENGINE = {"watcher": "engine"}
PATIENCE_S = 60.0


def at_run_time(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """The imports below a node, but for those of type checkers alone."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.ImportFrom):
            yield each
        elif not (isinstance(each, ast.If) and getattr(each.test, "id", "") == "TYPE_CHECKING"):
            yield from at_run_time(each)


def imported(module: str) -> set[str]:
    """Return the modules of launcher that a module imports at run time."""
    nodes = list(at_run_time(modules()[module]))
    names = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    return {each for each in names | {str(node.module) for node in nodes} if each in modules()}


@pytest.mark.slow
def test_the_zip_has_every_module_that_the_watcher_imports() -> None:
    todo = {f"launcher.schedulers.docker.watching.{name}" for name in ("rendezvous", "watcher")}
    shipped = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in program()}
    found: set[str] = set()
    while todo := todo - found:
        found |= todo
        todo = set().union(*map(imported, todo))
    missing = {each for each in found - shipped if not each.startswith("launcher.schedulers.local")}
    assert missing == set()  # what clears the shares of local apps has no work there


def test_an_old_python_names_the_version_that_the_watcher_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    ast.parse(MAIN, feature_version=(3, 4))
    old = SimpleNamespace(version_info=(3, 6, 8), exit=sys.exit, argv=["watcher.zip", "x"])
    monkeypatch.setitem(sys.modules, "sys", old)
    with pytest.raises(SystemExit) as failed:
        exec(MAIN)
    assert failed.value.code == "its Python is 3.6, and the watcher needs 3.10 or newer"


@pytest.mark.parametrize(("host", "path"), [
    ("unix:///run/user/1000/docker.sock", "/run/user/1000/docker.sock"),
    ("ssh://me@gpu1:2222", "/var/run/docker.sock"),
    ("ssh://gpu1/srv/docker.sock", "/srv/docker.sock"),
    ("tcp://gpu1:2376", "/var/run/docker.sock"),
])  # fmt: skip
def test_the_socket_is_that_of_the_address_or_the_usual_one(host: str, path: str) -> None:
    assert socket_of(host) == path


def test_apps_with_another_image_or_socket_have_another_watcher() -> None:
    here: Any = SimpleNamespace(host="unix:///var/run/docker.sock")
    there: Any = SimpleNamespace(host="ssh://gpu1/srv/docker.sock")
    through: Any = SimpleNamespace(host="ssh://gpu1")
    other = {"watcher_image": "python:3.13"}
    assert name_of(here, {}) == name_of(through, {})
    assert len({name_of(here, {}), name_of(there, {}), name_of(here, other)}) == 3


def found(monkeypatch: pytest.MonkeyPatch, host: str, cfg: dict[str, Any], **role: Any) -> list[str]:
    """Return the messages of the problems of an app with one role."""
    monkeypatch.setenv("DOCKER_HOST", host)
    app = AppDef("train", [replace(Role("main", "python:3.12-slim", entrypoint="true"), **role)])
    problems = DockerScheduler("test", detach=True).app_problems(app, options().resolve(cfg))
    return [each.message for each in problems]


def test_the_watcher_on_the_engine_probes_ports_there(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = Probe(port=8000)
    assert len(found(monkeypatch, "ssh://gpu1", {}, ready=probe)) == 1
    assert found(monkeypatch, "ssh://gpu1", ON_ENGINE, ready=probe) == []


def test_gpus_of_this_machine_are_refused_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Resource(cpu=1, memMB=-1, gpu=1)
    [message] = found(monkeypatch, "unix:///var/run/docker.sock", ON_ENGINE, resource=asked)
    assert "leave `watcher` out" in message
    assert found(monkeypatch, "ssh://gpu1", ON_ENGINE, resource=asked) == []


def test_the_output_of_a_command_is_read_from_frames_that_are_cut_anywhere() -> None:
    ours, theirs = socket.socketpair()
    out, err = b"\1\0\0\0\0\0\0\5hello", b"\2\0\0\0\0\0\0\3err"
    with ours, theirs:
        made = ExecSocket(ours, out[:3])
        made.settimeout(0.01)
        with pytest.raises(TimeoutError):
            made.recv(10)
        made.settimeout(PATIENCE_S)
        theirs.sendall(out[3:] + err + out)
        theirs.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: made.recv(3), b"")) == b"hellohello"


class SlowEngine:
    """An engine on which clients make watchers, and remove those that their clients seem to have left behind.

    Args:
        seen: the containers of a watcher that a client finds, one after another; None where there is none.
        gone: the ids of those that are gone when their client starts them.
    """

    host = "unix:///var/run/docker.sock"

    def __init__(self, seen: list[Any], gone: Container[str] = ()) -> None:
        self._seen, self._gone = iter(seen), gone
        self.made = 0
        self.removed: list[str] = []

    def inspect(self, name: str) -> Any:
        return None if name in self._gone else next(self._seen)

    def converse(self, name: str, argv: Any) -> str:
        return name

    def image(self, name: str) -> str:
        return name

    def create(self, name: str, body: Any) -> str:
        self.made += 1
        return str(self.made)

    def put_archive(self, made: str, path: str, tar: bytes) -> None:
        """Take the program of a watcher, whose start may fail later."""

    def start(self, made: str) -> None:
        if made in self._gone:
            raise NotFound(f"cannot start {made}: No such container", status=404)

    def remove(self, found: str, force: bool = False) -> None:
        self.removed.append(found)


def seen(number: int, state: str) -> Any:
    return SimpleNamespace(id=str(number), live=state == "running", ended=state == "exited")


def connected(engine: Any) -> Any:
    return container._connect(engine, "launcher-watcher-0", "python:3", images.NEVER, None)


def test_a_watcher_that_another_client_has_just_made_is_not_taken_for_left_behind(monkeypatch):
    """A client that has long waited meets ever new watchers, each of which is about to be started."""
    monkeypatch.setattr(container, "_UP_S", 0.1)
    engine = SlowEngine([*(seen(number, "created") for number in range(4)), seen(4, "running")])
    assert connected(engine) == "launcher-watcher-0"
    assert engine.removed == []


def test_a_watcher_that_its_client_has_not_started_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_UP_S", 0.1)
    engine = SlowEngine([*[seen(1, "created")] * 2, seen(2, "running")])
    assert connected(engine) == "launcher-watcher-0"
    assert engine.removed == ["1"]


def test_a_watcher_that_another_client_has_removed_before_its_start_is_made_again() -> None:
    engine = SlowEngine([None, None, seen(2, "running")], gone={"1"})
    assert connected(engine) == "launcher-watcher-0"
    assert (engine.made, engine.removed) == (2, [])


class SlowWatcher:
    """An engine with a watcher that says nothing to its first client, and refuses the next ones.

    Args:
        refused: how many connections it closes before it takes the app.
    """

    def __init__(self, refused: int) -> None:
        self.host = "unix:///var/run/docker.sock"
        self._answers = iter([None, *[b""] * refused, b"\1\0\0\0\0\0\0\3{}\n"])
        self._ends: list[socket.socket] = []

    def inspect(self, name: str) -> Any:
        return SimpleNamespace(live=True)

    def converse(self, container: str, argv: Any) -> ExecSocket:
        ours, theirs = socket.socketpair()
        self._ends.append(theirs)
        if (answer := next(self._answers)) is not None:
            theirs.sendall(answer)
            theirs.shutdown(socket.SHUT_WR)
        return ExecSocket(ours, b"")

    def close(self) -> None:
        for each in self._ends:
            each.close()


def test_an_app_that_a_slow_watcher_refuses_for_a_while_is_handed_over(monkeypatch):
    """A watcher that read an order too late refuses the app until it has removed what that made."""
    monkeypatch.setattr(container, "ANSWER_S", 0.3)
    monkeypatch.setattr(container, "_ENDING_S", 0.2)
    monkeypatch.setattr(container, "_AGAIN_S", 0.005)
    engine: Any = SlowWatcher(refused=9)
    lock: Any = SimpleNamespace(app_dir="/none")
    labels = {APP_ID: "hello", WATCHER: "launcher-watcher-0"}
    with closing(engine), closing(EngineWatcher(engine, lock, labels)) as client:
        client.confirm()


PROCESS = replace(this_process(), host=f"{watchers.PREFIX}0123", pid=1)


def engine(shown: Owner, *, started_at: float = 1.0, written_at: float = 2.0) -> Any:
    """Return an engine whose watcher runs since `started_at`, and has named its process at `written_at`."""
    return SimpleNamespace(
        inspect=lambda name: SimpleNamespace(state="running", started_at=started_at),
        path_stat=lambda name, path: SimpleNamespace(written_at=written_at),
        read_file=lambda name, path, most: shown.to_json().encode(),
    )


def test_a_process_of_an_earlier_run_of_the_watcher_is_dead_at_once() -> None:
    """The app was being submitted a moment ago: the next apply need not wait for the client."""
    before = replace(PROCESS, start=PROCESS.start - 1)
    assert watchers.may_be_alive(engine(PROCESS), PROCESS, time.time())
    assert not watchers.may_be_alive(engine(PROCESS), before, time.time())
    assert not watchers.may_be_alive(engine(PROCESS, started_at=3.0), PROCESS, time.time())
