"""Reading a file: its size; files that are missing or unreadable, and the names that were meant."""

import os
from pathlib import Path

import pytest

from launcher.jobfile import Environment, compile_files
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, lines, places


def test_a_file_over_one_mebibyte_is_refused(tmp_path: Path) -> None:
    text = HEAD + ROLES
    full = text + "#" * (2**20 - len(text))
    assert compile_text(tmp_path, full).launches
    assert places(compile_text(tmp_path, full + "#")) == ["too-large"]


def test_a_missing_file_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    assert places(compile_files([str(tmp_path / "no.yaml")])) == ["no-such-file"]
    assert places(compile_files(["a\0b"])) == ["no-such-file"]
    for name in ("e.launcher.yaml", "e.launcher.toml"):
        assert lines(compile_text(tmp_path, "", name=name)) == ["1:1 missing-field the file is empty"]
        assert lines(compile_text(tmp_path, "# x\n", name=name)) == ["1:1 missing-field the file is empty"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").touch(mode=0)
    assert places(compile_files([str(tmp_path / "x.yaml")])) == ["unreadable"]


@pytest.mark.parametrize(
    ("typed", "hint"), [("trian", True), ("train", True), ("zzz/train", False), ("q", False)]
)
def test_a_misspelt_file_name_gets_the_nearest_job_file(tmp_path: Path, typed: str, hint: bool) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "train.launcher.yaml").write_text(HEAD + ROLES)
    name = "jobs/" + ("trian.launcher.yaml" if typed == "trian" else typed)
    [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
    assert found.code == "no-such-file"
    assert found.hint == ("did you mean `jobs/train.launcher.yaml`?" if hint else "")


def test_the_suffix_that_all_job_files_share_makes_no_name_near(tmp_path: Path) -> None:
    (tmp_path / "e.launcher.yaml").write_text(HEAD + ROLES)
    (tmp_path / "train.launcher.yaml").write_text(HEAD + ROLES)
    hints = {}
    for name in ("other.launcher.yaml", "trian.launcher.toml", "train.launcher.yml"):
        [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
        hints[name] = found.hint
    near = "did you mean `train.launcher.yaml`?"
    assert hints == {"other.launcher.yaml": "", "trian.launcher.toml": near, "train.launcher.yml": near}


def test_a_link_to_nothing_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.launcher.yaml").symlink_to("gone.yaml")
    [found] = compile_files([str(tmp_path)]).errors
    assert (found.code, found.message) == ("no-such-file", "the file is a link, and there is no such file")
    assert found.hint == ""
