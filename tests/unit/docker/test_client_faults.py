"""The client with engines that fail for a moment, hang, answer nonsense, or are not Docker."""

import contextlib
import json
import os
import socket
from pathlib import Path

import pytest

from launcher.schedulers.docker.client import wire
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import (
    Conflict,
    ConnectionBroke,
    EngineError,
    EngineUnreachable,
    EngineUnsupported,
    NotFound,
)
from launcher.schedulers.docker.client.transport import SshDialer
from launcher.schedulers.docker.client.wire import other_engine
from launcher.schedulers.docker.log_reader import LogsGone, open_log
from launcher.schedulers.logs import LogPart
from tests.unit.docker.fake_engine import PODMAN_PING, fake_engine, reply

CUT_OFF = b"HTTP/1.1 200 OK\r\nBroken: 1\r\nContent-Length: 100\r\n\r\n["


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize(
    "fault",
    [reply(500, "{}"), reply(502, "<html>"), reply(503, "busy"), reply(200, "["), CUT_OFF, b"", b"what?\r\n"],
    ids=["500", "502", "503", "no JSON", "cut off", "hung up", "no HTTP"],
)
def test_a_read_is_retried_twice_when_the_engine_fails(tmp_path: Path, fault: bytes) -> None:
    answers = [reply(200, "[]"), fault, fault]
    with fake_engine(tmp_path, lambda *_: answers.pop()) as (fake, engine):
        assert engine.containers() == []
    assert len(fake.asked) == 1 + 3
    with fake_engine(tmp_path / "twice", lambda *_: fault) as (fake, engine), pytest.raises(EngineError):
        engine.containers()
    assert len(fake.asked) == 1 + 3


def test_the_first_ping_is_retried_too(tmp_path: Path) -> None:
    with fake_engine(tmp_path, lambda *_: reply(200, "[]")) as (fake, engine):
        fake.ping = reply(503, "starting")
        with pytest.raises(EngineError, match="starting"):
            engine.containers()
        assert fake.asked == ["GET /_ping"] * 3
        fake.ping = None
        assert engine.containers() == []


@pytest.mark.parametrize("at", ["Content-Len", "Content-Length: 0\r\n"])
@pytest.mark.parametrize(("ask", "tries"), [
    (lambda engine: engine.containers(), 3),
    (lambda engine: list(engine.log_frames("x")), 3),
    (lambda engine: list(engine.events()), 4),  # it asks for the engine's time first
    (lambda engine: engine.start("x"), 1),
    (lambda engine: engine.create("x", {}), 1),
], ids=["list", "logs", "events", "start", "create"])  # fmt: skip
def test_a_head_that_ends_with_the_connection_is_no_answer(tmp_path, ask, tries, at):
    fault = f"HTTP/1.1 200 OK\r\n{at}".encode()
    with fake_engine(tmp_path, lambda *_: fault) as (fake, engine):
        with pytest.raises(ConnectionBroke, match="in the middle of an answer"):
            ask(engine)
        assert len(fake.asked) == 1 + tries


@pytest.mark.parametrize("status", [400, 404, 409, 501])
def test_a_request_whose_answer_will_not_change_is_not_retried(tmp_path: Path, status: int) -> None:
    with fake_engine(tmp_path, lambda *_: reply(status, "{}")) as (fake, engine), pytest.raises(EngineError):
        engine.containers()
    assert len(fake.asked) == 1 + 1


@pytest.mark.parametrize("fault", [reply(500, "{}"), reply(503, "busy"), b""], ids=["500", "503", "hung up"])
@pytest.mark.parametrize("change", [
    lambda engine: engine.create("x", {}), lambda engine: engine.start("x"),
    lambda engine: engine.remove("x"), lambda engine: engine.execute("x", ["true"]),
    lambda engine: engine.put_archive("x", "/", b""),
], ids=["POST create", "POST start", "DELETE", "POST exec", "PUT"])  # fmt: skip
def test_a_request_that_changes_the_engine_is_not_retried(tmp_path, change, fault):
    with fake_engine(tmp_path, lambda *_: fault) as (fake, engine), pytest.raises(EngineError):
        change(engine)
    assert len(fake.asked) == 1 + 1


