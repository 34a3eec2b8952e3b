"""Roles that wait for each other and end with the app: what the supervisor does, step by step."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.unit.local.driving import Driven, sh, states

SERVE = (
    "import socket,sys,time; time.sleep(float(sys.argv[2]));"
    " s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); "
)
ECHO = SERVE + "\nwhile 1: c,_=s.accept(); c.sendall(b'hello'); c.close()"


def _server(app: Driven, port: int, *, after_s: float = 0.3, **rules: Any) -> dict[str, Any]:
    made = {"service": True, "ready": {"port": port, "timeout": 30}, **rules}
    return app.role("server", ["python3", "-c", ECHO, str(port), str(after_s)], rules=made)


def _needs(role: str, condition: str) -> dict[str, Any]:
    return {"depends_on": {role: condition}}


def test_a_program_that_an_earlier_role_makes_need_not_exist_before(app: Driven) -> None:
    make = "printf '#!/bin/sh\\necho made' >tool; chmod +x tool"
    rules = _needs("build", "succeeded")
    view = app.run(app.role("build", sh(make)), app.role("main", ["./tool"], rules=rules))
    assert (view.state, app.log()) == ("succeeded", "made\n")


def test_a_later_role_without_its_program_is_found_at_create(app: Driven) -> None:
    main = app.role("main", ["nosuch"], rules=_needs("first", "started"))
    answer = app.create(app.role("first", sh("true")), main)
    assert "no such executable: nosuch" in answer["error"]


def test_a_later_role_that_cannot_start_fails_the_app(app: Driven) -> None:
    view = app.run(
        app.role("build", sh("true")),
        app.role("main", ["./nosuch"], rules=_needs("build", "succeeded")),
        app.role("other", ["sleep", "1000"]),
    )
    assert view.state == "failed"
    assert view.message.startswith("main/0 could not be started: no such executable: ./nosuch")


@pytest.mark.parametrize(("probe", "why"), [
    ({"port": 1}, "nothing listens on port 1"),
    *(
        pytest.param(probe, why, marks=pytest.mark.slow)
        for probe, why in (
            ({"file": "old"}, "the file old is older than the replica"),
            ({"command": ["sh", "-c", "exit 7"]}, "`sh` exited with 7"),
            ({"command": ["sleep", "1000"]}, "`sleep` has not ended yet"),
        )
    ),
], ids=str)  # fmt: skip
def test_a_replica_that_is_not_ready_in_time_has_failed(app: Driven, probe: dict[str, Any], why: str) -> None:
    (Path(app.cwd) / "old").touch()
    os.utime(Path(app.cwd) / "old", (1, 1))
    view = app.run(
        app.role("main", ["sleep", "1000"], rules={"ready": {**probe, "timeout": 2, "every": 0.1}}),
        app.role("other", ["sleep", "1000"]),
    )
    assert (view.state, view.message) == ("failed", f"main/0 was not ready after 2 s: {why}")
    assert states(view) == ["failed", "cancelled"]
    assert app.left() == []


@pytest.mark.parametrize(
    ("answer", "is_ready"), [("302 Found", True), pytest.param("503 Busy", False, marks=pytest.mark.slow)]
)
def test_http_is_ready_with_2xx_and_3xx(app: Driven, answer: str, is_ready: bool) -> None:
    port = free_port()
    reply = f"HTTP/1.1 {answer}\\r\\n\\r\\n"
    code = SERVE + f"\nwhile 1: c,_=s.accept(); c.recv(999); c.sendall(b'{reply}'); c.close()"
    server = app.role("server", ["python3", "-c", code, str(port), "0"])
    ready = {"http": "/", "port": port, "timeout": 30 if is_ready else 3}
    server["rules"] = {"service": True, "ready": ready}
    view = app.run(server, app.role("main", sh("true"), rules=_needs("server", "ready")))
    assert view.state == ("succeeded" if is_ready else "failed"), view.message


def test_a_probe_command_runs_as_the_replica_does(app: Driven) -> None:
    probe = {"command": ["sh", "-c", 'test "$COLOUR" = red && test -e here']}
    server = app.role("server", sh("touch here; sleep 1000"), env={"COLOUR": "red"})
    server["rules"] = {"service": True, "ready": probe}
    assert app.run(server, app.role("main", sh("true"), rules=_needs("server", "ready"))).state == "succeeded"


@contextmanager
def _taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found.getsockname()[1]


def test_a_port_that_is_taken_later_fails_the_app(app: Driven) -> None:
    with _taken() as port:
        server = _server(app, port)
        server["rules"]["depends_on"] = {"first": "succeeded"}
        view = app.run(server, app.role("first", sh("true")), app.role("main", ["sleep", "1000"]))
    assert view.message.startswith(f"server/0 could not be started: port {port} is in use")
