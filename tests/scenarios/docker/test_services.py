"""Real servers and their clients in containers: as in tests/scenarios/test_services.py."""

import pytest

from tests.engines.images import PYTHON_IMAGE, REDIS_IMAGE, make_images, stand_in
from tests.ports import free_port
from tests.scenarios.test_examples import EXAMPLES, why_not
from tests.scenarios.test_services import SERVICES, STOPPED, assert_served, copied

ON = ("--target", "docker")


@pytest.fixture
def port(monkeypatch):
    port = free_port()
    monkeypatch.setenv("SERVICE_PORT", str(port))
    return port


def assert_nothing_runs(scenario):
    assert {one.state for one in scenario.containers()} == {"exited"}


def test_a_client_that_comes_first_in_the_file_reaches_its_line_server(scenario, port):
    stand_in("python:3.12-slim")
    folder = copied(scenario, EXAMPLES / "service")
    assert_served(scenario, folder / "service.launcher.yaml", port, on=ON)
    assert scenario.logs("service/client", "--no-prefix") == "HELLO\n"
    assert_nothing_runs(scenario)


def test_workers_reach_their_parameter_server(scenario, port):
    make_images(PYTHON_IMAGE)
    folder = copied(scenario, SERVICES)
    assert_served(scenario, folder / "parameters.launcher.yaml", port, on=ON)
    assert scenario.logs("parameters/check", "--no-prefix") == "learned 3.00 and 1.00\n"
    assert_nothing_runs(scenario)


def test_redis_serves_its_benchmark(scenario, port):
    make_images(REDIS_IMAGE)
    folder = copied(scenario, SERVICES)
    assert_served(scenario, folder / "redis.launcher.yaml", port, on=ON)
    for command in ("SET", "GET"):
        assert f"{command}: " in scenario.logs("redis/benchmark")
    assert_nothing_runs(scenario)


@pytest.mark.skipif(bool(why_not("dask")), reason=why_not("dask"))
def test_dask_computes_and_ends(scenario, port, monkeypatch):
    """Its client ends the scheduler and the workers, which have ended or are stopped when it has ended."""
    stand_in("ghcr.io/dask/dask:2024.5.0-py3.12")
    monkeypatch.setenv("DASK_PORT", str(port))
    folder = copied(scenario, EXAMPLES / "dask")
    assert_served(scenario, folder / "dask.launcher.yaml", port, reasons={STOPPED, ""}, on=ON)
    assert scenario.logs("dask/client", "--no-prefix") == "2 workers: the sum of the squares is 328350\n"
    assert_nothing_runs(scenario)