NONSENSE = {
    "containers": lambda engine: engine.containers(),
    "inspect": lambda engine: engine.inspect("x"),
    "engine id": lambda engine: engine.engine_id(),
    "image": lambda engine: engine.image("x"),
    "volumes": lambda engine: engine.volumes(),
    "networks": lambda engine: engine.networks(),
    "ensure network": lambda engine: engine.ensure_network("x", {}),
    "create": lambda engine: engine.create("x", {}),
    "create volume": lambda engine: engine.create_volume("x", {}),
    "file": lambda engine: engine.path_stat("x", "/"),
    "execute": lambda engine: engine.execute("x", ["true"]),
    "executed": lambda engine: engine.executed("x"),
    "events": lambda engine: list(engine.events()),
    "pull": lambda engine: engine.pull("x"),
}


@pytest.mark.parametrize("body", ["7", '"x"', "[3]", '{"Id": []}', "[{}]", '[["Id"]]', "\0\xff"])
def test_a_nonsense_answer_raises_only_launcher_errors(tmp_path: Path, body: str) -> None:
    with fake_engine(tmp_path, lambda *_: reply(200, body)) as (_, engine):
        for call in NONSENSE.values():
            with contextlib.suppress(EngineError):
                call(engine)


def test_an_engine_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "VERSION_S", 0.2)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "e.sock"))
        mute.listen()
        engine = connect(environ={"DOCKER_HOST": f"unix://{tmp_path}/e.sock"})
        with pytest.raises(
            EngineUnreachable, match=r"did not answer in time \(cannot list containers\)"
        ) as e:
            engine.containers()
        engine.close()
    assert "docker network ls" in (e.value.hint or "")


def test_a_full_queue_of_clients_is_waited_for(tmp_path: Path) -> None:
    with fake_engine(tmp_path, lambda *_: reply(200, "[]")) as (fake, engine):
        with socket.socket(socket.AF_UNIX) as full:
            path = str(tmp_path / "full.sock")
            full.bind(path)
            full.listen(0)
            with socket.socket(socket.AF_UNIX) as first:
                first.connect(path)
                waiting = connect(environ={"DOCKER_HOST": f"unix://{path}"})
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(wire, "VERSION_S", 0.2)
                    with pytest.raises(EngineUnreachable, match="too many clients wait for it"):
                        waiting.containers()
                waiting.close()
        assert engine.containers() == []
        assert fake.asked


# Engines of others.

PODMAN = """{"Platform": {"Name": "linux/amd64/debian-12"}, "Version": "4.3.1", "ApiVersion": "1.41",
 "Components": [{"Name": "Podman Engine", "Version": "4.3.1", "Details": {"APIVersion": "4.3.1"}},
                {"Name": "Conmon", "Version": "conmon version 2.1.6"}]}"""
DOCKER = (
    '{"Version": "20.10.24", "Components": [{"Name": "Engine", "Version": "20.10.24"}, {"Name": "runc"}]}'
)


@pytest.mark.parametrize("call", [call for call in NONSENSE if call != "ensure network"])
def test_podman_is_refused_by_name(tmp_path: Path, call: str) -> None:
    with fake_engine(tmp_path, lambda *_: reply(200, PODMAN)) as (fake, engine):
        fake.ping = PODMAN_PING
        with pytest.raises(
            EngineUnsupported, match=r"is Podman Engine 4\.3\.1, and launcher supports"
        ) as caught:
            NONSENSE[call](engine)
        assert fake.asked == ["GET /_ping", "GET /version"]
    assert "set DOCKER_HOST to a Docker engine" in (caught.value.hint or "")


def test_podman_is_refused_with_a_given_api_version_too(tmp_path: Path) -> None:
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/e.sock", "DOCKER_API_VERSION": "1.40"}
    with fake_engine(tmp_path, lambda *_: reply(200, PODMAN)) as (fake, _):
        fake.ping = PODMAN_PING
        with contextlib.closing(connect(environ=environ)) as engine, pytest.raises(EngineUnsupported):
            engine.containers()


