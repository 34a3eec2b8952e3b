"""Files as users name them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from launcher.files import project_file, read_regular, write_whole


def test_a_file_is_read_up_to_the_limit(tmp_path: Path):
    (tmp_path / "file").write_text("text")
    assert read_regular(str(tmp_path / "file")) == b"text"
    assert read_regular(str(tmp_path / "file"), 2) == b"te"


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_a_pipe_that_the_shell_hands_over_is_read():
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    try:
        assert read_regular(f"/dev/fd/{reader}") == b"text"
    finally:
        os.close(reader)


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


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    write_whole(str(path), "old\n", mode=0o600)
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(path), "new\ud800")
    assert path.read_bytes() == b"old\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["file"]
