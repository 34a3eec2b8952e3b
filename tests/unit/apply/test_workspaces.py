"""A plan names the files of a workspace that changed, and says when one is large."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import launcher
from launcher import paths
from launcher.apply import make_plan
from launcher.specs import Launch
from launcher.workspace import manifest

JOB = "version: 1\nname: job\n{}\nroles: {{main: {{entrypoint: 'true'}}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "src"
    made.mkdir()
    for name in ("old.py", "train.py", *(f"data{n:02}.txt" for n in range(12))):
        (made / name).write_text(name)
    return made


def load(tmp_path: Path, workspace: str = "workspace: src") -> Launch:
    file = tmp_path / "job.launcher.yaml"
    file.write_text(JOB.format(workspace))
    return launcher.load_job(str(file))


def test_a_plan_keeps_nothing(folder: Path, tmp_path: Path) -> None:
    make_plan([load(tmp_path)])
    assert not os.path.exists(paths.home())


def test_a_large_workspace_is_told_with_what_to_leave_out(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "LARGE_FILES", 50)
    (folder / ".venv").mkdir()
    for n in range(60):
        (folder / ".venv" / f"{n}.py").write_text("x")
    [note] = make_plan([load(tmp_path)]).steps[0].notes
    assert note == (
        "the workspace `src` is large: 74 files, 194 B, largest .venv/ (60 files); "
        "a line `.venv` in its .launcherignore leaves that out"
    )
    (folder / ".launcherignore").write_text(note.split("`")[3])
    assert make_plan([load(tmp_path)]).steps[0].notes == ()
