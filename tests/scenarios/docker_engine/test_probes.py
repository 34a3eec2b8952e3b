"""Probes of replicas on the real engine."""

import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.client.configuration import is_on_this_host
from launcher.schedulers.docker.client.engine import connect
from launcher.schedulers.docker.client.errors import EngineUnreachable
from launcher.schedulers.docker.watching import probes
from launcher.schedulers.docker.watching.probes import ANSWER_S, why_not_ready
from launcher.specs import AppDef, AppState, Probe
from tests.contract.conftest import DockerCase
from tests.engines.docker import Daemon
from tests.engines.images import LABEL
from tests.ports import free_port
from tests.scenarios.docker_engine.bench import Bench
from tests.unit.docker.fake_engine import fake_engine, reply
from tests.waiting import until

PORT = 7000
FOREVER = "exec sleep 1000"
Wanted = dict[str, Any]


def why(own: Bench, made: str, probe: Wanted, limit_s: float = 20.0) -> str:
    seen = own.engine.inspect(made)
    assert seen is not None
    return why_not_ready(own.engine, seen, probe, limit_s=limit_s)


def becomes_ready(own: Bench, made: str, probe: Wanted) -> None:
    until(lambda: why(own, made, probe) == "")


@pytest.fixture
def serve(own: Bench) -> Callable[..., str]:
    """A function that starts a container which answers each connection with a script."""

    def start(script: str, mode: str = "", port: int = PORT) -> str:
        mode = mode or f"{own.token}-net"
        own.engine.ensure_network(f"{own.token}-net", own.labels())
        nc = f"exec nc -ll -p {port} -e sh -c '{script}'"
        return own.sh(nc, HostConfig={"NetworkMode": mode})

    return start


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make probes wait longer than a server takes on a busy machine."""
    monkeypatch.setattr(probes, "ANSWER_S", 60.0)


# -- port and http -----------------------------------------------------------------------------------------


def test_a_port_probe_succeeds_when_a_process_listens_on_the_port(own, serve):
    becomes_ready(own, made := serve(""), {"port": PORT})
    assert why(own, made, {"port": PORT + 1}) == f"nothing listens on port {PORT + 1}"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("script", "message"), [
    ("read line; echo HTTP/1.1 204 No Content", ""),
    ("yes", "GET / on port 7000 has an answer that is not HTTP"),
], ids=["good", "endless"])  # fmt: skip
def test_an_http_probe_judges_the_first_line_of_an_answer(own, serve, script, message):
    """Which lines are good: tests/unit/schedulers/test_probes.py."""
    becomes_ready(own, made := serve(script), {"port": PORT})
    assert why(own, made, {"http": "/", "port": PORT}) == message


@pytest.mark.parametrize(
    "script",
    ["exec sleep 1000", "for c in H T T P / 1 . 1 2 3 4; do printf $c; sleep 0.4; done"],
    ids=["none", "slow"],
)
def test_an_http_probe_waits_for_an_answer_for_a_limited_time(own, serve, script):
    becomes_ready(own, made := serve(script), {"port": PORT})
    message = why(own, made, {"http": "/", "port": PORT})
    assert message == f"GET / on port {PORT} has no answer within {ANSWER_S:g} s"


@pytest.mark.usefixtures("patient")
def test_an_http_probe_accepts_an_endless_answer_after_its_first_line(own, serve):
    becomes_ready(own, made := serve("echo HTTP/1.0 200 OK; exec yes"), {"port": PORT})
    assert why(own, made, {"http": "/", "port": PORT}) == ""


def test_a_replica_on_the_network_of_the_host_is_probed_on_that_network(own, serve):
    port = free_port()
    becomes_ready(own, serve("", mode="host", port=port), {"port": port})


def test_a_replica_on_the_network_of_another_container_is_probed_on_that_network(own, serve):
    serve("")
    joined = own.sh(FOREVER, k=1, HostConfig={"NetworkMode": f"container:{own.name(0)}"})
    becomes_ready(own, joined, {"port": PORT})


def test_a_port_probe_fails_for_a_replica_without_a_network(own: Bench) -> None:
    made = own.sh(FOREVER)
    assert why(own, made, {"port": PORT}) == f"port {PORT} cannot be reached: the replica has no network"


# -- file --------------------------------------------------------------------------------------------------


def test_a_file_probe_is_relative_to_the_working_directory(own: Bench) -> None:
    made = own.sh(f"touch ready; {FOREVER}", WorkingDir="/work")
    becomes_ready(own, made, {"file": "ready"})
    assert why(own, made, {"file": "/work/ready"}) == ""
    assert why(own, made, {"file": "missing"}) == "there is no file missing"


def test_a_file_that_a_replica_writes_first_makes_the_replica_ready(own: Bench) -> None:
    """The engine sets the time of the start after the process began."""
    for k in range(5):
        becomes_ready(own, own.sh(f": >/ready; {FOREVER}", k=k), {"file": "/ready"})


def test_a_file_of_the_image_does_not_make_a_replica_ready(own: Bench) -> None:
    made = own.sh(FOREVER)
    assert why(own, made, {"file": "etc/passwd"}) == "the file etc/passwd is older than the replica"


def test_an_older_file_in_a_volume_does_not_make_a_replica_ready(own: Bench) -> None:
    own.engine.create_volume(volume := f"{own.token}-volume", own.labels())
    mount = {"Binds": [f"{volume}:/data"]}
    own.ended(own.sh("touch /data/ready", HostConfig=mount))
    time.sleep(0.05)  # beyond the resolution of the file system
    made = own.sh(
        "until test -e /go; do sleep 0.01; done; >/data/ready; exec sleep 1000", 1, HostConfig=mount
    )
    assert why(own, made, {"file": "/data/ready"}) == "the file /data/ready is older than the replica"
    own.engine.execute(made, ["touch", "/go"])
    becomes_ready(own, made, {"file": "../data/ready"})


def test_a_file_probe_follows_no_dots_and_links_out_of_the_container(own: Bench, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").touch()
    made = own.sh(f"ln -s {outside} /link; ln -s /loop /loop; ln -s /bin/../x /dots; echo >/x; {FOREVER}")
    becomes_ready(own, made, {"file": "dots"})
    up = "../" * 20
    for name in (f"{up}{outside}", str(outside), "link", f"{up}var/run/docker.sock"):
        assert why(own, made, {"file": name}) == f"there is no file {name}"
    assert why(own, made, {"file": "loop"}) == "the file loop cannot be seen: Internal Server Error"


@pytest.fixture
def static_image(token: str, tmp_path: Path) -> Iterator[str]:
    """An image of one program: no shell, no other file."""
    program = shutil.which("busybox")
    assert program
    with tarfile.open(archive := tmp_path / "image.tar", "w") as tar:
        tar.add(program, "busybox")
    name = f"launcher-test/static:{token}"
    label = f"LABEL {LABEL}=1"
    subprocess.run(["docker", "import", "-c", label, str(archive), name], check=True, capture_output=True)
    yield name
    Daemon().remove_image(name)


def test_a_file_probe_needs_no_tool_in_the_image(own: Bench, static_image: str) -> None:
    made = own.create("/busybox", "tee", "/ready", Image=static_image, OpenStdin=True)
    own.engine.start(made)
    becomes_ready(own, made, {"file": "ready"})
    assert why(own, made, {"file": "busybox"}) == "the file busybox is older than the replica"
    assert "executable file not found" in why(own, made, {"command": ["sh", "-c", "true"]})


# -- command -----------------------------------------------------------------------------------------------


def test_a_command_probe_runs_with_the_user_environment_and_folder_of_the_replica(own: Bench) -> None:
    made = own.sh(FOREVER, WorkingDir="/work", User="65534", Env=["WHO=me"])
    test = 'test "$WHO:$(id -u):$(pwd)" = me:65534:/work'
    assert why(own, made, {"command": ["sh", "-c", test]}) == ""
    assert why(own, made, {"command": ["sh", "-c", "exit 3"]}) == "`sh` exited with 3"


def test_a_command_probe_reports_a_missing_command(own: Bench) -> None:
    message = why(own, own.sh(FOREVER), {"command": ["no-such-program", "-x"]})
    assert message == 'exec: "no-such-program": executable file not found in $PATH'


def test_a_command_probe_waits_for_a_command_that_does_not_end_and_runs_it_once(own: Bench) -> None:
    made = own.sh(FOREVER)
    probe = {"command": ["sh", "-c", "echo >>/runs; until test -e /end; do sleep 0.01; done"]}
    for _ in range(3):
        assert why(own, made, probe, limit_s=0.1) == "`sh` has not ended yet"
    becomes_ready(own, made, {"command": ["sh", "-c", "test $(wc -l </runs) = 1"]})
    own.engine.execute(made, ["touch", "/end"])
    assert why(own, made, probe) == ""


# -- replicas that do not run ------------------------------------------------------------------------------

ALL: list[Wanted] = [{"port": PORT}, {"http": "/", "port": PORT}, {"file": "/bin/sh"}, {"command": ["true"]}]


def test_a_replica_that_does_not_run_is_not_ready(own: Bench) -> None:
    seen = own.engine.inspect(own.create("true"))

    def reasons() -> set[str]:
        return {why_not_ready(own.engine, seen, probe, limit_s=1.0) for probe in ALL}

    assert reasons() == {"its container is created"}
    own.engine.start(seen.id)
    own.ended(seen.id)
    assert reasons() == {"its container is exited"}
    own.engine.remove(seen.id, force=True)
    assert reasons() == {"its container is gone"}


def test_a_command_probe_fails_when_its_replica_ends_meanwhile(own: Bench) -> None:
    made = own.sh("sleep 1")
    assert why(own, made, {"command": ["sleep", "1000"]})
    assert own.ended(made)


# -- engines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("host", "is_here"), [
    ("unix:///var/run/docker.sock", True),
    ("tcp://127.0.0.1:2375", True),
    ("tcp://localhost:2375", True),
    ("tcp://[::1]:2376", True),
    ("https://127.8.0.1:2376", True),
    ("ssh://me@localhost", True),
    ("tcp://10.0.0.7:2375", False),
    ("tcp://127.example.org:2375", False),
    ("ssh://me@gpu-server", False),
])  # fmt: skip
def test_the_address_of_an_engine_decides_whether_it_is_on_this_machine(host: str, is_here: bool) -> None:
    assert is_on_this_host(host) is is_here


def test_a_probe_reports_a_refusal_of_the_engine_and_raises_without_an_engine(own, tmp_path):
    seen = own.engine.inspect(own.sh(FOREVER))
    assert seen is not None
    with fake_engine(tmp_path, lambda *_: reply(400, '{"message": "no, not today"}')) as (_, engine):
        for probe in ALL:
            assert why_not_ready(engine, seen, probe, limit_s=1.0) == "no, not today"
    nowhere = connect(environ={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    for probe in ALL:
        with pytest.raises(EngineUnreachable):
            why_not_ready(nowhere, seen, probe, limit_s=1.0)


# -- whole apps --------------------------------------------------------------------------------------------

ANSWERS = "sleep 0.3; exec nc -ll -p 7000 -e sh -c 'read line; echo HTTP/1.0 200 OK; echo; echo pong'"
LOOKS = ["sh", "-c", "netstat -ltn | grep -q :7000"]


@pytest.mark.parametrize(
    "probe", [Probe(http="/", port=PORT), Probe(command=tuple(LOOKS))], ids=["http", "command"]
)
def test_a_client_reaches_its_ready_server_at_the_first_try(case: DockerCase, probe: Probe) -> None:
    server = case.role("server", ANSWERS, service=True, ready=probe)
    client = case.role("client", "echo hello | nc $LAUNCHER_HOST_SERVER 7000", depends_on={"server": "ready"})
    app_id = case.start(AppDef("app", [client, server]))
    assert case.end(app_id).state is AppState.SUCCEEDED
    assert case.lines(app_id, "client")[-1] == "pong\n"
