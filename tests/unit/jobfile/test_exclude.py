"""`exclude` in launcher.toml: files that a directory leaves out although they look like job files."""

from pathlib import Path

import pytest

from launcher.jobfile import Environment, compile_files
from launcher.jobfile.compile import discover
from launcher.jobfile.compile.discover import find_files

GOOD = "version: 1\nname: NAME\nroles: {main: {entrypoint: env}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    for path in ("train", "bad/one", "bad/deep/two", "sub/bad/three", "sub/four"):
        file = top / f"{path}.launcher.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(GOOD.replace("NAME", file.name.split(".")[0]))
    return top


def found(top: Path, *paths: str) -> list[str]:
    files, problems = find_files(paths or ["."], str(top))
    return sorted(each.path.split("/")[-1].split(".")[0] for each in files) + [str(p.hint) for p in problems]


@pytest.mark.parametrize(("patterns", "names"), [
    ([], ["four", "one", "three", "train", "two"]),
    (["bad"], ["four", "three", "train"]),
    (["/bad/", "sub/four.launcher.yaml"], ["three", "train"]),
    (["**/bad"], ["four", "train"]),
    (["bad", "!bad/one.launcher.yaml"], ["four", "one", "three", "train"]),
    (["bad/*", "!bad/one.launcher.yaml"], ["four", "one", "three", "train"]),
    (["*.launcher.yaml"], ["four", "one", "three", "two"]),
])  # fmt: skip
def test_a_directory_means_the_files_that_no_pattern_excludes(folder, patterns, names):
    (folder / "launcher.toml").write_text(f"exclude = {patterns}\n")
    assert found(folder) == names


def test_a_directory_in_no_project_is_searched_only_up_to_a_number_of_files(folder, monkeypatch):
    monkeypatch.setattr(discover, "MOST_OUTSIDE", 5)
    files, [problem] = find_files(["."], str(folder))
    assert (files, problem.code, problem.file) == ([], "too-large", ".")
    assert found(folder, "sub") == ["four", "three"]
    (folder / "launcher.toml").touch()
    assert len(found(folder)) == len(found(folder, "sub", ".")) == 5


def test_a_path_given_on_the_command_line_is_taken_despite_exclude(folder):
    (folder / "launcher.toml").write_text('exclude = ["bad"]\n')
    assert found(folder, "bad/one.launcher.yaml") == ["one"]
    assert found(folder, "bad") == ["one", "two"]
    assert found(folder, "bad/deep") == ["two"]
    assert found(folder, "sub") == ["four", "three"]


def test_patterns_of_inner_folders_are_added_and_patterns_of_excluded_folders_are_not_read(folder):
    (folder / "launcher.toml").write_text('exclude = ["bad"]\n')
    (folder / "sub" / "launcher.toml").write_text('exclude = ["bad"]\n')
    (folder / "bad" / "launcher.toml").write_text("exclude = [\n")
    assert found(folder) == ["four", "train"]
    assert found(folder, "sub") == ["four"]


def test_patterns_above_the_work_tree_have_no_effect(folder):
    (folder / "launcher.toml").write_text('exclude = ["sub"]\n')
    (folder / "sub" / ".git").mkdir()
    assert found(folder, "sub/bad") == ["three"]
    assert found(folder / "sub") == ["four", "three"]


@pytest.mark.parametrize(("exclude", "expected"), [
    ('"bad"', '1:11 wrong-type `exclude` must be a list, not the text "bad"'),
    (str(["*x*y*z*"] * 65), "1:11 invalid-value `exclude`: more than 64 patterns have more than 2 wildcards"),
])  # fmt: skip
def test_wrong_patterns_are_reported_with_their_place_and_leave_nothing_out(folder, exclude, expected):
    (folder / "launcher.toml").write_text(f"exclude = {exclude}\n")
    compiled = compile_files(["."], environment=Environment(cwd=str(folder), environ={}))
    [error] = compiled.errors
    assert f"{error.span.line}:{error.span.column} {error.code} {error.message}".startswith(expected)
    assert len(compiled.launches) == 0 or len(found(folder)) == 5


def test_advice_for_a_text_is_a_list_that_is_taken(folder):
    (folder / "launcher.toml").write_text('exclude = "bad"\n')
    [error] = compile_files(["."], environment=Environment(cwd=str(folder), environ={})).errors
    (folder / "launcher.toml").write_text(f"exclude = {error.label.removeprefix('write ')}\n")
    assert found(folder) == ["four", "three", "train"]
