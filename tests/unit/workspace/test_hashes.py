"""Hashes of files, each file read once."""

import os
import time
from hashlib import sha256
from pathlib import Path

import pytest

from launcher.workspace import seen as hashes
from launcher.workspace.seen import FileHashes


def test_a_file_is_read_once_for_each_reader(tmp_path: Path):
    file = tmp_path / "train.py"
    file.write_bytes(b"one")
    hashes = FileHashes()
    first = hashes.digest(str(file))
    file.write_bytes(b"two")
    assert first == hashes.digest(str(file)) == sha256(b"one").hexdigest()
    assert FileHashes().digest(str(file)) == sha256(b"two").hexdigest()


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        with pytest.raises(OSError, match=r"pipe|No such|directory"):
            FileHashes().digest(str(tmp_path / name))


def test_a_file_at_rest_is_not_read_again_and_a_file_just_written_is(tmp_path, monkeypatch):
    read: list[str] = []
    real = hashes.file_hash
    monkeypatch.setattr(hashes, "file_hash", lambda path: read.append(path) or real(path))
    file = tmp_path / "train.py"
    file.write_bytes(b"one")
    FileHashes().digest(str(file))
    FileHashes().digest(str(file))
    assert len(read) == 2  # a change within the tick of the file system's clock would not show
    later = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(hashes, "time_ns", lambda: later)
    FileHashes().digest(str(file))
    FileHashes().digest(str(file))
    assert len(read) == 3
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the size and the time of the old content
    assert FileHashes().digest(str(file)) == sha256(b"two").hexdigest()
