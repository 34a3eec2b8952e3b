"""What the files of `rerun_on` hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.specs.trigger import changed_globs
from launcher.workspace import trigger_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data/a.csv", "data/deep/b.csv", "data/.hidden.csv", "other.csv"):
        file = tmp_path / "w" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "w"


def changes(folder: Path, glob: str, file: str) -> bool:
    """Whether a change of `file` is one for `glob`."""
    before = trigger_digest(str(folder), [glob])
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("changed")
    return changed_globs(before, trigger_digest(str(folder), [glob]), [glob]) == [glob]


@pytest.mark.parametrize(
    ("glob", "file", "matches"),
    [
        ("data/*.csv", "data/a.csv", True),
        ("data/*.csv", "data/new.csv", True),
        ("data/*.csv", "data/deep/b.csv", False),
        ("data/*.csv", "data/.hidden.csv", False),
        ("data/**/*.csv", "data/deep/b.csv", True),
        ("data", "data/deep/b.csv", True),
        ("data/", "data/.hidden.csv", True),
        ("data/a.csv", "data/a.csv", True),
        ("later.csv", "later.csv", True),
        ("*.csv", "data/a.csv", False),
        ("../v/*", "../v/x", True),
    ],
)
def test_a_glob_sees_the_files_that_it_matches(folder: Path, glob: str, file: str, matches: bool):
    assert changes(folder, glob, file) is matches


def test_a_removed_and_a_renamed_file_are_changes(folder: Path):
    glob = "data/*.csv"
    first = trigger_digest(str(folder), [glob])
    (folder / "data/a.csv").rename(folder / "data/z.csv")
    second = trigger_digest(str(folder), [glob])
    (folder / "data/z.csv").unlink()
    assert len({first, second, trigger_digest(str(folder), [glob])}) == 3


def test_the_folder_itself_means_nothing(folder: Path, tmp_path: Path):
    globs = ["data/*.csv", "other.csv"]
    before = trigger_digest(str(folder), globs)
    assert trigger_digest(str(folder.rename(tmp_path / "moved")), reversed(globs)) == before


def test_no_globs_have_no_digest(folder: Path):
    assert trigger_digest(str(folder), []) == ""
