"""Files as users name them."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launcher.files import project_file, read_regular, remove_leftovers, write_whole


def test_a_file_and_a_pipe_that_the_shell_hands_over_are_read_up_to_a_limit(tmp_path: Path):
    (tmp_path / "file").write_text("text")
    assert read_regular(str(tmp_path / "file")) == b"text"
    assert read_regular(str(tmp_path / "file"), 2) == b"te"
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    try:
        assert read_regular(f"/dev/fd/{reader}") == b"text"
    finally:
        os.close(reader)


def test_a_path_that_is_no_regular_file_is_refused_without_being_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("pipe")
    os.symlink("pipe", "link")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for path, why in (
            *(("pipe", "a named pipe"), ("link", "a named pipe"), ("socket", "a socket")),
            *(("/dev/zero", "a device"), (".", "Is a directory")),
        ):
            with pytest.raises(OSError, match=why):
                read_regular(path)


def test_the_project_file_is_the_nearest_one_in_the_work_tree(tmp_path: Path):
    inner = tmp_path / "tree" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "launcher.toml").write_text("")
    assert project_file(str(inner)) == str(tmp_path / "launcher.toml")
    (tmp_path / "tree" / ".git").mkdir()
    assert project_file(str(inner)) is None
    (tmp_path / "tree" / "launcher.toml").write_text("")
    assert project_file(str(inner / "not made yet")) == str(tmp_path / "tree" / "launcher.toml")
    (tmp_path / "tree" / "a" / "launcher.toml").mkdir()
    assert project_file(str(inner)) == str(tmp_path / "tree" / "launcher.toml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "f"
    made.mkdir()
    return made


def test_a_write_that_fails_leaves_the_file_as_it_was(folder: Path):
    path = folder / "file"
    write_whole(str(path), "old\n", mode=0o600)
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(path), "new\ud800")
    assert path.read_bytes() == b"old\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(folder) == ["file"]


@pytest.mark.slow
def test_threads_that_write_one_file_at_once_leave_a_whole_text_and_nothing_beside(folder: Path):
    path, texts = str(folder / "file"), ["a" * 5000, "b" * 9000]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_whole(path, texts[number % 2]), range(400)))
    assert (folder / "file").read_text() in texts
    assert os.listdir(folder) == ["file"]


def test_leftovers_of_killed_writers_are_removed_once_no_writer_can_need_them(folder: Path):
    names = ["page.1-2.new", "page.3-4.new", "page.old.new", "page.5-6.new.txt", "other.1-2.new"]
    for name in names:
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    (folder / "page.3-4.new").touch()
    remove_leftovers(str(folder / "page."), ".new")
    assert sorted(os.listdir(folder)) == sorted(names[1:])
    remove_leftovers(str(folder / "none" / "page."), ".new")


def test_a_link_where_the_new_text_would_be_written_is_not_followed(folder: Path):
    (folder / "other").write_text("theirs")
    beside = folder / f"file.{os.getpid()}-{threading.get_ident()}.new"
    beside.symlink_to(folder / "other")
    write_whole(str(folder / "file"), "ours")
    assert (folder / "other").read_text() == "theirs"
    assert sorted(os.listdir(folder)) == ["file", "other"]
