"""Containers on the real engine, and whole apps through the scheduler."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.watching import actions
from tests.contract.conftest import DockerCase, gate as gate
from tests.engines.images import SHELL_IMAGE
from tests.scenarios.docker_engine.bench import Bench, bench
from tests.scenarios.docker_engine.raw_apps import RawApp


@pytest.fixture
def own(token: str) -> Iterator[Bench]:
    """The engine, and containers, networks and volumes of this test that are gone after it."""
    with bench(token) as found:
        yield found


@pytest.fixture
def case(token: str, tmp_path: Path) -> Iterator[DockerCase]:
    """The case of the contract suite for Docker; apps that a test leaves running are cancelled."""
    made = DockerCase("local_docker", token, SHELL_IMAGE, tmp_path)
    yield made
    for listed in made.listed():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()


@pytest.fixture
def staged(case: DockerCase) -> Any:
    """The scheduler of the case, with its methods beside the contract of schedulers."""
    return case.scheduler


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = connect()
    yield made
    made.close()


@pytest.fixture
def app(engine: Engine, token: str) -> Iterator[Callable[..., RawApp]]:
    """A function that makes an app out of its scripts by role, and removes it after the test."""
    made: list[RawApp] = []

    def make(roles: dict[str, list[str]], **asked: object) -> RawApp:
        made.append(RawApp(engine, token, roles, **asked))
        return made[-1]

    yield make
    for each in made:
        if each.lock is not None:
            each.lock.release()
        actions.remove_app(engine, each.app_id, force=True)
