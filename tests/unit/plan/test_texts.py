"""A plan shows where two long texts differ."""

from hypothesis import given, strategies as st

from launcher.plan.diff import MOST, differences
from tests.unit.plan.strategies import unhurried

COMMAND = "python train.py --epochs 3 --data s3://bucket/of/some/length --out s3://bucket/out --seed 7 --bf16"
SCRIPT = f"set -e\n{COMMAND}\necho done"


def test_only_the_differing_lines_of_a_script_are_shown() -> None:
    assert differences("a\nb\nc\n", "a\nB\nc\nd\n", 60) == [("-", "b"), ("+", "B"), ("+", "d")]


def test_the_differing_words_of_a_long_line_are_shown_with_some_around_them() -> None:
    found = differences(SCRIPT, SCRIPT.replace("epochs 3", "epochs 5"), 40)
    assert found == [("-", "… train.py --epochs 3 --data …"), ("+", "… train.py --epochs 5 --data …")]


def test_places_far_from_each_other_are_shown_apart() -> None:
    found = differences(COMMAND, COMMAND.replace("epochs 3", "epochs 5").replace("seed 7", "seed 8"), 40)
    assert [op for op, _ in found] == ["-", "+", "-", "+"]
    assert found[3][1].startswith("… ")
    assert found[3][1].endswith("--seed 8 --bf16")


def test_much_longer_text_in_front_of_a_difference_is_no_part_of_it() -> None:
    old = f"{'a b ' * 30}same words 1 end"
    found = differences(old, "same words 2 end", 40)
    assert found[-1] == ("+", "same words 2 end")


def test_the_differing_place_in_a_word_longer_than_a_line_is_shown() -> None:
    assert differences("x" * 90 + "1" + "y" * 90, "x" * 90 + "2" + "y" * 90, 40) == [
        ("-", "…" + "x" * 12 + "1" + "y" * 12 + "…"),
        ("+", "…" + "x" * 12 + "2" + "y" * 12 + "…"),
    ]


def test_a_blank_at_the_end_of_a_line_can_be_seen() -> None:
    assert differences("a\nb", "a\nb ", 60) == [("-", "b"), ("+", '"b "')]


def test_macros_are_spelled_as_in_job_files() -> None:
    assert differences("a\n${app_id} 1", "a\n${app_id} 2", 60) == [("-", "$<app_id> 1"), ("+", "$<app_id> 2")]


def test_a_text_with_nothing_in_common_is_not_shown_without_end() -> None:
    found = differences("\n".join("abc"), "\n".join(map(str, range(1000))), 60)
    assert len(found) == MOST + 1
    assert found[-1] == ("+", f"… and {1003 - MOST} more lines")


words = st.lists(st.sampled_from(["a", "bb", "--seed=7", "x" * 50, "\n", "\t", "\x1b[1m"]), max_size=30).map(
    " ".join
)


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
