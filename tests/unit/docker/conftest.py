"""Containers on the real engine, and whole apps through the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import DockerCase
from tests.engines.images import SHELL_IMAGE
from tests.unit.docker.engine_things import Bench, bench


@pytest.fixture
def own(token: str) -> Iterator[Bench]:
    """The engine, and containers, networks and volumes of this test that are gone after it."""
    with bench(token) as found:
        yield found


@pytest.fixture
def case(token: str, tmp_path: Path) -> Iterator[DockerCase]:
    """The scheduler and the words of the contract suite; what a test leaves running is cancelled."""
    made = DockerCase("local_docker", token, SHELL_IMAGE, tmp_path)
    yield made
    for listed in made.listed():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()
