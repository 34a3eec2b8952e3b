"""Ignore files: Docker's rules, case by case, and folders that need no look inside."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from launcher.workspace.ignore import (
    ALWAYS,
    BadPatternError,
    Ignore,
    WorkspaceError,
    _Automaton,
    _translated,
    read_ignore,
)

CASES = [
    # pattern(s), ignored, not ignored
    ("*.pyc", "a.pyc", "d/a.pyc"), ("**/*.pyc", "a.pyc d/a.pyc d/e/a.pyc", "a.pyx"),
    ("**/d", "d d/x a/d/x", "ad"), ("build", "build build/x/y", "builds a/build"),
    ("build/", "build build/x", ""), ("/build", "build", "a/build"),
    ("build/**", "build/a build/a/b", "build"), ("a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb"),
    ("**b", "b ab x/ab", "ba"), ("*/temp*", "some/temporary.txt", "temp a/b/temp"), ("a?c", "abc", "a/c ac"),
    ("a/../b", "b", "a"), ("./b//c/.", "b/c", "b"), ("  b  ", "b", ""),
    ("# b", "", "b # b"),
    (r"\#b", "#b", "b"),
    (r"a\*", "a*", "ab"),
    ("[a-c]x", "ax cx", "dx"),
    ("[^a-c]x", "dx", "ax"),
    ("[!a]x", "!x ax", "bx"),
    (r"[\]\-[]", "] - [", "x"),
    ("a.c+", "a.c+", "abc a.cc"),
    (".", "", "a a/b"),
    ("", "", "a"),
    ("a\n!a/b", "a/c a", "a/b a/b/c"),
    ("*\n!keep", "x x/y", "keep keep/y"),
    ("*.md\n!README*.md\nREADME-secret.md", "a.md README-secret.md", "README.md"),
    ("*.md\nREADME-secret.md\n!README*.md", "a.md", "README-secret.md"),
    ("!a\na", "a", "b"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "ignored", "kept"), CASES, ids=[repr(case[0]) for case in CASES])
def test_patterns_match_as_in_docker(lines: str, ignored: str, kept: str):
    ignore = Ignore(lines.split("\n"))
    sep = "|" if lines == "# b" else " "
    assert [path for path in ignored.split() if not ignore.ignores(path)] == []
    assert [path for path in kept.split(sep) if ignore.ignores(path)] == []


@pytest.mark.parametrize("pattern", ["!", "[a", "[]", "a\\", "[b-a]", "[a-]"])
def test_a_pattern_that_docker_refuses_is_refused(pattern: str):
    with pytest.raises(BadPatternError):
        Ignore([pattern])


def test_an_ignored_folder_is_entered_only_where_a_pattern_may_take_a_file_back():
    ignore = Ignore(["a", "!a/b/c", "!**/keep", "z"])
    assert [ignore.ignores_all_below(folder) for folder in ("a", "z", "q")] == [False, False, False]
    ignore = Ignore(["a", "!a/b/c", "!x*", "z"])
    folders = ("a", "a/b", "a/d", "z", "q")
    assert [folder for folder in folders if ignore.ignores_all_below(folder)] == ["a/d", "z"]


def test_version_control_caches_and_job_files_are_always_left_out():
    ignore = Ignore(ALWAYS)
    assert all(map(ignore.ignores, ["a/b.launcher.yaml", "c.launcher.toml", "launcher.toml"]))
    assert all(
        map(ignore.ignores, [".git/HEAD", "sub/.git", ".hg/x", "a/__pycache__/b.pyc", ".launcherignore"])
    )
    assert not any(map(ignore.ignores, [".github/x", ".gitignore", "a.git", ".dockerignore"]))


def test_launcherignore_has_the_last_word_and_gitignore_none(tmp_path: Path):
    (tmp_path / ".gitignore").write_text("data\n")
    (tmp_path / ".dockerignore").write_text("*.csv\nlogs\n")
    (tmp_path / ".launcherignore").write_text("\ufeff!keep.csv\r\n# more\r\ntmp\r\n")
    ignore = read_ignore(str(tmp_path))
    paths = ("a.csv", "keep.csv", "logs/x", "tmp/x", "more", "data")
    assert [path for path in paths if ignore.ignores(path)] == ["a.csv", "logs/x", "tmp/x"]


def test_a_bad_line_of_an_ignore_file_is_named(tmp_path: Path):
    (tmp_path / ".launcherignore").write_text("fine\n[oops\n")
    with pytest.raises(WorkspaceError, match=r"\.launcherignore:2: `\[oops`"):
        read_ignore(str(tmp_path))


@given(
    st.lists(st.sampled_from(["*", "**", "**/", "a", "b", "/", "?", "[ab]"]), min_size=1, max_size=9),
    st.lists(st.sampled_from("ab/"), min_size=1, max_size=9),
)
def test_many_wildcards_match_what_their_regular_expression_does(pattern: list[str], path: list[str]):
    pieces = tuple(_translated("".join(pattern)))
    text = "".join(path)
    expected = re.match(rf"(?:{''.join(pieces)})(?:/|\Z)", text, re.DOTALL)
    assert _Automaton(pieces).matches(text) is (expected is not None)


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/a" * 40 + "/b", "**a" * 40 + "c"])
def test_repeated_wildcards_do_not_multiply(pattern: str):
    assert not Ignore([pattern]).ignores("a" * 255 + "/a" * 100)


def test_an_ignore_file_that_is_no_file_or_too_large_is_an_error(tmp_path: Path):
    os.mkfifo(tmp_path / ".launcherignore")
    with pytest.raises(WorkspaceError, match="it is a named pipe"):
        read_ignore(str(tmp_path))
    (tmp_path / ".launcherignore").unlink()
    (tmp_path / ".launcherignore").write_text("x\n" * 200_000)
    with pytest.raises(WorkspaceError, match="larger than 256 KiB"):
        read_ignore(str(tmp_path))
    (tmp_path / ".launcherignore").write_text("*a*b*c*d*\n" * 65)
    with pytest.raises(WorkspaceError, match="more than 64 patterns"):
        read_ignore(str(tmp_path))
