"""Turns of apps whose watcher is on the engine: they share its machine, whatever client they have."""

from pathlib import Path

import pytest

from tests.contract.test_holding import Gate
from tests.docker_scenario import DockerScenario
from tests.scenarios.docker.test_engine_watcher import (  # noqa: F401
    PATIENCE_S,
    Watched,
    gate,
    until,
    watched,
    way,
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def log(scenario: DockerScenario) -> Path:
    return scenario.folder / "log"


@pytest.fixture
def one_at_a_time(scenario: DockerScenario) -> None:
    """The jobs of the test, which no others share their project with, run one at a time."""
    scenario.write("launcher.toml", f'project = "{scenario.token}"\n\n[queue]\nmax_parallel = 1\n')


def states(scenario: DockerScenario, *jobs: str) -> list[str]:
    return [scenario.status(job)["attempt_state"] for job in jobs]


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def test_the_next_job_starts_without_the_client_and_its_state_folder(
    scenario: DockerScenario,
    watched: Watched,  # noqa: F811
    gate: Gate,  # noqa: F811
    log: Path,
    one_at_a_time: None,
    way: None,  # noqa: F811
) -> None:
    watched.job(f"echo begin >>{log}; {gate.script}; echo end >>{log}", name="a")
    for job in ("b", "c"):
        watched.job(f"echo {job} >>{log}", name=job)
    scenario.apply(".")
    assert states(scenario, "a", "b", "c") == ["running", "queued", "queued"]
    watched.forget_client()
    until(lambda: lines(log) == ["begin"])
    gate.open()
    watched.ends(a="succeeded", b="succeeded", c="succeeded")
    assert lines(log) == ["begin", "end", "b", "c"]
