"""walk_workspace: like os.walk, but only for the files that count."""

import os
import subprocess
from pathlib import Path

import pytest

from launcher.workspace import walk_workspace


def write(folder: Path, *names: str, ignore: str = "") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if ignore:
        (folder / ".launcherignore").write_text(ignore)
    return folder


def test_folders_come_from_the_top_with_the_files_that_count(tmp_path: Path) -> None:
    write(tmp_path, "b.py", "a.py", "sub/x", "sub/deep/y", "out/z", "empty/.git/HEAD", ignore="out\n")
    (tmp_path / "link").symlink_to("sub")
    assert list(walk_workspace(tmp_path)) == [
        (str(tmp_path), ["sub"], ["a.py", "b.py", "link"]),
        (str(tmp_path / "sub"), ["deep"], ["x"]),
        (str(tmp_path / "sub/deep"), [], ["y"]),
    ]


def test_a_folder_that_a_pattern_takes_back_is_reached(tmp_path: Path) -> None:
    write(tmp_path, "out/a", "out/keep/b", ignore="out\n!out/keep\n")
    assert [(Path(folder).name, files) for folder, _, files in walk_workspace(tmp_path)] == [
        (tmp_path.name, []), ("out", []), ("keep", ["b"]),
    ]  # fmt: skip


def test_a_folder_that_the_caller_drops_is_not_entered(tmp_path: Path) -> None:
    write(tmp_path, "one/deep/a", "two/b")
    seen = []
    for folder, dirs, _ in walk_workspace(tmp_path):
        seen.append(Path(folder).name)
        dirs[:] = [name for name in dirs if name != "one"]
    assert seen == [tmp_path.name, "two"]


@pytest.mark.slow
def test_folders_may_be_nested_deeper_than_the_recursion_limit(tmp_path, monkeypatch):
    depth = 1_200
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.chdir(top)
    try:
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        Path("file").touch()
        os.chdir(tmp_path)
        walked = list(walk_workspace(top))
        assert len(walked) == depth + 1
        assert [found[1:] for found in walked[-2:]] == [(["d"], []), ([], ["file"])]
    finally:
        subprocess.run(["rm", "-rf", str(top)], check=True)  # shutil.rmtree goes no deeper than calls do
