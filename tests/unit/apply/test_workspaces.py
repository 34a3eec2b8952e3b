"""A plan names the files of a workspace that changed, and says when one is large."""

import os
import shutil
from pathlib import Path

import pytest

import launcher
from launcher import paths
from launcher.apply import apply_launches, make_plan
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
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


def as_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_known", {})


@pytest.fixture
def applied(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    apply_launches([load(tmp_path)], wait=True)
    as_another_process(monkeypatch)
    return folder


def edit(folder: Path) -> None:
    (folder / "old.py").unlink()
    (folder / "train.py").write_text("other")
    (folder / "notes.txt").write_text("new")


def test_the_files_that_changed_are_named_with_the_size(applied: Path, tmp_path: Path) -> None:
    edit(applied)
    plan = make_plan([load(tmp_path)])
    assert plan_text(plan).splitlines()[:3] == [
        "+   job  create: 1 change since attempt 1 (succeeded)",
        "      ~ workspace files: 3 changed; now 14 files, 128 B",
        "          + notes.txt, - old.py, ~ train.py",
    ]
    diff = "  workspace files: 3 changed; now 14 files, 128 B\n+ notes.txt\n- old.py\n~ train.py\n"
    assert f"```diff\n{diff}```" in plan_markdown(plan)


def test_ten_files_are_named_and_the_others_counted(applied: Path, tmp_path: Path) -> None:
    edit(applied)
    for n in range(12):
        (applied / f"data{n:02}.txt").write_text("other")
    text = plan_text(make_plan([load(tmp_path)]))
    assert "data09.txt" in text
    assert "data10.txt" not in text
    assert "… and 5 more\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_workspace_whose_former_files_are_not_on_record_shows_its_size(applied, tmp_path):
    shutil.rmtree(paths.workspaces())
    edit(applied)
    shown = plan_text(make_plan([load(tmp_path)]))
    assert "changed (earlier files not recorded); now 14 files, 128 B" in shown


def test_a_plan_writes_nothing_to_the_state_folder(folder: Path, tmp_path: Path) -> None:
    make_plan([load(tmp_path)])
    assert not os.path.exists(paths.home())


def test_a_new_workspace_shows_its_size(tmp_path: Path, folder: Path) -> None:
    apply_launches([load(tmp_path, "")], wait=True)
    text = plan_text(make_plan([load(tmp_path)]))
    assert '+ workspace = "src"\n' in text
    assert "+ workspace files: 14 files, 134 B" in text


def test_a_large_workspace_is_reported_with_the_pattern_that_leaves_files_out(tmp_path, folder, monkeypatch):
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
