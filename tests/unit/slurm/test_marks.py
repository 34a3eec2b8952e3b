"""The output of a program on a login node: the bytes between two marks, however they arrive."""

from collections.abc import Iterator

import pytest

from launcher.schedulers.slurm.ssh import _between

MARK = b"abcabd"


def taken(pieces: list[bytes]) -> tuple[bytes, bool]:
    found: list[bytes] = []

    def run() -> Iterator[bool]:
        yield (yield from _between(MARK, pieces))

    for each in run():
        if isinstance(each, bool):
            return b"".join(found), each
        found.append(each)
    raise AssertionError("it returned nothing")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 100])
@pytest.mark.parametrize("inside", [b"", b"x", b"abcab", b"abcabcab", b"a tar archive\0" * 20])
def test_the_bytes_between_two_marks_arrive_whole(inside: bytes, size: int) -> None:
    text = b"welcome" + MARK + inside + MARK + b"\ngood bye"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert taken(pieces) == (inside, True)


def test_an_output_that_was_cut_off_is_not_whole() -> None:
    assert taken([b"welcome" + MARK + b"half of"])[1] is False
    assert taken([b"welcome"]) == (b"", False)
