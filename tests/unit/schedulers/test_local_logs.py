"""Reading replica logs by place and time."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from launcher.schedulers.local import logs
from launcher.schedulers.local.logfiles import RecordReader
from launcher.schedulers.local.logs import LogView

KINDS = {"stdout": 0, "stderr": 1, "restart": 2}
SECOND = 10**9


def write(folder: Path, *written: tuple[float, str, bytes]) -> str:
    """Write a replica folder with these (seconds, stream, data); return its path."""
    folder.mkdir(exist_ok=True)
    combined, index = b"", b""
    for seconds, stream, data in written:
        stamp = int(seconds * SECOND) << 2 | KINDS[stream]
        index += len(combined).to_bytes(8, "little") + stamp.to_bytes(8, "little")
        combined += data
    (folder / "index").write_bytes(index)
    (folder / "combined.log").write_bytes(combined)
    return str(folder)


def between(folder: str, stream: str, since: float | None = None, until: float | None = None) -> bytes:
    with LogView(folder, stream) as view:
        return b"".join(view.chunks(*view.window(since, until)))


def test_a_window_holds_the_lines_that_began_in_it(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "r",
        (1, "stdout", b"one\ntw"),
        (2, "stdout", b"o\nthree\n"),
        (3, "stderr", b"oops\n"),
        (4, "stdout", b"four\n"),
    )
    assert between(folder, "combined", 2) == b"three\noops\nfour\n"
    assert between(folder, "combined", 2, 3) == b"three\noops\n"
    assert between(folder, "combined", None, 1) == b"one\ntwo\n"
    assert between(folder, "stdout", 3) == b"four\n"
    assert between(folder, "stderr", 1, 2.5) == b""
    assert between(folder, "stderr", 3, 3) == b"oops\n"
    assert between(folder, "combined", 5) == b""
    assert between(folder, "combined", 0, 9) == between(folder, "combined")


def test_each_byte_of_a_stream_has_its_time(tmp_path: Path) -> None:
    written = [(1, "stdout", b"one\n"), (2, "stderr", b"oops\n"), (3, "stdout", b"two\nthree\n")]
    folder = write(tmp_path / "r", *written)
    with LogView(folder) as view:
        assert [view.written(0, at) for at in (0, 4, 9)] == [
            (1 * SECOND, "stdout", 4),
            (2 * SECOND, "stderr", 9),
            (3 * SECOND, "stdout", 19),
        ]
    with LogView(folder, "stdout") as view:
        assert [view.written(4, at) for at in (0, 4)] == [(3 * SECOND, "stdout", 10)] * 2


def test_adjacent_windows_of_time_share_no_byte_and_miss_none(tmp_path: Path) -> None:
    written = [(n / 10, ("stdout", "stderr")[n % 2], b"x%d\ny" % n) for n in range(50)]
    folder = write(tmp_path / "r", *written)
    for stream in ("stdout", "stderr", "combined"):
        parts = [between(folder, stream, n, n + 1 - 1e-6) for n in range(6)]
        assert b"".join(parts) == between(folder, stream)


def test_a_replica_without_any_output_is_empty(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    folder = str(tmp_path / "r")
    assert between(folder, "stdout") == between(folder, "combined", 1, 2) == b""
    assert list(RecordReader(folder).read()) == []
    with LogView(folder, "stdout") as view:
        assert view.tail_start(5, 0, 0) == view.place_of(0) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60).map(lambda b: bytes(b"ab\n\n"[x % 4] for x in b)), count=st.integers(0, 8))
@pytest.mark.parametrize("block", [1, 3, 65536])
def test_tail_start_is_where_the_last_lines_begin(tmp_path, monkeypatch, data, count, block):
    monkeypatch.setattr(logs, "_BLOCK", block)
    pieces = [(n, ("stdout", "stderr")[n % 2], data[n * 7 : n * 7 + 7]) for n in range(9)]
    folder = write(tmp_path / "r", *pieces)
    for stream in ("combined", "stdout"):
        text = b"".join(piece for _, of, piece in pieces if stream in ("combined", of))
        lines = text.splitlines(keepends=True)
        with LogView(folder, stream) as view:
            start = view.tail_start(count, 0, view.size)
        assert text[start:] == b"".join(lines[max(0, len(lines) - count) :])


def test_records_hold_the_written_output_with_marks_of_restarts(tmp_path: Path) -> None:
    entries = [(1, "stdout", b"a"), (2, "stderr", b"b"), (3, "restart", b""), (4, "stdout", b"c")]
    folder = write(tmp_path / "r", *entries)
    found = [(r.time_ns // SECOND, r.stream, r.data) for r in RecordReader(folder).read()]
    assert found == [(1, "stdout", b"a"), (2, "stderr", b"b"), (3, "restart", b""), (4, "stdout", b"c")]
    assert [r.data for r in RecordReader(folder, "stdout").read() if r.data] == [b"a", b"c"]
    assert [r.data for r in RecordReader(folder, since=2, until=3).read() if r.data] == [b"b"]


@pytest.mark.parametrize("keep_open", [False, True])
def test_a_reader_goes_on_where_it_ended(tmp_path: Path, keep_open: bool) -> None:
    written = [(1, "stdout", b"abc"), (2, "restart", b""), (3, "stderr", b"def"), (4, "stdout", b"ghi")]
    folder = write(tmp_path / "whole", *written)
    combined, index = ((tmp_path / "whole" / name).read_bytes() for name in ("combined.log", "index"))
    growing = tmp_path / "r"
    growing.mkdir()
    folder = str(growing)
    readers = {start: RecordReader(folder, start=start, keep_open=keep_open) for start in (0, 4)}
    seen: dict[int, list[tuple[str, bytes]]] = {start: [] for start in readers}
    # The index is always ahead of the data; a record may be half written.
    for known, size in [(0, 0), (7, 0), (16, 0), (24, 2), (32, 3), (48, 3), (55, 6), (64, 6), (64, 9)]:
        (growing / "index").write_bytes(index[:known])
        (growing / "combined.log").write_bytes(combined[:size])
        for start, reader in readers.items():
            seen[start] += [(record.stream, record.data) for record in reader.read()]
    for reader in readers.values():
        reader.close()
    assert seen[0] == [
        *[("stdout", b"ab"), ("stdout", b"c"), ("restart", b"")],
        *[("stderr", b"def"), ("stdout", b"ghi")],
    ]
    assert [part for part in seen[4] if part[1]] == [("stderr", b"ef"), ("stdout", b"ghi")]


def test_a_log_whose_index_was_removed_can_still_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", (1, "stdout", b"a\n"))
    os.unlink(tmp_path / "r" / "index")
    assert between(folder, "combined") == b"a\n"


def test_a_log_of_an_earlier_version_with_a_file_for_each_stream_can_be_read(tmp_path: Path) -> None:
    """Such a log has a file for each stream, too: the index gives the same bytes."""
    folder = write(tmp_path / "r", (1, "stdout", b"out\n"), (2, "stderr", b"err\n"), (3, "stdout", b"on\n"))
    (tmp_path / "r" / "stdout.log").write_bytes(b"out\non\n")
    (tmp_path / "r" / "stderr.log").write_bytes(b"err\n")
    found = {stream: between(folder, stream) for stream in ("stdout", "stderr", "combined")}
    assert found == {"stdout": b"out\non\n", "stderr": b"err\n", "combined": b"out\nerr\non\n"}


def test_a_log_that_was_emptied_by_hand_can_be_read(tmp_path: Path) -> None:
    """The index of the log reaches beyond the data, or goes back."""
    folder = write(tmp_path / "r", *[(n, ("stdout", "stderr")[n % 2], b"line\n") for n in range(10)])
    (tmp_path / "r" / "combined.log").write_bytes(b"")
    for stream in ("stdout", "stderr", "combined"):
        assert between(folder, stream) == between(folder, stream, 3, 5) == b""
    assert list(RecordReader(folder).read()) == []
    with (tmp_path / "r" / "index").open("ab") as index:
        index.write((0).to_bytes(8, "little") + (20 * SECOND << 2).to_bytes(8, "little"))
    (tmp_path / "r" / "combined.log").write_bytes(b"new\n")
    for stream, left in {"combined": b"new\n", "stdout": b"new\n", "stderr": b""}.items():
        assert (between(folder, stream), between(folder, stream, 3, 5)) == (left, b"")
    assert b"".join(record.data for record in RecordReader(folder).read()) == b"new\n"
