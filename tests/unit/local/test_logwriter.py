"""Readers return the bytes that were written to a log, in order, wherever the writer was killed."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from launcher.schedulers.local import logwriter, rundir
from launcher.schedulers.local.logfiles import RecordReader, numbers
from launcher.schedulers.local.logs import LogView
from launcher.schedulers.local.logwriter import LogWriter, ReplicaLog

STREAMS = ("stdout", "stderr")
Write = tuple[int, bytes, int]  # kind, data, milliseconds since the one before

WRITES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.binary(min_size=1, max_size=30).map(lambda data: bytes(b"ab\n"[byte % 3] for byte in data)),
        st.sampled_from([0, 1, 7]),
    ),
    max_size=40,
)


class Clock:
    """A replacement of the module `time`."""

    def __init__(self) -> None:
        self.now = 10**18

    def time_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(logwriter, "time", made)
    return made


def fail(log: ReplicaLog, error: OSError) -> None:
    raise error


def write(
    folder: str, writes: list[Write], clock: Clock, *, max_open: int = 1, max_bytes: int = 0
) -> list[str]:
    """Write for two replicas in turn, which closes and opens the files; return the logs with drops."""
    dropped: list[str] = []
    writer = LogWriter(max_open, fail, max_bytes=max_bytes, on_drop=lambda log: dropped.append(log.folder))
    log, other = (ReplicaLog(os.path.join(folder, name)) for name in "ab")
    for each in (log, other):
        os.mkdir(each.folder)
    for number, (kind, data, ms) in enumerate(writes):
        clock.now += ms * 1_000_000
        writer.append(log, kind, memoryview(data))
        if number % 7 == 3:
            writer.append(other, 0, b"other\n")
        if number % 11 == 5:
            writer.mark_restart(log)
    writer.close_all()
    return dropped


def text_of(folder: str, stream: str) -> bytes:
    with LogView(folder, stream) as view:
        assert b"".join(view.at(n, 1) for n in range(view.size)) == b"".join(view.chunks())
        return b"".join(view.chunks())


def joined(parts: Iterator[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return the records with neighbours of one stream joined."""
    made: list[tuple[str, bytes]] = []
    for stream, data in parts:
        if made and made[-1][0] == stream:
            made[-1] = (stream, made[-1][1] + data)
        elif data:
            made.append((stream, data))
    return made


@given(WRITES, st.integers(0, 1000), st.integers(0, 15))
def test_readers_return_all_output_written_up_to_the_kill(writes: list[Write], cut: int, torn: int) -> None:
    """A kill leaves a beginning of what would have been written, record before data."""
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(logwriter, "time", clock)
        write(home, writes, clock)
        folder = os.path.join(home, "a")
        whole = b"".join(data for _, data, _ in writes)
        data_file, index_file = (Path(folder, name) for name in (rundir.COMBINED, rundir.INDEX))
        cut = min(cut, len(whole))
        if cut < len(whole):
            os.truncate(data_file, cut)
            index = index_file.read_bytes()
            places = [int.from_bytes(index[at : at + 8], "little") for at in range(0, len(index), 16)]
            os.truncate(index_file, 16 * sum(place < cut for place in places) + torn)
        left = cut
        expected = []
        for kind, data, _ in writes:
            expected.append((STREAMS[kind], data[:left]))
            left -= len(data[:left])
        assert text_of(folder, "combined") == whole[:cut]
        for stream in STREAMS:
            assert text_of(folder, stream) == b"".join(data for of, data in expected if of == stream)
            read = [record.data for record in RecordReader(folder, stream).read()]
            assert b"".join(read) == text_of(folder, stream)
        found = ((record.stream, record.data) for record in RecordReader(folder).read() if record.data)
        assert joined(found) == joined(iter(expected))
        assert not Path(folder, rundir.STDOUT).exists()


MANY: list[Write] = [(n % 2, b"%02d ab\n" % n * 5, 1) for n in range(40)]
"""More output than any bound of the tests allows."""
DROPPED = re.compile(rb"\[launcher: (\d+) bytes of output were dropped here: log_max_mb\]\n")


