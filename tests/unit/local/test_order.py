"""Roles that wait for each other and end with the app: what the supervisor does, step by step."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.unit.local.driving import Driven, replicas, sh

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


def test_a_client_starts_when_the_server_is_ready_and_ends_the_app(app: Driven) -> None:
    port = free_port()
    code = f"import socket; print(socket.create_connection(('localhost',{port})).recv(9).decode())"
    view = app.run(
        _server(app, port), app.role("main", ["python3", "-c", code], rules=_needs("server", "ready"))
    )
    assert (view.state, app.log()) == ("succeeded", "hello\n")
    assert [(each.role, each.state, each.message) for each in replicas(view)] == [
        ("server", "cancelled", "stopped at the end of the app"),
        ("main", "succeeded", ""),
    ]
    assert app.left() == []


def test_the_start_is_accepted_before_the_roles_that_wait(app: Driven) -> None:
    app.start(
        _server(app, free_port(), after_s=1000),
        app.role("main", sh("true"), rules=_needs("server", "ready")),
    )
    assert (app.view.state, app.replica().state) == ("running", "pending")
    assert app.replica().message == "waiting for server (ready)"
    app.cancel()
    view = app.ended()
    assert (view.state, [each.state for each in replicas(view)]) == ("cancelled", ["cancelled", "cancelled"])
    assert app.left() == []


def test_a_service_that_ends_with_0_has_not_failed(app: Driven) -> None:
    wait = "echo $$ >../pid; until [ -e ../stop ]; do sleep 0.01; done"
    outlives = (
        "until [ -s ../pid ]; do :; done; touch ../stop; while kill -0 $(cat ../pid); do sleep 0.01; done"
    )
    view = app.run(
        app.role("server", sh(wait), cwd=app.app_dir, rules={"service": True}),
        app.role("main", sh(outlives), cwd=app.app_dir),
    )
    assert (view.state, [each.state for each in replicas(view)]) == ("succeeded", ["succeeded", "succeeded"])


def test_a_service_that_fails_fails_the_app(app: Driven) -> None:
    view = app.run(
        app.role("server", sh("exit 3"), rules={"service": True}),
        app.role("main", ["sleep", "1000"]),
    )
    assert (view.state, view.message) == ("failed", "server/0 exited with 3")


def test_a_service_is_started_again_by_its_policy(app: Driven) -> None:
    server = app.role("server", sh("[ $LAUNCHER_RESTART = 1 ] || exit 3; touch up; sleep 1000"), retries=1)
    server |= {"retry_policy": "REPLICA", "rules": {"service": True, "ready": {"file": "up"}}}
    view = app.run(server, app.role("main", sh("true"), rules=_needs("server", "ready")))
    assert (view.state, view.num_restarts) == ("succeeded", 1)


def test_succeeded_waits_for_every_replica(app: Driven) -> None:
    view = app.run(
        app.role("last", sh("cat a b"), rules=_needs("first", "succeeded")),
        app.role("first", sh("sleep 0.2; echo 1 >a"), sh("echo 2 >b")),
    )
    assert (view.state, app.log("last")) == ("succeeded", "1\n2\n")


def test_what_an_earlier_role_makes_need_not_exist_before(app: Driven) -> None:
    make = "printf '#!/bin/sh\\necho made' >tool; chmod +x tool"
    view = app.run(
        app.role("build", sh(make)),
        app.role("main", ["./tool"], rules=_needs("build", "succeeded")),
    )
    assert (view.state, app.log()) == ("succeeded", "made\n")


def test_a_later_role_without_its_program_is_found_at_create(app: Driven) -> None:
    answer = app.create(
        app.role("first", sh("true")), app.role("main", ["nosuch"], rules=_needs("first", "started"))
    )
    assert "no such executable: nosuch" in answer["error"]


def test_a_later_role_that_cannot_start_fails_the_app(app: Driven) -> None:
    view = app.run(
        app.role("build", sh("true")),
        app.role("main", ["./nosuch"], rules=_needs("build", "succeeded")),
        app.role("other", ["sleep", "1000"]),
    )
    assert view.state == "failed"
    assert view.message.startswith("main/0 could not be started: no such executable: ./nosuch")


def test_a_server_that_ends_before_it_is_ready_leaves_no_one_waiting(app: Driven) -> None:
    view = app.run(
        app.role("server", sh("true"), rules={"service": True, "ready": {"file": "up"}}),
        app.role("main", sh("true"), rules=_needs("server", "ready")),
    )
    assert view.state == "failed"
    assert view.message == "server/0 ended before it was ready, and main waits for it"


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ({"port": 1}, "nothing listens on port 1"),
        *(
            pytest.param(probe, why, marks=pytest.mark.slow)
            for probe, why in (
                ({"http": "/health", "port": 1}, "nothing listens on port 1"),
                ({"file": "up"}, "there is no file up"),
                ({"file": "old"}, "the file old is older than the replica"),
                ({"command": ["sh", "-c", "exit 7"]}, "`sh` exited with 7"),
                ({"command": ["sleep", "1000"]}, "`sleep` has not ended yet"),
            )
        ),
    ],
    ids=str,
)
def test_a_replica_that_is_not_ready_in_time_has_failed(app: Driven, probe: dict[str, Any], why: str) -> None:
    (Path(app.cwd) / "old").touch()
    os.utime(Path(app.cwd) / "old", (1, 1))
    view = app.run(
        app.role("main", ["sleep", "1000"], rules={"ready": {**probe, "timeout": 2, "every": 0.1}}),
        app.role("other", ["sleep", "1000"]),
    )
    assert (view.state, view.message) == ("failed", f"main/0 was not ready after 2 s: {why}")
    assert [each.state for each in replicas(view)] == ["failed", "cancelled"]
    assert app.left() == []


@pytest.mark.slow
def test_a_late_replica_is_started_again_by_its_policy(app: Driven) -> None:
    argv = sh("[ $LAUNCHER_RESTART = 0 ] || touch up; sleep 1000")
    server = app.role("server", argv, retries=1, policy="REPLICA")
    server["rules"] = {"service": True, "ready": {"file": "up", "timeout": 5}}
    view = app.run(server, app.role("main", sh("true"), rules=_needs("server", "ready")), grace_s=1.0)
    assert (view.state, view.num_restarts) == ("succeeded", 1)


@pytest.mark.parametrize(
    ("answer", "is_ready"),
    [
        ("200 OK", True),
        ("302 Found", True),
        pytest.param("503 Busy", False, marks=pytest.mark.slow),
        pytest.param("", False, marks=pytest.mark.slow),
    ],
)
def test_http_is_ready_with_2xx_and_3xx(app: Driven, answer: str, is_ready: bool) -> None:
    port = free_port()
    reply = f"HTTP/1.1 {answer}\\r\\n\\r\\n" if answer else "hello you there"
    code = SERVE + f"\nwhile 1: c,_=s.accept(); c.recv(999); c.sendall(b'{reply}'); c.close()"
    server = app.role("server", ["python3", "-c", code, str(port), "0"])
    server["rules"] = {
        "service": True,
        "ready": {"http": "/", "port": port, "timeout": 30 if is_ready else 3},
    }
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


def test_a_port_that_is_taken_is_refused_by_name(app: Driven) -> None:
    with _taken() as port:
        assert app.create(_server(app, port), app.role("main", sh("true"))) == {"ok": "created"}
        answer = app.go()
    assert answer["error"].startswith(f"port {port} is in use by another process")
    assert answer["role"] == "server"
    assert not Path(app.app_dir).exists()


def test_a_port_that_is_taken_later_fails_the_app(app: Driven) -> None:
    with _taken() as port:
        server = _server(app, port)
        server["rules"]["depends_on"] = {"first": "succeeded"}
        view = app.run(server, app.role("first", sh("true")), app.role("main", ["sleep", "1000"]))
    assert view.message.startswith(f"server/0 could not be started: port {port} is in use")


def test_a_restart_of_the_whole_app_starts_roles_in_order_again(app: Driven) -> None:
    """The file of the first round is too old for the second."""
    server = app.role("server", sh("sleep 0.3; touch up; sleep 1000"))
    server["rules"] = {"service": True, "ready": {"file": "up"}}
    main = app.role("main", sh("exit $((1 - LAUNCHER_RESTART))"), retries=1, rules=_needs("server", "ready"))
    view = app.run(server, main)
    assert (view.state, view.num_restarts) == ("succeeded", 1)
    events = [json.loads(line) for line in app.record.splitlines()]
    again = events[[event["e"] for event in events].index("restart") :]
    assert [event["e"] for event in again[:4]] == ["restart", "spawn", "ready", "spawn"]
    assert again[2]["t"] - again[1]["t"] >= 0.2e9


def test_the_time_limit_counts_from_the_first_start(app: Driven) -> None:
    app.start(
        app.role(
            "server", ["sleep", "1000"], rules={"service": True, "ready": {"file": "never", "timeout": 600}}
        ),
        app.role("main", sh("true"), rules=_needs("server", "ready")),
        timeout_s=0.3,
    )
    view = app.ended()
    assert (view.state, view.message) == ("failed", "timed out after 0.3 s")
    assert [each.state for each in replicas(view)] == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("event", "n", "state"),
    [
        ("started", 1, "lost"),
        ("ready", 1, "lost"),
        ("spawn", 2, "lost"),
        ("exit", 1, "succeeded"),
        ("stopping", 1, "succeeded"),
        ("exit", 2, "succeeded"),
        ("ended", 1, "succeeded"),
    ],
)
def test_the_record_decides_when_the_supervisor_dies(tmp_path: Path, event: str, n: int, state: str) -> None:
    app = Driven(tmp_path / "app", dies_at=(event, n))
    try:
        server = app.role(
            "server", sh("touch up; sleep 1000"), rules={"service": True, "ready": {"file": "up"}}
        )
        main = app.role("main", sh("sleep 0.1"), rules=_needs("server", "ready"))
        assert app.create(server, main) == {"ok": "created"}
        app.go()
        app.exited()
        assert app.view.state == state
    finally:
        app.destroy()
    assert app.left() == []
