"""Chunks in, lines out: nothing is lost, cut or mixed, whatever the borders of the chunks."""

import re

from hypothesis import given, strategies as st

from launcher.cli.render.log_lines import Shaper, last_lines, prefixes, shaped, stamp
from launcher.schedulers.logs import LogRecord

CHUNKS = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab\n\r", max_size=6).map(str.encode))
)


def shown(shaper, chunks):
    return b"".join([*(shaper.feed(0, stream, data) for stream, data in chunks), shaper.finish(0)])


STAMP = len(stamp(0))


def lines_of(chunks, stream):
    return b"".join(data for name, data in chunks if name == stream).split(b"\n")


@given(CHUNKS)
def test_every_line_of_a_stream_comes_out_whole_and_in_order(chunks):
    out = shown(Shaper(b"> "), chunks)
    for stream in ("stdout", "stderr"):
        expected = lines_of(chunks, stream)
        if not expected[-1]:
            expected.pop()
        only = [part for part in chunks if part[0] == stream]
        assert shown(Shaper(timestamps=True), only).count(b"\n") == len(expected)
        assert [line[STAMP:] for line in shown(Shaper(timestamps=True), only).split(b"\n")[:-1]] == expected
    assert out.count(b"\n") >= sum(len(lines_of(chunks, s)[:-1]) for s in ("stdout", "stderr"))


@given(CHUNKS)
def test_a_prefixed_line_shows_only_its_last_frame(chunks):
    r"""The line is the text that a wide terminal would show, whatever the borders of the chunks."""
    shaper, text = Shaper(b"> "), b"".join(data for _, data in chunks)
    out = shown(shaper, [("", data) for _, data in chunks])
    *whole, rest = text.split(b"\n")
    expected = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole]
    if rest.strip() or (rest and b"\r" not in rest):
        expected.append(rest.rstrip(b"\r").rpartition(b"\r")[2])
    assert [line.rstrip(b"\r") for line in out.split(b"\n")[:-1]] == [b"> " + line for line in expected]


@given(CHUNKS)
def test_the_current_frame_is_the_text_of_the_line_if_it_ended_now(chunks):
    shaper = Shaper(b"> ")
    for _, data in chunks:
        shaper.feed(0, "", data)
        frame = shaper.frame()
    if chunks and frame:
        assert frame == shaper.finish().rstrip(b"\r\n")


def test_a_progress_bar_without_end_takes_no_memory():
    shaper = Shaper(b"> ")
    for n in range(10_000):
        shaper.feed(0, "", b"\r%5d of many" % n)
    assert sum(len(part) for parts in shaper._partial.values() for part in parts) < 100
    assert shaper.frame() == b">  9999 of many"
    assert shaper.feed(0, "", b"\rdone\n") == b"> done\n"
    assert shaper.frame() == b""


def test_windows_line_ends_and_unprefixed_lines_stay_as_they_are():
    assert Shaper(b"> ").feed(0, "", b"a\r\nb\r\n") == b"> a\r\n> b\r\n"
    assert Shaper().feed(0, "", b"1%\r2%\r\nb\n") == b"1%\r2%\r\nb\n"


def test_lines_of_two_streams_are_never_mixed():
    shaper = Shaper()
    assert shaper.feed(0, "stdout", b"half ") == b""
    assert shaper.feed(0, "stderr", b"whole\n") == b"whole\n"
    assert shaper.feed(0, "stdout", b"line\n") == b"half line\n"


def test_a_last_line_without_newline_is_shown_and_gets_one():
    shaper = Shaper(b"a/0 | ")
    assert shaper.feed(0, "stdout", b"x\ny") == b"a/0 | x\n"
    assert shaper.finish(0) == b"a/0 | y\n"
    assert shaper.finish(0) == b""


def test_only_matching_lines_are_kept():
    shaper = Shaper(b"> ", regex="^b")
    assert shaper.feed(0, "stdout", b"ab\nba\nbb\n") == b"> ba\n> bb\n"
    assert shaper.feed(0, "stdout", b"none\nat") == b""
    assert shaper.finish() == b""


def test_a_line_that_is_no_utf8_is_searched_all_the_same():
    assert Shaper(regex="ok").feed(0, "stdout", b"\xff ok\nno\n") == b"\xff ok\n"


def test_timestamps_are_printed_before_each_line():
    out = Shaper(b"", timestamps=True).feed(1_740_832_200_123_456_789, "stdout", b"a\nb\n")
    assert re.fullmatch(rb"(2025-03-01T\d\d:\d\d:00\.123456[+-]\d{4} [ab]\n){2}", out)
    assert stamp(0).startswith((b"1970", b"1969"))


PIECES = st.lists(st.text("ab\n", min_size=1).map(lambda text: text.encode() + b"\n"))


@given(PIECES, st.integers(0, 5))
def test_last_lines_returns_the_last_lines_however_the_output_is_cut(pieces, count):
    everything = b"".join(pieces).split(b"\n")[:-1]
    last = everything[-count:] if count else []
    assert [line for _, line in last_lines(enumerate(pieces), count)] == [line + b"\n" for line in last]


def test_each_line_has_the_time_of_the_record_that_completed_it():
    records = [LogRecord(1, "stdout", b"a\nb"), LogRecord(2, "restart", b""), LogRecord(3, "stdout", b"c\nd")]
    assert list(shaped(records, Shaper())) == [(1, b"a\n"), (3, b"bc\n"), (3, b"d\n")]


def test_prefixes_are_equally_wide_and_coloured_only_for_a_terminal():
    assert list(prefixes([("main", 0), ("main", 10)], color=False)) == [b"main/0  | ", b"main/10 | "]
    assert all(text.startswith(b"\x1b[") for text in prefixes([("main", 0)], color=True))


def test_a_prefix_carries_no_control_characters_of_a_role():
    assert list(prefixes([("a\x1b[2J\n", 0)], color=False)) == [b"a\\x1b[2J\\x0a/0 | "]
