"""Whole apps on the real engine, through the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.conftest import DockerCase
from tests.engines.images import SHELL_IMAGE


@pytest.fixture
def case(token: str, tmp_path: Path) -> Iterator[DockerCase]:
    """The scheduler and the words of the contract suite; what a test leaves running is cancelled."""
    made = DockerCase("local_docker", token, SHELL_IMAGE, tmp_path)
    yield made
    for listed in made.listed():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()
