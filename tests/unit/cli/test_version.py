"""`launcher version`: the commit where it is known, and never that of another repository."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launcher import __version__, paths

INFO = f"launcher_jobs-{__version__}.dist-info"
COMMIT = "a1b2c3d4" * 5


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the package in a folder of its own."""
    made = tmp_path / "place"
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(paths.IMPORT_ROOT) / "launcher", made / "launcher", ignore=without)
    return made


def report(root: Path) -> tuple[str, str | None]:
    """Return the lines and the commit that the copy prints."""
    env = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*words: str) -> str:
        argv = [sys.executable, "-m", "launcher", "version", *words]
        return subprocess.run(argv, env=env, cwd=root, capture_output=True, check=True, text=True).stdout

    return run(), json.loads(run("--json"))["commit"]


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def committed(folder: Path) -> str:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.mark.slow
def test_version_shows_the_commit_of_a_checkout_and_whether_files_differ(root: Path) -> None:
    commit = committed(root)
    lines, found = report(root)
    assert found == commit
    assert f"commit      {commit}\n" in lines
    with (root / "launcher" / "paths.py").open("a") as file:
        file.write("# edited\n")
    assert report(root)[1] == f"{commit}-dirty"


@pytest.mark.slow
def test_an_install_inside_another_repository_does_not_show_the_commit_of_that_repository(root: Path) -> None:
    committed(root.parent)
    lines, found = report(root)
    assert found is None
    assert "commit" not in lines


@pytest.mark.slow
def test_an_install_from_version_control_shows_the_installed_commit(root: Path) -> None:
    (root / INFO).mkdir()
    url = root / INFO / "direct_url.json"
    vcs = {"vcs": "git", "commit_id": COMMIT}
    url.write_text(json.dumps({"url": "https://example.com/x.git", "vcs_info": vcs}))
    assert report(root)[1] == COMMIT
    url.write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    assert report(root)[1] is None
    url.write_text("[]")
    assert report(root)[1] is None
