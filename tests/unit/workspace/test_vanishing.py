"""Folders that another program makes and removes while a directory is walked: none of them is an error."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.jobfile.compile.discover import find_files
from launcher.jobfile.compile.files import compile_files
from launcher.workspace import context, inputs
from launcher.workspace.ignore import WorkspaceError

CHURN = """
import os, shutil, sys
job = "version: 1\\nname: j-{}\\nroles: {{main: {{run: 'true'}}}}\\n"
os.chdir(sys.argv[1])
n = 0
while True:
    n += 1
    for k in range(20):
        os.makedirs(".new/a/b")
        for name in ("x.launcher.yaml", "y.txt"):
            with open(f".new/a/b/{name}", "w") as file:
                file.write(job.format(k))
        os.rename(".new", f"tmp-{k}")
    for k in range(20):
        shutil.rmtree(f"tmp-{k}")
"""
ROUND_S = 1.5


@pytest.fixture
def churning(tmp_path: Path) -> Iterator[Path]:
    """A folder with one job file, in which a process makes and removes folders."""
    (tmp_path / "job.launcher.yaml").write_text("version: 1\nname: job\nroles: {main: {run: 'true'}}\n")
    (tmp_path / "train.py").write_text("pass\n")
    process = subprocess.Popen([sys.executable, "-c", CHURN, str(tmp_path)])
    try:
        while not any(each.name.startswith("tmp-") for each in tmp_path.iterdir()):
            time.sleep(0.001)
        yield tmp_path
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def rounds() -> Iterator[None]:
    end = time.monotonic() + ROUND_S
    while time.monotonic() < end:
        yield


@pytest.mark.slow
def test_job_files_are_found_and_compiled_while_files_beside_them_vanish(churning: Path) -> None:
    for _ in rounds():
        files, problems = find_files(["."], str(churning))
        assert problems == []
        assert str(churning / "job.launcher.yaml") in [found.path for found in files]
        assert compile_files([str(churning)]).diagnostics == ()


@pytest.mark.slow
def test_a_workspace_is_hashed_while_its_files_vanish(churning: Path) -> None:
    for _ in rounds():
        assert "train.py" in [entry.path for entry in context.entries(str(churning))]
        assert context.content_digest(str(churning)).startswith("ws1:")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["**/*.txt", ".", "*/a/b/y.txt"])
def test_a_trigger_is_hashed_while_its_files_vanish(churning: Path, pattern: str) -> None:
    for _ in rounds():
        assert inputs.trigger_digest(str(churning), [pattern])


def test_a_directory_that_the_user_named_must_exist(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    (folder / "x").write_text("x")
    shutil.rmtree(folder)
    with pytest.raises(WorkspaceError):
        context.entries(str(folder))
