"""A plan shows where two long texts differ."""

import pytest
from hypothesis import given, strategies as st

from launcher.plan.diff import MOST, differences
from tests.unit.plan.strategies import unhurried

COMMAND = "python train.py --epochs 3 --data s3://bucket/of/some/length --out s3://bucket/out --seed 7 --bf16"
SCRIPT = f"set -e\n{COMMAND}\necho done"


LONG = "x" * 90 + "{}" + "y" * 90
SHOWN = {
    "the differing lines of a script": ("a\nb\nc\n", "a\nB\nc\nd\n", 60, ["-b", "+B", "+d"]),
    "the differing words of a long line with some around them": (
        SCRIPT,
        SCRIPT.replace("epochs 3", "epochs 5"),
        40,
        ["-… train.py --epochs 3 --data …", "+… train.py --epochs 5 --data …"],
    ),
    "the differing place in a word longer than a line": (
        LONG.format(1),
        LONG.format(2),
        40,
        [f"{op}…{'x' * 12}{n}{'y' * 12}…" for op, n in ("-1", "+2")],
    ),
    "a blank at the end of a line": ("a\nb", "a\nb ", 60, ["-b", '+"b "']),
    "macros as in job files": ("a\n${app_id} 1", "a\n${app_id} 2", 60, ["-$<app_id> 1", "+$<app_id> 2"]),
}


@pytest.mark.parametrize("what", SHOWN)
def test_the_pieces_in_which_two_texts_differ_are_shown(what: str) -> None:
    old, new, width, pieces = SHOWN[what]
    assert [op + text for op, text in differences(old, new, width)] == pieces


def test_places_far_from_each_other_are_shown_apart() -> None:
    found = differences(COMMAND, COMMAND.replace("epochs 3", "epochs 5").replace("seed 7", "seed 8"), 40)
    assert [op for op, _ in found] == ["-", "+", "-", "+"]
    assert found[3][1].startswith("… ")
    assert found[3][1].endswith("--seed 8 --bf16")


def test_much_longer_text_in_front_of_a_difference_is_no_part_of_it() -> None:
    old = f"{'a b ' * 30}same words 1 end"
    found = differences(old, "same words 2 end", 40)
    assert found[-1] == ("+", "same words 2 end")


def test_a_text_with_nothing_in_common_is_not_shown_without_end() -> None:
    found = differences("\n".join("abc"), "\n".join(map(str, range(1000))), 60)
    assert len(found) == MOST + 1
    assert found[-1] == ("+", f"… and {1003 - MOST} more lines")


PIECES = st.sampled_from(["a", "bb", "--seed=7", "x" * 50, "\n", "\t", "\x1b[1m"])
words = st.lists(PIECES, max_size=30).map(" ".join)


@unhurried
@given(words, words)
def test_every_piece_is_one_printable_line_and_different_texts_have_at_least_one(old: str, new: str) -> None:
    found = differences(old, new, 40)
    assert all(text.isprintable() for _, text in found)
    assert bool(found) == (old != new)


@unhurried
@given(words, words)
def test_every_word_that_is_new_is_shown(old: str, new: str) -> None:
    """The approver of a plan sees all that it adds; only a very long addition is counted."""
    shown = "".join(text for op, text in differences(old, new, 40) if op == "+")
    missing = {word for word in new.replace("\n", " ").split() if word not in old and word.isprintable()}
    assert [word for word in missing if word not in shown and len(word) < 40] == []
