"""Untrusted tar archives, unpacked into a new folder."""

import io
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.errors import LauncherError
from launcher.unpacking import Unpacked, unpack

Member = tuple[str, bytes, str]


def archive(*members: Member, content: bytes = b"x") -> Iterator[bytes]:
    """Return the pieces of an archive of (name, type, link target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, link in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            entry.size = len(content) if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(content))
    data = out.getvalue()
    return (data[at : at + 1000] for at in range(0, len(data), 1000))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def file(name: str) -> Member:
    return name, tarfile.REGTYPE, ""


def folder(name: str) -> Member:
    return name, tarfile.DIRTYPE, ""


def link(name: str, target: str) -> Member:
    return name, tarfile.SYMTYPE, target


def hard(name: str, target: str) -> Member:
    return name, tarfile.LNKTYPE, target


HOSTILE: list[tuple[str, list[Member]]] = [
    ("is an absolute path", [file("/x")]),
    ("leaves the folder", [file("../x")]),
    ("leaves the folder", [file("a/../../x")]),
    ("leaves the folder", [folder("..")]),
    ("a link that leaves", [link("x", "/etc/passwd")]),
    ("a link that leaves", [link("x", "..")]),
    ("a link that leaves", [link("a/b/x", "../../../y")]),
    ("a link that leaves", [folder("d"), link("d/a", ".."), link("x", "d/a/../..")]),
    ("a link that leaves", [folder("d/e"), link("d/e/a", "../.."), link("x", "d/e/a/..")]),
    ("is behind a link", [link("a", "."), file("a/x")]),
    ("is behind a link", [folder("d"), link("a", "d"), file("a/x")]),
    ("is behind a link", [folder("d"), file("d/y"), link("a", "d"), hard("x", "a/y")]),
    ("is there twice", [file("x"), file("x")]), ("is there twice", [link("x", "y"), file("x")]),
    ("is there twice", [file("x"), folder("x")]), ("is no file of the folder", [hard("x", "y")]),
    ("is no file of the folder", [link("y", "z"), hard("x", "y")]),
    ("leaves the folder", [hard("x", "../y")]),
    ("is an absolute path", [hard("x", "/etc/passwd")]),
    ("is a device or a pipe", [("x", tarfile.FIFOTYPE, "")]),
    ("is a device or a pipe", [("x", tarfile.CHRTYPE, "")]),
    ("is a device or a pipe", [("x", tarfile.BLKTYPE, "")]),
    ("is not a folder", [file(".")]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "members"), HOSTILE)
def test_a_hostile_archive_leaves_nothing(here: Path, why: str, members: list[Member]) -> None:
    (here / "y").write_text("mine")
    with pytest.raises(LauncherError, match=why):
        unpack(archive(file("first"), *members), str(here / "new" / "got"))
    assert os.listdir(here) == ["y"]
    assert (here / "y").stat().st_nlink == 1


def test_files_folders_and_links_are_unpacked_unchanged(here: Path) -> None:
    members = [folder("."), folder("./a"), file("./a/x"), link("a/link", "../a/x"), hard("b", "a/x")]
    assert unpack(archive(*members, file("c/d")), str(here / "got")) == Unpacked(3, 2)
    found = sorted(str(each.relative_to(here)) for each in here.rglob("*"))
    assert found == ["got", "got/a", "got/a/link", "got/a/x", "got/b", "got/c", "got/c/d"]
    assert (here / "got" / "a" / "link").read_text() == "x"


def test_only_the_named_folder_is_unpacked(here: Path) -> None:
    unpack(archive(folder("top"), file("top/x"), hard("top/y", "top/x")), str(here / "got"), top="top")
    assert sorted(os.listdir(here / "got")) == ["x", "y"]
    with pytest.raises(LauncherError, match="'z' is not below top"):
        unpack(archive(file("z")), str(here / "other"), top="top")


def test_an_archive_with_names_that_are_no_text_may_be_unpacked_into_an_empty_folder(here: Path) -> None:
    (here / "got").mkdir()
    name = os.fsdecode(b"\xff\xfe")
    unpack(archive(file(name)), str(here / "got"))
    assert os.listdir(here / "got") == [name]


def test_a_folder_that_another_process_filled_is_kept(here: Path) -> None:
    def slow() -> Iterator[bytes]:
        yield from archive(file("x"))
        (here / "got").mkdir()
        (here / "got" / "mine").touch()

    with pytest.raises(LauncherError, match="is not empty"):
        unpack(slow(), str(here / "got"))
    assert [os.listdir(here), os.listdir(here / "got")] == [["got"], ["mine"]]


def test_the_current_folder_is_not_replaced(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    with pytest.raises(LauncherError, match="current folder"):
        unpack(archive(file("x")), ".")


def cut(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield next(pieces)[:700]


def failing(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield from pieces
    raise LauncherError("the connection broke")


def noise(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield b"no archive " * 1000


@pytest.mark.parametrize("broken", [cut, failing, noise])
def test_a_broken_archive_leaves_nothing(here, broken):
    with pytest.raises(LauncherError):
        unpack(broken(archive(file("x"), file("y"))), str(here / "got"))
    assert os.listdir(here) == []


def test_leftovers_of_a_killed_process_are_removed_and_a_living_process_is_not_disturbed(here: Path) -> None:
    (here / ".got.launcher-dead" / "files").mkdir(parents=True)

    def other() -> Iterator[bytes]:
        unpack(archive(file("first")), str(here / "got"))
        yield from archive(file("second"))

    with pytest.raises(LauncherError, match="is not empty"):
        unpack(other(), str(here / "got"))
    assert [os.listdir(here), os.listdir(here / "got")] == [["got"], ["first"]]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_archive(here: Path) -> None:
    def many() -> Iterator[bytes]:
        for n in range(4_000):
            entry = tarfile.TarInfo(f"{n}")
            yield entry.tobuf(tarfile.GNU_FORMAT)
        big = tarfile.TarInfo("big")
        big.size = 64 << 20
        yield big.tobuf(tarfile.GNU_FORMAT)
        for _ in range(64):
            yield bytes(1 << 20)
        yield bytes(1024)

    tracemalloc.start()
    try:
        assert unpack(many(), str(here / "got")) == Unpacked(4_001, 64 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