@pytest.mark.parametrize("version", [DOCKER, "[]", "{}", "no JSON", '{"Components": null}'])
def test_docker_behind_a_proxy_is_accepted(tmp_path: Path, version: str) -> None:
    def answer(_: str, path: str) -> bytes:
        return reply(200, version if path == "/version" else "[]")

    with fake_engine(tmp_path, answer) as (fake, engine):
        fake.ping = reply(200, "OK", "Api-Version: 1.41", "Server: nginx")
        assert engine.containers() == []
        assert engine.containers() == []
    assert fake.asked.count("GET /version") == 1


@pytest.mark.parametrize(("version", "name"), [
    ({"Components": [{"Name": "Engine"}, {"Name": "Podman Engine"}]}, ""),
    ({"Components": [{"Name": "Conmon"}, {"Name": "Podman Engine", "Version": "5.0"}]}, "Podman Engine 5.0"),
    ({"Components": [{"Name": "nerdctl"}]}, "nerdctl"), ({"Components": [7, {}]}, ""), ([], ""),
])  # fmt: skip
def test_an_engine_is_known_by_its_components(version: object, name: str) -> None:
    assert other_engine(version) == name


def test_a_missing_container_is_still_none(tmp_path: Path) -> None:
    with fake_engine(tmp_path, lambda *_: reply(404, '{"message": "no such container"}')) as (_, engine):
        assert engine.inspect("x") is None
        with pytest.raises(NotFound):
            engine.start("x")


INSPECTED = (
    '{"Id": "c", "Name": "/c", "Image": "i", "State": {"Status": "%s"}, '
    '"Config": {"Labels": {}}, "HostConfig": {}, "NetworkSettings": {"Networks": {}}}'
)


@pytest.mark.parametrize(("inspected", "is_gone"), [
    (reply(200, INSPECTED % "removing"), True), (reply(200, INSPECTED % "dead"), True),
    (reply(404, '{"message":"No such container: c"}'), True), (reply(200, INSPECTED % "running"), False),
    (reply(500, "{}"), False),
], ids=["removing", "dead", "removed", "running", "unknown"])  # fmt: skip
def test_a_path_in_a_container_that_is_being_removed_is_gone(tmp_path, inspected, is_gone):
    def answer(_: str, path: str) -> bytes:
        return inspected if path.endswith("/containers/c/json") else reply(500, "")

    with fake_engine(tmp_path, answer) as (_, engine):
        if is_gone:
            assert engine.path_stat("c", "/tmp") is None
            assert engine.read_file("c", "/tmp/x", 1) is None
        else:
            with pytest.raises(EngineError, match=r"cannot (look at /tmp in|inspect) c"):
                engine.path_stat("c", "/tmp")


def test_a_command_in_a_container_that_is_being_removed_is_a_conflict(tmp_path: Path) -> None:
    refusal = '{"message": "Container 0123 is not running: Removal In Progress"}'

    def answer(_: str, path: str) -> bytes:
        return reply(201, '{"Id": "x"}') if path.endswith("/containers/c/exec") else reply(500, refusal)

    with fake_engine(tmp_path, answer) as (_, engine), pytest.raises(Conflict, match="Removal In Progress"):
        engine.converse("c", ["true"])


@pytest.mark.parametrize(("status", "why"), [
    (404, "No such container: x"),
    (409, "can not get logs from container which is dead or marked for removal"),
])  # fmt: skip
def test_the_log_of_a_container_that_is_removed_now_or_was_before_is_gone(tmp_path, status, why):
    answer = reply(status, json.dumps({"message": why}))
    with fake_engine(tmp_path, lambda *_: answer) as (_, engine), pytest.raises(LogsGone):
        open_log(engine, "x", LogPart())


def test_the_last_line_of_ssh_is_shown_on_one_line_cut_and_safe_for_a_terminal(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    said = r"\033[31mwarning\033[0m\nkex\rlost \033[2J %0300d end\r\n\n"
    ssh.write_text(f"#!/bin/sh\nprintf '{said}' 0 >&2\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    dialer = SshDialer("ssh://gpu")
    with dialer.dial(10) as connection:
        assert connection.recv(1) == b""
    shown = dialer.error_output()
    dialer.close()
    assert shown.startswith(r"lost \x1b[2J 000")
    assert shown.endswith("000 end")
    assert len(shown) <= 160
