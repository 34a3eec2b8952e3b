"""Compiling reads the world only through noted functions; otherwise a kept outcome may be wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher import looks
from launcher.looks import Notes

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "tests" / "corpus"
WATCH = Path(__file__).with_name("watch.py")
FILE = """\
version: 1
name: job
vars: {x: {type: str, default: a, from_env: SOME_VARIABLE}}
workspace: .
inputs: [data.txt]
roles: {main: {entrypoint: echo, args: [$<var.x>]}}
"""


def watched(*paths: Path) -> Any:
    """Return the looks that are not noted, with their places, and the noted functions that were called."""
    command = [sys.executable, str(WATCH), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "data.txt").write_text("data")
    path = tmp_path / "job.launcher.yaml"
    path.write_text(FILE)
    return path


@pytest.mark.slow
def test_the_corpus_is_compiled_from_noted_looks_alone() -> None:
    files = [*(CORPUS / "good").rglob("*.launcher.*"), *sorted((CORPUS / "bad").rglob("*.launcher.*"))[::6]]
    files = [each for each in files if "component" not in str(each)]
    found = watched(*files, CORPUS / "good" / "needs", *sorted((ROOT / "examples").iterdir()))
    assert found["strangers"] == []
    assert {"_content", "_below", "files_of_project", "project_file"} <= {*found["asked"]}
    assert {"project_digest", "inputs_digest", "input_paths", "origin", "exists"} <= {*found["asked"]}


@pytest.mark.slow
def test_a_file_is_compiled_from_noted_looks_alone(file):
    found = watched(file)
    assert found["strangers"] == []
    assert {"_content", "variable", "project_digest", "inputs_digest"} <= {*found["asked"]}


@pytest.mark.slow
def test_a_function_that_looks_at_a_file_without_noting_it_is_reported(file, tmp_path, monkeypatch):
    copy = shutil.copytree(ROOT / "launcher", tmp_path / "copy" / "launcher")
    text = (copy / "looks.py").read_text()
    (copy / "looks.py").write_text(text.replace("@noted\ndef real_path", "def real_path"))
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    assert "os.lstat in looks.py: real_path" in watched(file)["strangers"]


@pytest.mark.slow
def test_a_data_file_outside_the_identity_of_the_code_is_reported(file, tmp_path, monkeypatch):
    copy = shutil.copytree(ROOT / "launcher", tmp_path / "copy" / "launcher")
    messages = copy / "jobfile" / "messages"
    (messages / "foreign.toml").rename(messages / "foreign.txt")
    module = messages / "foreign.py"
    module.write_text(module.read_text().replace('"foreign.toml"', '"foreign.txt"'))
    monkeypatch.setenv("PYTHONPATH", str(copy.parent))
    file.write_text(FILE + "command: echo\n")
    assert watched(file)["strangers"] == ["open in foreign.py: words"]


def test_a_repeated_look_gets_the_first_answer(tmp_path):
    path = str(tmp_path / "file")
    with Notes(b"key") as notes:
        assert not looks.exists(path)
        Path(path).touch()
        assert not looks.exists(path)
    assert looks.exists(path)
    assert not Notes(b"key").still_hold(notes.asked)


def test_a_look_at_a_missing_file_is_noted_and_changes_with_the_file(tmp_path):
    path = tmp_path / "file"
    with Notes(b"key") as notes, pytest.raises(FileNotFoundError):
        looks.content(str(path), 10)
    assert notes.is_repeatable
    assert Notes(b"key").still_hold(notes.asked)
    path.write_text("text")
    assert not Notes(b"key").still_hold(notes.asked)


def test_a_file_of_the_same_size_and_times_is_another_answer(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    about = path.stat()
    with Notes(b"key") as notes:
        looks.content(str(path), 10)
    path.write_text("two")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert not Notes(b"key").still_hold(notes.asked)


def test_a_pipe_is_read_once_and_never_again():
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    with Notes(b"key") as notes:
        assert looks.content(f"/dev/fd/{reader}", 10) == b"text"
    os.close(reader)
    assert not notes.is_repeatable


def test_the_digest_of_an_answer_depends_on_the_key(monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "a value")
    digests = []
    for key in (b"one", b"two"):
        with Notes(key) as notes:
            looks.variable("A_VARIABLE")
        digests += notes.asked.values()
    assert len({*digests}) == 2
