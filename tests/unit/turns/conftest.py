"""The folder of tickets that the tests of turns share."""

from pathlib import Path

import pytest


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The folder of tickets of a machine."""
    folder = tmp_path / "table"
    folder.mkdir()
    return str(folder)
