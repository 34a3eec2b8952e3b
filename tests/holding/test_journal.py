"""The record of an app as one process, or several, write it: whole lines of JSON, in their order."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from launcher.holding.journal import JournalWriter, as_json, read_events


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        'a "b"',
        "\\",
        "a\n\t\x00\x7f",
        "ünï 😀",
        None,
        False,
        -3,
        2.5,
        [],
        {"a": [None], "ü": {"b": True}},
    ],
)
def test_values_are_written_as_json_in_ascii(value: Any) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" not in text


def test_a_shared_record_goes_on_after_a_line_that_a_full_disk_has_cut(tmp_path: Path) -> None:
    path = tmp_path / "events"
    first = JournalWriter(str(path), is_shared=True)
    assert first.append({"e": "one", "t": 1})
    with open(path, "ab") as file:
        file.write(b'{"e":"cut","t"')
    assert JournalWriter(str(path), is_shared=True).append({"e": "two", "t": 2})
    assert first.append({"e": "three", "t": 3})
    assert first.unwritten == []
    assert [each["e"] for each in read_events(path.read_bytes())] == ["one", "two", "three"]
    assert path.read_bytes().count(b"\n") == 4


def test_a_record_with_one_writer_is_written_through_its_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "events"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    writer = JournalWriter(str(path), fd=fd)
    assert writer.append({"e": "one", "t": 1})
    assert writer.append({"e": "two", "t": 2})
    assert [each["e"] for each in read_events(path.read_bytes())] == ["one", "two"]
    writer.close()


def test_a_line_without_kind_or_time_is_no_event() -> None:
    lines = [b'{"e":"a","t":1}', b'{"e":"a"}', b'{"t":1}', b"[1]", b'{"e":"b","t":2}']
    assert [each["e"] for each in read_events(b"\n".join(lines) + b"\n")] == ["a", "b"]
