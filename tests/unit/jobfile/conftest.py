from pathlib import Path

import pytest

from tests.unit.jobfile.words import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with one commit; job files that are not added are no change of it."""
    git(tmp_path, "init", "-q")
    (tmp_path / "tracked").write_text("1")
    git(tmp_path, "add", "tracked")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path
