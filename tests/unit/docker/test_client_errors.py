"""Engines that are missing, refuse or break off: one clear error, with its cause and remedy."""

import inspect
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from launcher.errors import SchedulerError
from launcher.schedulers.docker.client import errors as engine_errors
from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.client.errors import (
    EngineGone,
    EngineRefused,
    EngineUnreachable,
    NonsenseAnswer,
    cause_of,
    is_half_started,
    may_pass,
    refusal,
)
from launcher.schedulers.docker.client.view import EngineView
from tests.unit.docker.fake_engine import FakeEngine, fake_engine, reply


def _at(host: str, **environ: str) -> Engine:
    return connect(environ={"DOCKER_HOST": host, **environ})


@pytest.fixture
def unheard(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Addresses at which no engine listens, by name."""
    with socket.socket(socket.AF_UNIX) as dead, socket.socket() as taken:
        dead.bind(str(tmp_path / "e.sock"))
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        yield {
            "gone": f"unix://{tmp_path}/none.sock",
            "dead": f"unix://{tmp_path}/e.sock",
            "port": f"tcp://127.0.0.1:{taken.getsockname()[1]}",
            "host": "tcp://-nohost-:2375",  # no name server is asked
        }


@pytest.mark.parametrize(("name", "message"), [
    ("gone", "there is no Docker engine at {}: no such socket"),
    ("dead", "there is no Docker engine at {}: nothing listens there"),
    ("port", "there is no Docker engine at {}: nothing listens there"),
    ("host", "cannot reach the Docker engine at {}: no such host"),
])  # fmt: skip
def test_an_address_without_an_engine_is_an_error_with_the_address_and_a_remedy(unheard, name, message):
    with pytest.raises(EngineUnreachable) as caught:
        _at(unheard[name]).containers()
    assert str(caught.value) == message.format(unheard[name])
    assert "DOCKER_HOST" in (caught.value.hint or "")


BROKE = (EngineUnreachable, r"the connection to .* broke: .* \(cannot list containers\)", 0)
NO_JSON = (NonsenseAnswer, "answered something that is not JSON", 0)


@pytest.mark.parametrize(("answer", "kind", "message", "status"), [
    (b"", *BROKE),
    (b'HTTP/1.1 200 OK\r\nBroken: 1\r\nContent-Length: 100\r\n\r\n[{"Id": ', *BROKE),
    (b"HTTP/1.1 200 OK\r\nBroken: 1\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n[{", *BROKE),
    (b"what do you want\r\n", *BROKE), (reply(200, ""), *NO_JSON), (reply(200, "<html>"), *NO_JSON),
    (reply(200, "["), *NO_JSON),
    (reply(200, '{"message": "welcome"}'), NonsenseAnswer,
        r"is not a Docker engine.*\(cannot list containers\)", 0),
    (reply(503, "come back later"), EngineRefused, "cannot list containers: come back later", 503),
])  # fmt: skip
def test_an_answer_that_cannot_be_used_is_one_error(tmp_path, answer, kind, message, status):
    with (
        fake_engine(tmp_path, lambda *_: answer) as (_, engine),
        pytest.raises(kind, match=message) as caught,
    ):
        engine.containers()
    assert caught.value.status == status
    assert not re.search(" at 0x|IncompleteRead", str(caught.value))


@pytest.mark.parametrize("ping", [
    reply(200, "hello"),
    *(
        reply(200, "OK", f"Api-Version: {version}", "Server: Docker/1 (x)")
        for version in ("", "x", "../..", "1", "1.41/..", "1.41\x01")
    ),
])  # fmt: skip
def test_a_server_that_names_no_api_version_is_no_engine(tmp_path: Path, ping: bytes):
    with fake_engine(tmp_path, lambda *_: reply(200, "[]")) as (fake, engine):
        fake.ping = ping
        with pytest.raises(EngineUnreachable, match="not a Docker engine: it names no API version"):
            engine.containers()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_socket_of_others_names_the_docker_group(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / "e.sock"))
        closed.listen()
        (tmp_path / "e.sock").chmod(0o600)
        script = (
            "import os; from launcher.schedulers.docker.client.engine import connect\n"
            f"engine = connect(environ={{'DOCKER_HOST': 'unix://{tmp_path}/e.sock'}})\n"
            "os.setegid(65534); os.seteuid(65534)\n"
            "try: engine.containers()\n"
            "except Exception as error: print(type(error).__name__, '|', error, '|', error.hint)\n"
        )
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(0o755)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    kind, message, hint = done.stdout.split(" | ")
    assert kind == EngineUnreachable.__name__, done.stdout
    assert f"access to the Docker engine at unix://{tmp_path}/e.sock is denied" in message
    assert "docker group" in hint


@pytest.mark.parametrize(
    "host", ["garbage", "unix://", "ftp://host", "tcp://", "/var/run/docker.sock", "://x"]
)
def test_a_malformed_host_is_refused_with_the_right_form(host: str):
    with pytest.raises(EngineUnreachable, match="DOCKER_HOST is `") as caught:
        _at(host)
    assert "unix:///path" in (caught.value.hint or "")


@pytest.mark.parametrize("host", [
    *("tcp://:x", "tcp://[::1", "tcp://host:99999999", "tcp://a b", "http://%zz", "ssh://h:x", "tcp://h"),
    f"unix:///{'x' * 107}",
])  # fmt: skip
def test_a_well_formed_but_unusable_host_is_an_error(host: str):
    with pytest.raises(EngineUnreachable, match="cannot use the Docker engine at") as caught:
        _at(host).containers()
    assert "tcp://host:2376" in (caught.value.hint or "")


def test_an_api_version_that_is_too_new_is_reported_with_the_version_of_the_engine(tmp_path: Path):
    message = "client version 1.99 is too new. Maximum supported API version is 1.41"
    answer = reply(400, f'{{"message": "{message}"}}')
    with (
        closing(FakeEngine(tmp_path / "e.sock", lambda *_: answer)) as fake,
        closing(_at(f"unix://{tmp_path}/e.sock", DOCKER_API_VERSION="1.99")) as engine,
        pytest.raises(EngineRefused, match=r"1\.99 is too new.*1\.41") as caught,
    ):
        engine.containers()
    assert "DOCKER_API_VERSION" in (caught.value.hint or "")
    asked = [path for path in fake.asked if not path.endswith("/_ping")]
    assert asked == ["GET /v1.99/containers/json?all=1"]


def test_the_version_is_agreed_on_once(tmp_path: Path):
    with fake_engine(tmp_path, lambda *_: reply(200, "[]")) as (fake, engine):
        engine.containers()
        engine.containers()
    assert fake.asked == ["GET /_ping", *["GET /v1.41/containers/json?all=1"] * 2]


def test_an_engine_that_closed_an_idle_connection_is_asked_on_a_new_connection(tmp_path: Path):
    message = b"HTTP/1.1 200 OK\r\nBroken: 1\r\nContent-Length: 2\r\n\r\n[]"  # and then the fake closes
    with fake_engine(tmp_path, lambda *_: message) as (fake, engine):
        for _ in range(3):
            assert engine.containers() == []
            for connection in fake.threads[1:]:
                connection.join(timeout=60)


@pytest.mark.parametrize("failed", [
    "unable to remove filesystem for x: openfdat y: directory not empty",
    'container x: driver \\"overlay2\\" failed to remove root filesystem: unlinkat: directory not empty',
], ids=["folder", "filesystem"])  # fmt: skip
def test_a_removal_that_the_engine_was_too_busy_for_is_tried_again(tmp_path: Path, failed: str):
    answers = [reply(204, ""), reply(500, f'{{"message": "{failed}"}}')]
    with fake_engine(tmp_path, lambda *_: answers.pop()) as (fake, engine):
        engine.remove("x", force=True)
    assert [each.partition(" ")[0] for each in fake.asked].count("DELETE") == 2


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nBroken: 1\r\n\r\n"
EVENT = b'12\r\n{"Action":"die"}\r\n\r\n'


@pytest.mark.parametrize("rest", [EVENT, EVENT + b"20\r\n{", EVENT + b"0\r\n\r\n"])
def test_the_events_of_an_engine_that_dies_end_with_an_error_after_the_sent_events(tmp_path, rest):
    with fake_engine(tmp_path, lambda *_: HEAD + rest) as (_, engine):
        stream = engine.events()
        assert next(stream).action == "die"
        with pytest.raises(EngineGone, match=r"ended (in the middle of an answer|the stream of its events)"):
            next(stream)


def test_a_log_that_breaks_off_is_an_error(tmp_path: Path):
    sent = HEAD + b"b\r\n\1\0\0\0\0\0\0\3one\r\n40\r\n\1\0\0"
    with fake_engine(tmp_path, lambda *_: sent) as (_, engine):
        stream = engine.log_frames("x")
        assert next(stream) == ("stdout", b"one")
        with pytest.raises(EngineGone):
            next(stream)


@pytest.mark.parametrize(("text", "cause"), [
    (
        "failed to create shim task: OCI runtime create failed: runc create failed: "
        'unable to start container process: exec: "x": executable file not found in $PATH: unknown',
        'exec: "x": executable file not found in $PATH',
    ),
    ("OCI runtime create failed: container_linux.go:380: starting container process caused: x", "x"),
    ("No such image: x:1\n", "No such image: x:1"),
    (
        "driver failed programming external connectivity on endpoint web-0 (2b404fb): "
        "Bind for 127.0.0.1:80 failed: port is already allocated",
        "Bind for 127.0.0.1:80 failed: port is already allocated",
    ),
    (
        f"failed to create task for container: task {'a5' * 32}: already exists: unknown",
        "the engine was killed or restarted in the middle of this start"
        f" (task {'a5' * 32}: already exists)",
    ),
    ("", "the engine did not say why"),
])  # fmt: skip
def test_the_cause_of_a_start_error_is_shown_without_its_wrapping_messages(text: str, cause: str):
    assert cause_of(text) == cause


def test_every_engine_error_is_a_scheduler_error():
    errors = [kind for _, kind in inspect.getmembers(engine_errors, inspect.isclass)]
    ours = [kind for kind in errors if kind.__module__ == engine_errors.__name__]
    assert len(ours) > 5
    assert all(issubclass(kind, SchedulerError) for kind in ours)


WRITING = {"create", "start", "start_on", "stop", "remove", "rename", "create_volume"}
WRITING |= {"ensure_network", "remove_network", "connect"}
WRITING |= {"converse", "restart_always"}
WRITING |= {"remove_volume", "put_archive", "execute", "pull", "build", "tag", "push", "remove_image"}


def test_a_view_has_no_method_that_writes(tmp_path: Path):
    with (
        closing(FakeEngine(tmp_path / "e.sock", lambda *_: reply(200, "[]"))) as fake,
        closing(connect(readonly=True, environ={"DOCKER_HOST": f"unix://{tmp_path}/e.sock"})) as view,
    ):
        assert type(view) is EngineView
        assert {name for name in dir(Engine) if name[0] != "_"} - set(dir(view)) == WRITING
        for holder in (view, *vars(view).values()):
            assert not {"post", "put", "delete", "patch", *WRITING} & set(dir(holder)), holder
        with pytest.raises(ValueError, match="only reads"):
            view._wire.send("POST", "/containers/create", "create")
    assert fake.asked == []


def test_a_view_sends_only_get_and_head_requests(tmp_path: Path):
    def answer(method: str, path: str) -> bytes:
        return (
            reply(404, "{}" if method == "GET" else "")
            if "/x/" in path or "images/x" in path
            else reply(200, '{"NCPU": 2, "MemTotal": 1048576}' if path.endswith("/info") else "{}")
        )

    given: dict[str, tuple[object, ...]] = {"inspect": ("x",), "inspect_all": (["x"],), "image": ("x",)}
    given |= {
        "path_stat": ("x", "/"),
        "read_file": ("x", "/", 1),
        "volume": ("x",),
        "executed": ("x",),
        "past_events": ("x", 1.0),
        "usage": ("x",),
    }
    unasked = ("close", "volumes", "inspect_within", "environment")  # which ask as `inspect` does
    with (
        closing(FakeEngine(tmp_path / "e.sock", answer)) as fake,
        closing(connect(readonly=True, environ={"DOCKER_HOST": f"unix://{tmp_path}/e.sock"})) as view,
    ):
        calls = {name: call for name, call in inspect.getmembers(view, inspect.ismethod) if name[0] != "_"}
        for name, call in calls.items():
            if name == "log_frames":
                call("y").close()
            elif name == "archive":
                list(call("y", "/"))
            elif name == "events":
                call().close()
            elif name not in unasked:
                call(*given.get(name, ()))
    assert len(fake.asked) >= len(calls) - len(unasked)
    assert {asked.split()[0] for asked in fake.asked} == {"GET", "HEAD"}


def test_an_image_that_another_client_removes_meanwhile_is_gone(tmp_path: Path):
    message = reply(500, '{"message":"unrecognized image ID sha256:bccdcb5184b1"}')
    with fake_engine(tmp_path, lambda *_: message) as (fake, engine):
        engine.remove_image("sha256:bccdcb5184b1")
    assert any("/images/sha256:bccdcb5184b1" in each for each in fake.asked)


@pytest.mark.parametrize("text", [f"task {'a' * 64}: already exists: unknown", "id already in use"])
def test_a_start_that_an_engine_cut_short_as_it_ended_is_not_asked_for_again(text: str) -> None:
    error = refusal(500, text, "start c")
    assert is_half_started(error)
    assert not may_pass(error)
