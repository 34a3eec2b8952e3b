"""Reading a file: size, encoding, missing files."""

import os
from pathlib import Path

import pytest

from tests.unit.jobfile.words import HEAD, ROLES, compile_text, launch, lines, places


def test_a_byte_order_mark_is_allowed(tmp_path: Path) -> None:
    assert compile_text(tmp_path, b"\xef\xbb\xbf" + (HEAD + ROLES).encode()).launches
    assert places(compile_text(tmp_path, b"\xef\xbb\xbfnome: x\n" + ROLES.encode()))[0].startswith("1:1 ")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_the_line_ends_of_a_job_file_do_not_matter(tmp_path: Path, end: str) -> None:
    text = (HEAD + ROLES).replace("\n", end)
    assert launch(tmp_path, text).app.name == "job"
    assert places(compile_text(tmp_path, text + f"rolls: 1{end}")) == ["4:1 unknown-field"]


def test_a_file_over_one_mebibyte_is_refused(tmp_path: Path) -> None:
    text = HEAD + ROLES
    full = text + "#" * (2**20 - len(text))
    assert compile_text(tmp_path, full).launches
    assert places(compile_text(tmp_path, full + "#")) == ["too-large"]


def test_a_missing_file_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    from launcher.jobfile import compile_files

    assert places(compile_files([str(tmp_path / "no.yaml")])) == ["no-such-file"]
    assert places(compile_files(["a\0b"])) == ["no-such-file"]
    for name in ("e.launcher.yaml", "e.launcher.toml"):
        assert lines(compile_text(tmp_path, "", name=name)) == ["1:1 missing-field the file is empty"]
        assert lines(compile_text(tmp_path, "# x\n", name=name)) == ["1:1 missing-field the file is empty"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").touch(mode=0)
    from launcher.jobfile import compile_files

    assert places(compile_files([str(tmp_path / "x.yaml")])) == ["unreadable"]
