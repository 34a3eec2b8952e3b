"""One process or several write the record of an app: whole lines of JSON, in order."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from launcher.holding import journal
from launcher.holding.journal import JournalWriter, as_json, from_json, line, preallocate, read_events


@contextmanager
def room_for(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def kinds(path: Path) -> list[str]:
    """Return the kinds of the events in a record in which each line is whole."""
    return [json.loads(each)["e"] for each in path.read_bytes().splitlines()]


def _values(**floats: bool) -> st.SearchStrategy[Any]:
    """Return values of JSON; `floats` says which numbers they hold."""
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, **floats) | st.text()
    return st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@example('a "b"')
@example("a\\b")
@example("a\n\t\x00\x7f")
@example({"ü": ["ünï 😀", {"b": True}]})
@example(os.fsdecode(b"a\xff"))
@given(_values(allow_infinity=False))
def test_every_value_is_written_as_one_line_of_json_in_ascii(value: Any) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" not in text


@given(_values(), st.sampled_from(["", " ", "\n\t"]), st.booleans())
def test_the_reader_reads_each_value_as_the_module_json_does(value: Any, blank: str, is_ascii: bool) -> None:
    text = blank + json.dumps(value, ensure_ascii=is_ascii) + blank
    assert from_json(text) == json.loads(text)


@given(st.text('[]{}":,0123456789.-+eEnulltruefasNIity \\\x00\n\u2003', max_size=12))
def test_the_reader_refuses_what_the_module_json_refuses(text: str) -> None:
    assert _value_of(text, from_json) == _value_of(text, json.loads)


@pytest.mark.parametrize("text", ['{"e": [1, "ü", null]}', "", "[1", "1 2", "nul"])
def test_an_interpreter_without_the_scanner_of_cpython_reads_the_same(text, monkeypatch):
    monkeypatch.setitem(sys.modules, "_json", None)
    monkeypatch.setattr(journal, "_scan", None)
    assert _value_of(text, from_json) == _value_of(text, json.loads)


_READ = """
import sys
from launcher.holding.journal import from_json
try:
    print(from_json(sys.argv[1]))
except ValueError:
    print("no JSON", "json" in sys.modules)
"""


@pytest.mark.parametrize(
    "text", ["{", '{"a"', '"abc', '{"e": 1 "t"', '[{"e": 1}, {"t"]', '"\\x', '"\\ud8', "[1,"]
)
def test_a_process_without_the_module_json_refuses_text_that_breaks_off(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", _READ, text], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("no JSON False\n", "")


def _value_of(text: str, read: Callable[[str], Any]) -> str:
    try:
        return repr(read(text))
    except ValueError:
        return "no JSON"


@pytest.mark.parametrize(("value", "text"), [
    ("plain", '"plain"'), ('"X"', r'"\"X\""'), ("\x7f", r'"\u007f"'), ("ü😀", '"\\u00fc\\ud83d\\ude00"'),
    (True, "true"), (False, "false"), ((1, 2), "[1,2]"),
])  # fmt: skip
def test_each_value_is_always_written_as_the_same_json(value: Any, text: str) -> None:
    assert as_json(value) == text


def test_a_value_that_json_cannot_hold_is_an_error() -> None:
    with pytest.raises(TypeError):
        as_json(b"bytes")


def test_a_line_begins_with_version_kind_and_time() -> None:
    assert line({"code": 3, "t": 7, "e": "exit", "v": 1}) == b'{"v":1,"e":"exit","t":7,"code":3}\n'
    assert line({"t": 7, "e": "exit"}) == b'{"e":"exit","t":7}\n'


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


def test_a_new_record_replaces_the_record_of_an_interrupted_submission(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(line({"e": "created", "t": 1}))
    writer = JournalWriter.begin(str(path))
    assert writer.append({"e": "supervisor"})
    assert kinds(path) == ["supervisor"]
    writer.close()


@pytest.mark.parametrize("before", [b"", line({"v": 1, "e": "created", "t": 1})])
def test_the_record_of_a_started_app_is_not_begun_again(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "events"
    path.write_bytes(before + b'{"e":"starting","t":1}\n')
    descriptors = os.listdir("/proc/self/fd")
    with pytest.raises(FileExistsError):
        JournalWriter.begin(str(path))
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)
    assert kinds(path)[-1] == "starting"


def test_the_next_holder_continues_the_record(tmp_path: Path) -> None:
    path = tmp_path / "events"
    writer = JournalWriter.begin(str(path))
    writer.append({"e": "starting", "t": 1})
    writer.put_down()
    heir = JournalWriter.go_on(str(path))
    assert heir.append({"e": "spawn", "t": 2})
    assert kinds(path) == ["starting", "spawn"]
    heir.close()


def test_a_closed_record_frees_its_descriptor(tmp_path: Path) -> None:
    writer = JournalWriter.begin(str(tmp_path / "events"))
    descriptors = os.listdir("/proc/self/fd")
    writer.close()
    assert len(os.listdir("/proc/self/fd")) == len(descriptors) - 1
    JournalWriter(str(tmp_path / "events")).close()  # it has none


# -- blocks ahead of the end -------------------------------------------------------------------------------


def with_blocks(path: Path, size: int) -> Path:
    """Make an empty file with blocks for `size` bytes. Skips on a file system that cannot allocate them."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            preallocate(file.fileno(), 0, size or 1)
        except OSError as error:
            pytest.skip(f"no blocks can be allocated here: {error.strerror}")
        if not size:
            file.truncate()
    return path


