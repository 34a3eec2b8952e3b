"""Functions on chunks of bytes give the same result as functions on lines."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from launcher.errors import UsageError
from launcher.schedulers import Stream, logs
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


@given(cut(), st.integers(0, 5))
def test_tail_gives_the_last_lines(chunks: list[bytes], count: int) -> None:
    lines = lines_of(chunks)
    assert list(logs.tail(chunks, count)) == lines[max(0, len(lines) - count) :]


@given(cut())
def test_text_lines_are_whole_lines_of_text(chunks: list[bytes]) -> None:
    assert list(logs.text_lines(chunks)) == [line.decode("utf-8", "replace") for line in lines_of(chunks)]


PLAIN = [
    "", "b", "^b", "b$", "a|b", "(ab)+c", ".*b", "a.c", "[bc]a", r"a\.b", "^$", "a*", "b.?", "(a|b)$",
    "^a.*c$",
]  # fmt: skip
WITH_CARE = [
    "(?i)B", r"\s", "[^a]", "é", "é?", r"b\Z", r"\Ab", "a{2}", "a(?=b)", "b(?!c)", r"\bb", r"\x00", "a++",
]  # fmt: skip


@pytest.mark.parametrize("regex", sampled(PLAIN + WITH_CARE, PLAIN[0], *WITH_CARE[::4]))
@given(chunks=cut())
def test_grep_gives_the_lines_that_searching_each_would(regex: str, chunks: list[bytes]) -> None:
    try:
        search = re.compile(regex).search
    except re.error:
        pytest.skip("this Python does not know the pattern")
    wanted = [line for line in lines_of(chunks) if search(line.decode().removesuffix("\n"))]
    assert b"".join(logs.grep(chunks, regex)) == b"".join(wanted)
    spans = logs.LineSearch(regex).spans(whole := b"".join(chunks))
    assert [whole[start:end] for start, end in spans] == wanted


def test_letters_match_in_either_case_where_asked() -> None:
    search = logs.LineSearch("loss", ignore_case=True)
    assert search.found(b"Loss\nlo\n\xc3\xa9 LOSS\n") == b"Loss\n\xc3\xa9 LOSS\n"


def test_a_block_holds_the_time_of_each_byte() -> None:
    records = [logs.LogRecord(n, ("stdout", "stderr")[n % 2], b"x" * n) for n in range(1, 40)]
    [block] = logs.in_blocks([*records, logs.LogRecord(99, "restart", b"")])
    whole = b"".join(record.data for record in records)
    assert block.data == whole
    at = 0
    for record in records:
        until = at + len(record.data)
        known = (record.time_ns, record.stream, until)
        assert block.written(at) == block.written(until - 1) == known
        at = until


@pytest.mark.parametrize("regex", ["(", "a{99999999999999999999}"])
def test_a_broken_regex_is_refused(regex: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        list(logs.grep([b"x"], regex))


def test_a_line_longer_than_many_chunks_is_joined_once() -> None:
    chunks = [b"x" * 65536] * 512 + [b"\n"]
    assert [len(line) for line in logs.whole_lines(chunks)] == [65536 * 512 + 1]


def test_a_stream_is_found_by_its_name() -> None:
    assert logs.stream_of("stderr") is Stream.STDERR
    with pytest.raises(UsageError) as error:
        logs.stream_of("stder")
    assert "`stderr`" in str(error.value.hint)
