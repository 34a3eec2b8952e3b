"""The ledger of the tests of lists and searches."""

import pytest

from tests.unit.cli import worlds


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A function that puts attempts into the ledger; the current directory has the project `default`."""
    monkeypatch.chdir(tmp_path)
    return worlds.record