def ahead(path: Path) -> int:
    """Return the allocated bytes of a file beyond its end."""
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def test_blocks_allocated_for_a_record_leave_it_empty_and_are_kept_by_its_writers(tmp_path: Path) -> None:
    path = with_blocks(tmp_path / "events", 16_384)
    assert (path.stat().st_size, ahead(path)) == (0, 16_384)
    writer = JournalWriter.begin(str(path))
    writer.append({"e": "starting"})
    writer.put_down()
    heir = JournalWriter.go_on(str(path))
    heir.append({"e": "spawn"})
    assert path.stat().st_blocks * 512 == 16_384
    assert kinds(path) == ["starting", "spawn"]
    heir.close()


@pytest.mark.parametrize("size", [0, 4096])
def test_a_growing_record_keeps_blocks_ahead_of_its_end_and_an_ended_one_frees_them(tmp_path, size):
    path = with_blocks(tmp_path / "events", size)
    writer = JournalWriter.begin(str(path))
    for number in range(2000):
        writer.append({"e": "warning", "message": f"number {number}"})
        assert ahead(path) >= 1024
    assert path.stat().st_size > 100_000
    assert len(kinds(path)) == 2000
    writer.close()
    assert ahead(path) <= 8192 + 4096  # in whole blocks


def test_a_short_record_ends_without_another_change_of_its_blocks(tmp_path: Path) -> None:
    path = with_blocks(tmp_path / "events", 4096)
    writer = JournalWriter.begin(str(path))
    writer.append({"e": "ended"})
    changed_at = path.stat().st_ctime_ns
    writer.close()
    assert path.stat().st_ctime_ns == changed_at


@pytest.mark.parametrize(("number", "tries"), [(errno.EOPNOTSUPP, 1), (errno.ENOTTY, 1), (errno.ENOSPC, 3)])
def test_blocks_are_asked_for_again_only_where_the_file_system_can_give_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, tries: int
) -> None:
    asked = []

    def fail(fd: int, start: int, size: int) -> None:
        asked.append(start)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(journal, "preallocate", fail)
    path = tmp_path / "events"
    writer = JournalWriter.begin(str(path))
    for kind in ("one", "two", "three"):
        assert writer.append({"e": kind})
    assert kinds(path) == ["one", "two", "three"]
    assert len(asked) == tries


FULL_DISK = """
import os, sys
from pathlib import Path
from launcher.holding.journal import JournalWriter, preallocate

path, filler = Path(sys.argv[1], "events"), Path(sys.argv[1], "filler")
with open(path, "wb") as file:
    preallocate(file.fileno(), 0, 16384)
writer = JournalWriter.begin(str(path))
assert writer.append({"e": "starting"})
with open(filler, "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError as error:
        print(os.strerror(error.errno))
print(all([writer.append({"e": "exit", "message": 64 * "x"}) for _ in range(100)]))
print(all([writer.append({"e": "exit", "message": 64 * "x"}) for _ in range(100)]), writer.error)
assert path.read_bytes().endswith(b"\\n")
filler.unlink()
print(writer.is_written(), path.read_bytes().count(b"\\n"))
"""


