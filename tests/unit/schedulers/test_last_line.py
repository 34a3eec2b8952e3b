"""The last line of stderr: which line is taken, and what must not be in it."""

import random

import pytest

from launcher.schedulers.ended_process import last_line

SECRET = "hunter2-0123456789"


@pytest.mark.parametrize(("tail", "line"), [
    (b"", ""), (b"\n \n", ""), (b"one\ntwo\n\n", "two"), (b"without an end", "without an end"),
    (b" 10%\r 20%\r 30%", "30%"), (b"\x1b[1;31mError: no\x1b[0m\n", "Error: no"),
    (b"a\x1b]0;title\x07b\x1b[2J\n", r"a\x1b]0;title\x07b\x1b[2J"), (b"a\tb\n", "a   b"),
    (b"\xff\n", r"\udcff"), ("größe\n".encode(), "größe"),
])  # fmt: skip
def test_the_last_line_is_one_whole_line_that_cannot_drive_a_terminal(tail: bytes, line: str) -> None:
    assert last_line(tail) == line
    assert last_line(b"cut\nwhole\n", whole=False) == "whole"
    assert last_line(b"rest of a secret", whole=False) == ""


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    assert last_line(b"x" * 1000) == "x" * 60 + " … " + "x" * 97
    path = b"/a/long/path" * 20
    found = last_line(b"python3: can't open file '%s': [Errno 2] No such file or directory" % path)
    assert found.startswith("python3: can't open file '/a/long/path")
    assert found.endswith("path': [Errno 2] No such file or directory")
    assert len(found) == 160


KEY = "-----BEGIN-----\nabcdef\nghijkl\n-----END-----\n"


@pytest.mark.parametrize(("tail", "secret", "line"), [
    (f"bad token {SECRET}!\n".encode(), SECRET, "bad token ***!"),
    (b"bad token hunter2-\x1b[1m0123456789", SECRET, "bad token ***"),  # coloured
    (b"cannot read:\nabcdef\nghijkl\n", KEY, "***"),
    (f"cannot read {KEY!r}".encode(), KEY, "cannot read '***'"),
])  # fmt: skip
def test_a_secret_is_masked_also_in_colours_in_lines_and_across_the_place_of_the_cut(tail, secret, line):
    assert last_line(tail, (secret,)) == line
    for before in range(140, 170):
        assert "hunter2" not in last_line(b"x" * before + SECRET.encode(), (SECRET,))


def test_no_bytes_make_more_than_one_short_printable_line() -> None:
    rng = random.Random(7)
    for _ in range(2000):
        pool = rng.choice([b"\r\n\t \x1b[0m;", bytes(range(256)), SECRET.encode() + b"\n"])
        tail = bytes(rng.choices(pool, k=rng.randrange(400)))
        line = last_line(tail, (SECRET,), whole=rng.random() < 0.5)
        assert len(line) <= 160
        assert line.isprintable()
