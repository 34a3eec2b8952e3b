"""Reading replica logs by place and time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.schedulers.local import logs

KINDS = {"stdout": 0, "stderr": 1, "restart": 2}
SECOND = 10**9


def write(folder: Path, *records: tuple[float, str, bytes]) -> str:
    """A replica folder with these (seconds, stream, data)."""
    folder.mkdir(exist_ok=True)
    combined, index, streams = b"", b"", {"stdout": b"", "stderr": b""}
    for seconds, stream, data in records:
        stamp = int(seconds * SECOND) << 2 | KINDS[stream]
        index += len(combined).to_bytes(8, "little") + stamp.to_bytes(8, "little")
        combined += data
        if data:
            streams[stream] += data
    (folder / "index").write_bytes(index)
    (folder / "combined.log").write_bytes(combined)
    for stream, data in streams.items():
        (folder / f"{stream}.log").write_bytes(data)
    return str(folder)


def between(folder: str, stream: str, since: float | None = None, until: float | None = None) -> bytes:
    return b"".join(logs.chunks(logs.path_of(folder, stream), *logs.window(folder, stream, since, until)))


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


def test_windows_side_by_side_share_no_byte_and_miss_none(tmp_path: Path) -> None:
    records = [(n / 10, ("stdout", "stderr")[n % 2], b"x%d\ny" % n) for n in range(50)]
    folder = write(tmp_path / "r", *records)
    for stream in ("stdout", "stderr", "combined"):
        parts = [between(folder, stream, n, n + 1 - 1e-6) for n in range(6)]
        assert b"".join(parts) == between(folder, stream)


def test_a_replica_without_any_output_is_empty(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    folder = str(tmp_path / "r")
    assert between(folder, "stdout") == between(folder, "combined", 1, 2) == b""
    assert list(logs.records(folder)) == []
    assert logs.tail_start(logs.path_of(folder, "stdout"), 5, 0, 0) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60).map(lambda b: bytes(b"ab\n\n"[x % 4] for x in b)), count=st.integers(0, 8))
@pytest.mark.parametrize("block", [1, 3, 65536])
def test_tail_start_is_where_the_last_lines_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, count: int, block: int
) -> None:
    monkeypatch.setattr(logs, "_BLOCK", block)
    path = tmp_path / "log"
    path.write_bytes(data)
    lines = data.splitlines(keepends=True)
    start = logs.tail_start(str(path), count, 0, len(data))
    assert data[start:] == b"".join(lines[max(0, len(lines) - count) :])


def test_records_are_what_was_written_with_marks_of_restarts(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "r", (1, "stdout", b"a"), (2, "stderr", b"b"), (3, "restart", b""), (4, "stdout", b"c")
    )
    found = [(r.time_ns // SECOND, r.stream, r.data) for r in logs.records(folder)]
    assert found == [(1, "stdout", b"a"), (2, "stderr", b"b"), (3, "restart", b""), (4, "stdout", b"c")]
    assert [r.data for r in logs.records(folder, "stdout") if r.data] == [b"a", b"c"]
    assert [r.data for r in logs.records(folder, since=2, until=3) if r.data] == [b"b"]


def test_a_reader_goes_on_where_it_ended(tmp_path: Path) -> None:
    records = [(1, "stdout", b"abc"), (2, "stderr", b"def"), (3, "stdout", b"ghi")]
    folder = write(tmp_path / "r", *records)
    combined, index = ((tmp_path / "r" / name).read_bytes() for name in ("combined.log", "index"))
    reader = logs.RecordReader(folder, "combined", None, None)
    seen: list[tuple[str, bytes]] = []
    for size in range(len(combined) + 1):  # the index is always ahead of the data
        (tmp_path / "r" / "combined.log").write_bytes(combined[:size])
        (tmp_path / "r" / "index").write_bytes(index[: 16 * min(3, size // 3 + 1)])
        seen += [(record.stream, record.data) for record in reader.read()]
    assert b"".join(data for stream, data in seen if stream == "stdout") == b"abcghi"
    assert b"".join(data for stream, data in seen if stream == "stderr") == b"def"


def test_an_index_record_that_is_half_written_is_not_there(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", (1, "stdout", b"a\n"))
    with (tmp_path / "r" / "index").open("ab") as index:
        index.write(b"\x02\0\0\0\0")
    assert [record.data for record in logs.records(folder)] == [b"a\n"]


def test_a_record_behind_the_data_is_harmless(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", (1, "stdout", b"a\n"), (2, "stdout", b"lost\n"))
    (tmp_path / "r" / "combined.log").write_bytes(b"a\n")
    assert [record.data for record in logs.records(folder)] == [b"a\n"]
    assert between(folder, "combined", 2) == b""
