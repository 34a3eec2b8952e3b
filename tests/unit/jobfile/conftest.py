import shutil
from pathlib import Path

import pytest

from tests.unit.jobfile.words import git


@pytest.fixture(scope="session")
def one_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-commit")
    git(folder, "init", "-q")
    (folder / "tracked").write_text("1")
    git(folder, "add", "tracked")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def repository(tmp_path: Path, one_commit: Path) -> Path:
    """A folder with one commit; untracked job files do not make it dirty."""
    shutil.copytree(one_commit, tmp_path, dirs_exist_ok=True)
    return tmp_path
