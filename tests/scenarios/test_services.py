"""Real servers and their clients succeed at the first apply, end with the client, and leave no process."""

import shutil
import socket
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.scenarios.test_examples import EXAMPLES, why_not

SERVICES = Path(__file__).parent / "services"
REDIS = Path("/usr/bin/redis-check-rdb")
"""Debian's package redis-tools has the server in this file: its name says what the program is."""
STOPPED = "stopped at the end of the app"
KILLED = 137
"""The exit code of a service that did not end in the 10 s that it has for that."""


@pytest.fixture
def port(monkeypatch):
    port = free_port()
    for name in ("SERVICE_PORT", "DASK_PORT"):
        monkeypatch.setenv(name, str(port))
    return port


@pytest.fixture
def redis_server(tmp_path, monkeypatch):
    if not shutil.which("redis-benchmark"):
        pytest.skip("there is no `redis-benchmark` command")
    if shutil.which("redis-server"):
        return
    if not REDIS.exists():
        pytest.skip("there is no `redis-server` command")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(REDIS)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


def copied(scenario, folder):
    shutil.copytree(folder, scenario.folder / "x")
    return scenario.folder / "x"


def assert_served(scenario, file, port, *, reasons=frozenset({STOPPED}), on=()):
    """Check that one apply is enough, that services end with their clients, and that a plan is empty."""
    job = file.name.partition(".")[0]
    scenario.launcher("validate", "--strict", file)
    assert scenario.actions(file, *on) == {job: "create"}
    scenario.run_to_end(file, *on)
    [attempt] = scenario.attempts(job, target=on[-1] if on else "default")
    status = scenario.status(attempt.app_id)
    assert (status["state"], status["num_restarts"]) == ("SUCCEEDED", 0)
    services = [each for each in status["replicas"] if each["role"] in services_of(attempt)]
    assert {each["message"] for each in services} <= reasons
    assert KILLED not in {each["exit_code"] for each in services}
    assert scenario.processes_of(attempt.app_id) == []
    socket.create_server(("", port)).close()  # nothing listens there any more
    assert scenario.actions(file, *on) == {job: "keep"}
    scenario.plan(file, *on, "--detailed-exitcode", code=0)


def services_of(attempt):
    return [role["name"] for role in attempt.document["roles"] if role.get("service")]


@pytest.fixture
def served(scenario, port):
    """A function that copies the folder of a job file, and checks the job as `assert_served` does."""

    def served(folder, job, **expected):
        assert_served(scenario, copied(scenario, folder) / f"{job}.launcher.yaml", port, **expected)

    return served


@pytest.mark.slow
def test_a_client_that_comes_first_in_the_file_reaches_its_line_server(scenario, served):
    served(EXAMPLES / "service", "service")
    assert scenario.logs("service/client", "--no-prefix") == "HELLO\n"


@pytest.mark.slow
def test_workers_reach_their_parameter_server(scenario, served):
    served(SERVICES, "parameters")
    assert scenario.logs("parameters/check", "--no-prefix") == "learned 3.00 and 1.00\n"


@pytest.mark.slow
@pytest.mark.usefixtures("redis_server")
def test_redis_serves_its_benchmark(scenario, served):
    served(SERVICES, "redis")
    for command in ("SET", "GET"):
        assert f"{command}: " in scenario.logs("redis/benchmark")


@pytest.mark.skipif(bool(why_not("dask")), reason=why_not("dask"))
def test_dask_computes_and_ends(scenario, served):
    """The client ends the scheduler and the workers; those that still run are stopped after it."""
    served(EXAMPLES / "dask", "dask", reasons={STOPPED, ""})
    assert scenario.logs("dask/client", "--no-prefix") == "2 workers: the sum of the squares is 328350\n"
