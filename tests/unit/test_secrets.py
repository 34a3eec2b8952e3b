"""Reading secrets: the value, or an error that names the reference and never the value."""

import os
from pathlib import Path

import pytest

from launcher.errors import SecretError
from launcher.secrets import missing, resolve

CANARY = "canary-3f81c2"


def test_a_secret_is_read_from_a_variable_and_from_a_file_below_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("API_KEY", f" {CANARY}\n")
    assert resolve("env:API_KEY") == f" {CANARY}\n"
    Path(os.environ["HOME"], ".key").write_text(CANARY)
    assert resolve("file:~/.key") == CANARY


@pytest.mark.parametrize(
    ("written", "value"), [("v", "v"), ("v\n", "v"), ("v\r\n", "v"), ("v\n\n", "v\n"), (" a\nb", " a\nb")]
)
def test_a_secret_is_read_from_a_file_without_its_last_line_end(tmp_path: Path, written: str, value: str):
    file = tmp_path / "key"
    file.write_bytes(written.encode())
    assert resolve(f"file:{file}") == value


def failure(reference: str) -> str:
    with pytest.raises(SecretError) as failed:
        resolve(reference)
    assert CANARY not in repr(failed.value) + str(failed.value.hint)
    assert failed.value.__cause__ is None or CANARY not in repr(failed.value.__cause__)
    return str(failed.value)


def test_a_missing_an_empty_and_an_irregular_secret_are_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "key").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    for reference, why in {
        "env:NOT_THERE": "the environment variable NOT_THERE is not set",
        f"file:{tmp_path}/no": f"cannot read {tmp_path}/no: No such file or directory",
        "env:EMPTY": "EMPTY is empty",
        f"file:{tmp_path}/key": f"{tmp_path}/key is empty",
        f"file:{tmp_path}/pipe": f"{tmp_path}/pipe is not a file",
        f"file:{tmp_path}": f"{tmp_path} is not a file",
    }.items():
        assert failure(reference) == why


@pytest.mark.parametrize(("data", "why"), [
    (CANARY.encode() + b"\xff", "is not UTF-8 text"),
    (CANARY.encode() + b"\0", "holds a NUL character, which no environment variable can"),
    (CANARY.encode() * 20_000, "is larger than"),
])  # fmt: skip
def test_a_secret_that_no_variable_can_hold_is_refused(tmp_path: Path, data: bytes, why: str):
    (tmp_path / "key").write_bytes(data)
    assert why in failure(f"file:{tmp_path}/key")


def test_missing_secrets_are_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THERE", "x")
    assert missing(["env:THERE", "env:GONE", "env:GONE"]) == {
        "env:GONE": "the environment variable GONE is not set"
    }
