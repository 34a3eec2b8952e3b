"""Hashes of files, each file read once."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from launcher.workspace.hashes import FileHashes


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
        with pytest.raises(OSError, match="."):
            FileHashes().digest(str(tmp_path / name))
