"""Working on chunks of bytes gives what working on lines would."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import UsageError
from launcher.schedulers import Stream, logs
from launcher.schedulers.logs import LogRecord
from tests.lanes import sampled

TEXT = st.text(alphabet="abc .\r\n\n\né\x00", max_size=40)


@st.composite
def cut(draw: st.DrawFn) -> list[bytes]:
    """Some text, cut into chunks anywhere, in the middle of a character too."""
    data = draw(TEXT).encode()
    places = sorted(draw(st.sets(st.integers(0, len(data)), max_size=6)) | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def lines_of(chunks: list[bytes]) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", b"".join(chunks))


@given(cut())
def test_whole_lines_changes_no_byte_and_cuts_no_line(chunks: list[bytes]) -> None:
    found = list(logs.whole_lines(chunks))
    assert b"".join(found) == b"".join(chunks)
    assert all(chunk.endswith(b"\n") for chunk in found[:-1])


@given(cut())
def test_prefix_stands_before_every_line(chunks: list[bytes]) -> None:
    assert b"".join(logs.prefix(chunks, b"r/0 ")) == b"".join(b"r/0 " + line for line in lines_of(chunks))


@given(cut(), st.integers(0, 5))
def test_tail_gives_the_last_lines(chunks: list[bytes], count: int) -> None:
    lines = lines_of(chunks)
    assert list(logs.tail(chunks, count)) == lines[max(0, len(lines) - count) :]


@given(cut())
def test_text_lines_are_whole_lines_of_text(chunks: list[bytes]) -> None:
    assert list(logs.text_lines(chunks)) == [line.decode("utf-8", "replace") for line in lines_of(chunks)]


PLAIN = [
    "",
    "b",
    "^b",
    "b$",
    "a|b",
    "(ab)+c",
    ".*b",
    "a.c",
    "[bc]a",
    r"a\.b",
    "^$",
    "a*",
    "b.?",
    "(a|b)$",
    "^a.*c$",
]
WITH_CARE = [
    "(?i)B",
    r"\s",
    "[^a]",
    "é",
    "é?",
    r"b\Z",
    r"\Ab",
    "a{2}",
    "a(?=b)",
    "b(?!c)",
    r"\bb",
    r"\x00",
    "a++",
]


@pytest.mark.parametrize("regex", sampled(PLAIN + WITH_CARE, PLAIN[0], *WITH_CARE[::4]))
@given(chunks=cut())
def test_grep_gives_the_lines_that_searching_each_would(regex: str, chunks: list[bytes]) -> None:
    try:
        search = re.compile(regex).search
    except re.error:
        pytest.skip("this Python does not know the pattern")
    wanted = [line for line in lines_of(chunks) if search(line.decode().removesuffix("\n"))]
    assert b"".join(logs.grep(chunks, regex)) == b"".join(wanted)


def test_a_broken_regex_is_refused() -> None:
    with pytest.raises(UsageError, match="regular expression"):
        list(logs.grep([b"x"], "("))


def test_a_line_longer_than_many_chunks_is_joined_once() -> None:
    chunks = [b"x" * 65536] * 512 + [b"\n"]
    assert [len(line) for line in logs.whole_lines(chunks)] == [65536 * 512 + 1]


def test_lines_are_put_together_per_stream_with_the_time_of_their_first_byte() -> None:
    records = [
        LogRecord(1, "stdout", b"a"),
        LogRecord(2, "stderr", b"x\ny"),
        LogRecord(3, "stdout", b"b\nc\nd"),
        LogRecord(4, "restart", b""),
        LogRecord(5, "stderr", b"z"),
    ]
    assert list(logs.lines(records)) == [(2, b"x\n"), (1, b"ab\n"), (3, b"c\n"), (2, b"yz"), (3, b"d")]


def test_merge_puts_replicas_in_order_of_time() -> None:
    first = [LogRecord(1, "stdout", b"a\n"), LogRecord(5, "stdout", b"b\n")]
    second = [LogRecord(2, "stdout", b"x\n"), LogRecord(9, "stdout", b"y\n")]
    assert list(logs.merge([first, second])) == [
        (0, 1, b"a\n"),
        (1, 2, b"x\n"),
        (0, 5, b"b\n"),
        (1, 9, b"y\n"),
    ]


def test_streams_have_names() -> None:
    assert logs.stream_of("stderr") is Stream.STDERR
    with pytest.raises(UsageError) as error:
        logs.stream_of("stder")
    assert "`stderr`" in str(error.value.hint)