def test_on_a_full_disk_the_next_events_have_room_and_later_events_wait(tmp_path: Path) -> None:
    if not shutil.which("unshare") or os.geteuid() != 0:
        pytest.skip("needs root and unshare(1), to mount something")
    mount = 'mount -t tmpfs -o size=256k none "$3" || exit 99; exec "$0" -c "$1" "$3"'
    argv = ["unshare", "-m", "sh", "-c", mount, sys.executable, FULL_DISK, "", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 99:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    full = "No space left on device"
    assert done.stdout.splitlines() == [full, "True", f"False [Errno 28] {full}", "True 201"], done.stderr


def test_a_record_without_a_descriptor_is_opened_for_each_write_and_cut_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "events"
    before = line({"e": "one", "t": 1})
    path.write_bytes(before + b'{"e":"cut"')
    descriptors = os.listdir("/proc/self/fd")
    writer = JournalWriter(str(path), size=len(before))
    assert writer.append({"e": "two"})
    assert writer.append({"e": "three"})
    assert kinds(path) == ["one", "two", "three"]
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)
    assert writer.error is None


def test_events_wait_while_the_record_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "events"
    writer = JournalWriter(str(path))
    assert not writer.append({"e": "one"})
    assert isinstance(writer.error, FileNotFoundError)
    assert [each["e"] for each in writer.unwritten] == ["one"]
    path.parent.mkdir()
    assert writer.append({"e": "two"})
    assert kinds(path) == ["one", "two"]


def test_a_held_back_event_is_written_with_the_next_event(tmp_path: Path) -> None:
    path = tmp_path / "events"
    writer = JournalWriter(str(path))
    writer.hold_back({"e": "one", "t": 5})
    assert not path.exists()
    assert writer.append({"e": "two"})
    assert writer.is_written()
    one, two = read_events(path.read_bytes())
    assert (one["e"], one["t"], two["e"]) == ("one", 5, "two")
    assert two["t"] > 1e18  # ns


def test_events_wait_for_free_space_and_lines_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    record = JournalWriter.begin(str(path))
    with room_for(200):
        for number in range(20):
            record.append({"e": "warning", "message": f"number {number}"})
        assert not record.is_written()
        assert path.stat().st_size <= 200
        assert path.read_bytes().endswith(b"\n")
        assert set(kinds(path)) == {"warning"}
    assert isinstance(record.error, OSError)
    assert record.is_written()
    assert [json.loads(each)["message"] for each in path.read_text().splitlines()] == [
        f"number {number}" for number in range(20)
    ]


def test_lines_of_a_shared_record_wait_for_free_space(tmp_path: Path) -> None:
    path = tmp_path / "events"
    writer = JournalWriter(str(path), is_shared=True)
    events = [{"e": "warning", "t": 1, "message": "m" * 50} for _ in range(5)]
    with room_for(len(line(events[0])) * 5 // 2):
        assert [writer.append(each) for each in events] == [True, True, False, False, False]
        assert path.read_bytes()[-1:] != b"\n"
    assert writer.is_written()
    assert [each["e"] for each in read_events(path.read_bytes())] == ["warning"] * 5


def test_a_line_without_a_kind_or_a_time_is_no_event() -> None:
    lines = [b'{"e":"a","t":1}', b'{"e":"a"}', b'{"t":1}', b"[1]", b'{"e":"b","t":2}']
    assert [each["e"] for each in read_events(b"\n".join(lines) + b"\n")] == ["a", "b"]


def test_a_torn_line_costs_only_itself() -> None:
    whole = line({"e": "a", "t": 1}) + b'{"e":"exi\0\0\n' + line({"e": "b", "t": 2})
    assert [each["e"] for each in read_events(whole + b'{"e":"c","t":3}')] == ["a", "b"]
    assert read_events(b"") == read_events(b'{"e":"a","t":1}') == []
