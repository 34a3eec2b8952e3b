"""Only regular files are read: nothing waits for the writer of a pipe."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from launcher.files import read_regular


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
