"""A workspace as a tar stream: the files of its digest, and the same bytes wherever it lies."""

import io
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from launcher.workspace.archive import archive
from launcher.workspace.context import content_digest
from launcher.workspace.ignore import WorkspaceError


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}


def text_of(data: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(name)
        return file.read()


def packed(folder: Path, **how: object) -> bytes:
    return b"".join(archive(str(folder), **how))


def test_an_archive_holds_files_programs_links_and_their_folders(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/train.py": "print(1)", "run": "#!/bin/sh"})
    (tmp_path / "run").chmod(0o700)
    (tmp_path / "link").symlink_to("a/b/train.py")
    (tmp_path / "dangling").symlink_to("nowhere")
    found = members(packed(tmp_path))
    assert list(found) == ["a", "a/b", "a/b/train.py", "dangling", "link", "run"]
    assert [(m.mode, m.mtime, m.uid, m.gid, m.uname) for m in found.values() if not m.issym()] == [
        (0o755, 0, 0, 0, ""), (0o755, 0, 0, 0, ""), (0o644, 0, 0, 0, ""), (0o755, 0, 0, 0, ""),
    ]  # fmt: skip
    assert (found["link"].linkname, found["dangling"].linkname) == ("a/b/train.py", "nowhere")
    assert text_of(packed(tmp_path), "a/b/train.py") == b"print(1)"


def test_equal_workspaces_give_equal_bytes(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"b": "2", "a/x": "1"})
    other = write(tmp_path / "two", {"a/x": "1", "b": "2"})
    os.utime(other / "b", (1, 1))
    (other / "b").chmod(0o600)
    assert content_digest(str(one)) == content_digest(str(other))
    assert packed(one) == packed(other)


def test_ignored_files_are_not_in_the_archive(tmp_path: Path) -> None:
    write(
        tmp_path, {".dockerignore": "*.log\n", "a.log": "", "a": "", ".git/HEAD": "", "j.launcher.yaml": ""}
    )
    assert list(members(packed(tmp_path))) == [".dockerignore", "a"]


def test_odd_names_of_files_stay_unchanged_in_the_archive(tmp_path: Path) -> None:
    names = ["with space", "ä", "x" * 200, os.fsdecode(b"\xff"), "deep/" * 40 + "file"]
    write(tmp_path, dict.fromkeys(names, "x"))
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path)), errors="surrogateescape") as tar:
        assert sorted(m.name for m in tar if m.isfile()) == sorted(names)


def test_the_workspace_can_lie_in_a_folder_of_the_archive_with_files_beside_it(tmp_path: Path) -> None:
    write(tmp_path, {"Dockerfile": "mine"})
    data = packed(tmp_path, below="files", extra={"Dockerfile": b"ours"})
    assert list(members(data)) == ["files", "files/Dockerfile", "Dockerfile"]
    assert text_of(data, "Dockerfile") == b"ours"
    assert list(members(packed(tmp_path, extra={"Dockerfile": b"mine"}))) == ["Dockerfile"]


def test_an_empty_workspace_is_an_empty_folder(tmp_path: Path) -> None:
    assert packed(tmp_path).strip(b"\0") == b""
    assert list(members(packed(tmp_path, below="files"))) == ["files"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_workspace_that_has_changed_is_refused_before_the_archive_ends(tmp_path: Path, when: str) -> None:
    write(tmp_path, {"a": "1" * (1 << 20), "b": "1"})
    digest = content_digest(str(tmp_path))
    assert packed(tmp_path, digest=digest)
    found = archive(str(tmp_path), digest=digest)
    if when == "meanwhile":
        next(found)
    write(tmp_path, {"b": "12"})
    with pytest.raises(WorkspaceError, match="has changed"):
        list(found)


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="nowhere"):
        packed(tmp_path / "nowhere")


def test_large_workspaces_are_not_held_in_memory(tmp_path: Path) -> None:
    with (tmp_path / "model").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        size = sum(len(piece) for piece in archive(str(tmp_path)))
        assert size > 64 << 20
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
