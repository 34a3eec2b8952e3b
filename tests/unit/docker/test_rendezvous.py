"""Where clients find the watcher that they share."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from launcher import paths
from launcher.schedulers.docker import record
from launcher.schedulers.docker.watching import rendezvous
from launcher.schedulers.docker.watching.rendezvous import Listening

Listen = Callable[..., Listening]
Retire = Callable[[Listening], int]
HOST = "unix:///var/run/docker.sock"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("DOCKER_HOST", HOST)
    return SimpleNamespace(host=HOST, engine_id=lambda: "id/folder")


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Sockets that are closed when the test is over."""
    found: list[Any] = []
    yield found
    for each in found:
        each.close()


@pytest.fixture
def listen(opened: list[Any]) -> Listen:
    def listen(name: str = "name") -> Listening:
        paths.ensure(record.apps_dir())
        made = rendezvous.listen(name)
        assert made is not None
        listener = socket.socket(fileno=made.detach())
        opened.append(listener)
        return Listening(listener)

    return listen


@pytest.fixture
def connect(opened: list[Any]) -> Callable[..., Any]:
    """A function that connects as a client, and returns None when nothing listens."""

    def connect(name: str = "name") -> Any:
        client = rendezvous.connect(name)
        if client is not None:
            opened.append(client)
        return client

    return connect


@pytest.fixture
def retire(opened: list[Any]) -> Callable[[Listening], int]:
    """Retire a watcher; return how many clients have kept it from ending."""

    def retire(post: Listening) -> int:
        late = post.retire()
        opened.extend(late)
        return len(late)

    return retire


def test_clients_find_each_other_below_a_path_that_is_too_long_for_a_socket(
    launcher_home, listen, connect, retire, monkeypatch
):
    monkeypatch.setenv("LAUNCHER_HOME", str(launcher_home / ("long" * 40)))
    post = listen()
    assert connect() is not None
    assert retire(post) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user_is_neither_served_nor_asked(launcher_home, listen, connect, retire):
    post, name = listen(), rendezvous._address("name")

    def as_another_user(act: str) -> Any:
        code = f"import os, socket; s = socket.socket(socket.AF_UNIX); os.setuid(1); s.{act}; "
        argv = [sys.executable, "-c", code + "print(flush=True); input()"]
        other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"\n"
        return other

    client = as_another_user(f"connect({name!r})")
    assert retire(post) == 0
    client.communicate(b"\n")
    squatter = as_another_user(f"bind({name!r}); s.listen()")
    assert connect() is None
    assert rendezvous.reach("name", lambda listener, name: (listener, name)) == (None, "")
    squatter.communicate(b"\n")


def test_a_watcher_without_a_client_leaves_nothing_to_connect_to(launcher_home, listen, connect, retire):
    assert retire(listen()) == 0
    assert connect() is None


def test_a_client_that_has_connected_keeps_a_watcher_from_ending(launcher_home, listen, connect):
    post = listen()
    client = connect()
    [late] = post.retire()
    with late:
        late.send(b"x")
        assert client.recv(1) == b"x"
    assert connect() is not None


def test_a_state_folder_has_a_watcher_of_its_own(launcher_home, listen, connect, monkeypatch, tmp_path):
    listen()
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "other"))
    assert connect() is None
    listen()
    assert connect() is not None


def test_the_next_client_takes_the_address_of_a_killed_watcher(launcher_home, listen, connect):
    listen().listener.close()
    assert connect() is None
    listen()
    assert connect() is not None


def test_one_client_starts_the_watcher_and_the_others_find_it(launcher_home, opened):
    started: list[str] = []
    paths.ensure(record.apps_dir())

    def start(listener: int, name: str) -> Any:
        started.append(name)
        opened.append(socket.socket(fileno=os.dup(listener)))
        return None, 7

    assert rendezvous.reach("name", start) == (None, 7)
    client, pid = rendezvous.reach("name", start)
    opened.append(client)
    assert pid == 0
    assert started == ["name"]


def test_clients_with_equal_settings_get_the_same_watcher_name(engine: Any) -> None:
    assert rendezvous.name_of(engine, "main") == rendezvous.name_of(engine, "main") != ""


@pytest.mark.parametrize("name", ["DOCKER_CONFIG", "DOCKER_API_VERSION", "HOME", "XDG_CONFIG_HOME"])
def test_a_client_that_reaches_the_engine_in_another_way_gets_another_watcher_name(
    engine, monkeypatch, tmp_path, name
):
    before = rendezvous.name_of(engine, "main")
    monkeypatch.setenv(name, str(tmp_path))
    assert rendezvous.name_of(engine, "main") != before


def test_another_engine_or_another_version_gets_another_watcher_name(engine: Any) -> None:
    other: Any = SimpleNamespace(host=HOST, engine_id=lambda: "other/folder")
    names = [rendezvous.name_of(each, text) for each in (engine, other) for text in ("main", "newer")]
    assert len(set(names)) == 4


def test_renewed_credentials_get_another_watcher_name(engine, monkeypatch, tmp_path):
    host = "tcp://127.0.0.1:2376"
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("old")
    for name, value in {"HOST": host, "TLS_VERIFY": "1", "CERT_PATH": str(tmp_path)}.items():
        monkeypatch.setenv(f"DOCKER_{name}", value)
    engine.host = host
    before = rendezvous.name_of(engine, "main")
    (tmp_path / "key.pem").write_text("renewed")
    assert rendezvous.name_of(engine, "main") != before


def test_an_engine_over_ssh_has_a_watcher_for_each_app(engine, monkeypatch):
    engine.host = "ssh://me@there"
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    assert rendezvous.name_of(engine, "main") == ""
