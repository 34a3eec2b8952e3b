"""The digest of the files of `rerun_on`."""

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from launcher.specs.inputs import changed_globs
from launcher.workspace import WorkspaceError, trigger_digest
from launcher.workspace.inputs import leaves, matches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data/a.csv", "data/deep/b.csv", "data/.hidden.csv", "other.csv"):
        file = tmp_path / "w" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "w"


def changes(folder: Path, glob: str, file: str) -> bool:
    """Return whether a change of `file` changes the digest of `glob`."""
    before = trigger_digest(str(folder), [glob])
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("changed")
    return changed_globs(before, trigger_digest(str(folder), [glob]), [glob]) == [glob]


@pytest.mark.parametrize(("glob", "file", "matches"), [
    ("data/*.csv", "data/a.csv", True), ("data/*.csv", "data/new.csv", True),
    ("data/*.csv", "data/deep/b.csv", False), ("data/*.csv", "data/.hidden.csv", False),
    ("data/**/*.csv", "data/deep/b.csv", True), ("data", "data/deep/b.csv", True),
    ("data/", "data/.hidden.csv", True), ("data/a.csv", "data/a.csv", True),
    ("later.csv", "later.csv", True), ("*.csv", "data/a.csv", False), ("../v/*", "../v/x", True),
])  # fmt: skip
def test_a_glob_sees_the_files_that_it_matches(folder: Path, glob: str, file: str, matches: bool):
    assert changes(folder, glob, file) is matches


def test_a_removed_and_a_renamed_file_are_changes_and_the_place_of_the_folder_is_none(folder, tmp_path):
    globs = ["data/*.csv", "other.csv"]
    digests = [trigger_digest(str(folder), globs)]
    moved = folder.rename(tmp_path / "moved")
    assert trigger_digest(str(moved), reversed(globs)) == digests[0]
    (moved / "data/a.csv").rename(moved / "data/z.csv")
    digests.append(trigger_digest(str(moved), globs))
    (moved / "data/z.csv").unlink()
    assert len({*digests, trigger_digest(str(moved), globs)}) == 3
    assert trigger_digest(str(moved), []) == ""


NAMES = ["a", "b", ".h", "a.csv", "d/a.csv", "d/e/a.csv", "d/.h/a.csv", ".h2/a.csv", "d/e/f/b", "link/x"]
PARTS = st.sampled_from(["**", "*", "a*", ".*", "d", "e", "a.csv", "[ab]", ".", "..", "", "**", "w"])


def is_quick(pattern: str) -> bool:
    """Return whether the glob of the standard library ends soon: it walks the tree for each `**`.

    A second `..` leads to the temporary folders of all other tests.
    """
    return bool(pattern.strip("/.")) and pattern.count("**") <= 2 and pattern.count("..") <= 1


@given(st.lists(PARTS, min_size=1, max_size=6).map("/".join).filter(is_quick))
def test_a_glob_matches_what_the_glob_of_the_standard_library_matches(tree: str, pattern: str):
    folder, pattern = tree, pattern.lstrip("/")
    found = set(glob.glob(pattern, root_dir=folder, recursive=True))
    files = {os.path.normpath(path) for path in found if os.path.isfile(os.path.join(folder, path))}
    if not (not glob.has_magic(pattern) and os.path.isdir(os.path.join(folder, pattern))):
        assert set(matches(folder, pattern, None)) == files


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    top = tmp_path_factory.mktemp("tree") / "w"
    for name in NAMES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    (top / "d" / "linked").symlink_to("../link")
    return str(top)


@pytest.mark.parametrize("pattern", ["**/" * 40 + "none", "**/*/" * 20 + "none", "*/" * 3000 + "x"])
def test_repeated_wildcards_cost_no_more_than_the_tree_is_large(tmp_path: Path, pattern: str):
    for k in range(12):
        os.makedirs(tmp_path / "/".join(str(k + j) for j in range(6)))
    assert matches(str(tmp_path), pattern, None) == []


@pytest.mark.parametrize("pattern", ["/**", "../*", "../../etc/passwd", "d/../../x", "a/../.."])
def test_a_glob_that_leaves_the_repository_is_recognised_by_its_text(pattern: str):
    assert leaves("/repo", pattern, "/repo")
    assert leaves("/repo/jobs", "../ok/*.csv", "/repo") is False


@pytest.mark.parametrize("pattern", ["link/*", "**/*.csv", "link", "file.csv", "*.csv"])
def test_a_link_out_of_the_repository_is_not_followed(tmp_path: Path, pattern: str):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.csv").write_text("x")
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "link").symlink_to("../outside")
    (repo / "file.csv").symlink_to("../outside/secret.csv")
    with pytest.raises(WorkspaceError, match="leads out of the repository"):
        trigger_digest(str(repo), [pattern], str(repo))


def test_a_glob_that_meets_too_many_names_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("launcher.workspace.inputs.MAX_STEPS", 5)
    with pytest.raises(WorkspaceError, match="compared with more than 5 names"):
        trigger_digest(str(folder), ["**/*"])
