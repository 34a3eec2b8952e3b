"""Scenarios on the real engine: the same words, other apps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_scenario import DockerScenario


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path, token: str) -> Iterator[DockerScenario]:
    """The words of scenarios, for containers."""
    work = tmp_path / "w"
    work.mkdir()
    with DockerScenario(work, launcher_home, token) as words:
        yield words