@example(MANY, 300)
@given(WRITES, st.integers(300, 500))
def test_a_bounded_log_has_its_beginning_its_end_and_a_line_for_the_rest(writes, max_bytes):
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(logwriter, "time", clock)
        dropped = write(home, writes, clock, max_bytes=max_bytes)
        folder = os.path.join(home, "a")
        whole = b"".join(data for _, data, _ in writes)
        on_disk = sum(path.stat().st_size for path in Path(folder).iterdir())
        assert on_disk <= max_bytes
        head, *rest = DROPPED.split(text_of(folder, "combined"))
        assert bool(rest) == bool(dropped)
        if not rest:
            assert head == whole
        else:
            count, end = rest
            heads = [head, head.removesuffix(b"\n")]  # which the reader may have ended as a line
            assert (int(count), end) in [(len(whole) - len(each) - len(end), end) for each in heads]
            assert whole.startswith(tuple(heads))
            assert whole.endswith(end)
            assert end
        parts = [(record.stream, record.data) for record in RecordReader(folder).read() if record.data]
        printed = b"".join(data for stream, data in parts if stream in STREAMS)
        assert printed in [b"".join([each, *rest[1:]]) for each in (head, head.removesuffix(b"\n"))]
        assert [stream for stream, _ in parts if stream not in STREAMS] == ["dropped"] * bool(rest)
        for stream in STREAMS:
            texts = DROPPED.split(text_of(folder, stream))
            of_stream = b"".join(data for kind, data, _ in writes if STREAMS[kind] == stream)
            assert of_stream.startswith((texts[0], texts[0][:-1]))
            assert of_stream.endswith(texts[-1])


@example(MANY, [3, 30], 300, True)
@given(WRITES, st.lists(st.integers(0, 39), max_size=6), st.integers(300, 500), st.booleans())
def test_a_follower_of_a_bounded_log_sees_all_output_not_dropped_before_its_look(
    writes: list[Write], looks: list[int], max_bytes: int, keep_open: bool
) -> None:
    with tempfile.TemporaryDirectory() as home:
        writer = LogWriter(1, fail, max_bytes=max_bytes)
        log = ReplicaLog(home)
        reader = RecordReader(home, keep_open=keep_open)
        seen = b""
        for number, (kind, data, _) in enumerate(writes):
            writer.append(log, kind, data)
            if number in looks:
                seen += b"".join(record.data for record in reader.read())
        seen += b"".join(record.data for record in reader.read())
        reader.close()
        writer.close_all()
        whole = b"".join(data for _, data, _ in writes)
        place = 0
        for n, part in enumerate(re.split(rb"\[launcher: (\d+) bytes[^\]]*\]\n", seen)):
            if n % 2:
                place += int(part)
            else:
                assert whole[place : place + len(part)] == part
                place += len(part)
        assert place == len(whole)


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [0, 20_000])
def test_a_writer_that_is_killed_anywhere_leaves_a_log_that_can_be_read(tmp_path, max_bytes):
    """The lines count up: the log has the first numbers, and perhaps a gap and later numbers."""
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        child = os.fork()
        if not child:
            writer, log, n = LogWriter(1, fail, max_bytes=max_bytes), ReplicaLog(str(folder)), 0
            while True:
                writer.append(log, n // 3 % 2, b"%06d\n" % n)
                n += 1
        try:
            first = folder / rundir.COMBINED
            while (
                max(numbers(str(folder)), default=0) < number
                if max_bytes
                else not first.exists() or first.stat().st_size < 300 * number
            ):
                os.sched_yield()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        seen = text_of(str(folder), "combined")
        at = 0
        for line in seen.splitlines():
            gap = DROPPED.fullmatch(line + b"\n")
            if gap:
                at += int(gap[1]) // 7
            else:
                assert line == (b"%06d" % at)[: len(line)]
                at += 1
        by_stream = {stream: DROPPED.sub(b"", text_of(str(folder), stream)).split() for stream in STREAMS}
        assert all(int(word) // 3 % 2 == 0 for word in by_stream["stdout"] if len(word) == 6)
        assert all(int(word) // 3 % 2 == 1 for word in by_stream["stderr"] if len(word) == 6)
        if not DROPPED.search(seen):
            assert sum(map(len, by_stream["stdout"] + by_stream["stderr"])) == len(seen.replace(b"\n", b""))
