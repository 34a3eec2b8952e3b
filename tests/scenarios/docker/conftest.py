"""Scenarios on the real engine: the same words, other apps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import engines
from tests.docker_scenario import DockerScenario
from tests.engines import own
from tests.engines.docker import Daemon
from tests.engines.own import OwnEngine


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path, token: str) -> Iterator[DockerScenario]:
    """The words of scenarios, for containers."""
    work = tmp_path / "w"
    work.mkdir()
    with DockerScenario(work, launcher_home, token) as words:
        yield words


@pytest.fixture
def engine(scenario: DockerScenario, request: pytest.FixtureRequest) -> Iterator[OwnEngine]:
    """An engine of this test's own, which every command asks from now on.

    Its parameter, where it has one: options of `dockerd`.
    """
    if why := own.reason():
        if "docker" in engines.required():
            pytest.fail(f"LAUNCHER_REQUIRE names docker, but {why}")
        pytest.skip(why)
    with OwnEngine(*getattr(request, "param", ())) as made:
        with pytest.MonkeyPatch.context() as way:
            way.setenv("DOCKER_HOST", made.host)
            scenario.daemon = Daemon()
            yield made
        scenario.daemon = Daemon()
