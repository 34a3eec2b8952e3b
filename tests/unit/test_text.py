"""Near names, hints, colours, escapes and plural forms."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from launcher.jobfile.compile.matrix import job_name
from launcher.text import (
    DURATION_PATTERN,
    cores,
    distance,
    name_hint,
    natural,
    nearest,
    paint,
    path_name,
    path_names,
    plural,
    printable,
    seconds_in,
    unusable_in,
    with_cause,
)

NAMES = ["msg", "image", "num_replicas", "utils.echo", "utils.sh", "scheduler", "max_retries"]


@pytest.mark.parametrize(("typed", "meant"), [
    ("mag", "msg"),  # `image` holds all three letters and is another word
    ("imgae", "image"), ("num-replica", "num_replicas"), ("Scheduler", "scheduler"), ("sched", "scheduler"),
    ("echo", "utils.echo"), ("utils.ecko", "utils.echo"), ("max_retrys", "max_retries"), ("ms", "msg"),
    ("command", None), ("x", None), ("", None),
])  # fmt: skip
def test_the_nearest_name_is_the_one_that_was_meant(typed, meant):
    assert nearest(typed, NAMES) == meant


def test_the_first_of_two_equally_near_names_is_taken():
    assert nearest("cat", ["bat", "car"]) == "bat"


@pytest.mark.parametrize(
    ("one", "other", "slips"),
    [("", "", 0), ("abc", "abc", 0), ("", "abc", 3), ("ab", "ba", 1), ("mag", "msg", 1), ("abcd", "acbe", 2)],
)
def test_two_swapped_letters_count_as_one_slip(one, other, slips):
    assert distance(one, other) == distance(other, one) == slips


def test_a_hint_is_the_nearest_name_or_all_of_them():
    assert name_hint("log_dri", ["log_dir", "cwd"]) == "did you mean `log_dir`?"
    assert name_hint("zzz", ["b", "a"]) == "there are: a, b"
    assert name_hint("zzz", []) is None


def test_paint_leaves_text_alone_without_colours():
    assert paint("x", "bold red", color=False) == "x"
    assert paint("x", "bold red") == "\x1b[1;31mx\x1b[0m"


@pytest.mark.parametrize(("text", "shown"), [
    ("plain ü 漢", "plain ü 漢"), ("a\x1b[2Jb", "a\\x1b[2Jb"), ("a\tb\r\n", "a\\tb\\r\\n"),
    ("\x9b\u202e\ud800", "\\x9b\\u202e\\ud800"),
])  # fmt: skip
def test_printable_escapes_characters_that_could_drive_a_terminal(text, shown):
    assert printable(text) == shown
    assert printable(text).isprintable()


def test_plural_uses_the_form_for_the_number():
    assert plural(1, "file") == "1 file"
    assert plural(2, "entry", "entries") == "2 entries"


@given(st.text("0123456789.smhdwx ", max_size=12))
def test_the_pattern_of_durations_matches_what_is_read(text):
    assert bool(re.fullmatch(DURATION_PATTERN, text)) == (seconds_in(text) is not None)


def test_seconds_of_a_duration_have_no_rounding_error():
    assert seconds_in("1.1h") == 3960
    assert seconds_in("1h30m") == 5400


def test_names_of_a_matrix_are_sorted_by_the_values_in_them():
    values = [-20, -3, -0.5, 0, 1e-05, 0.01, 0.1, 1, 2.5, 10, 1e20]
    names = [job_name("lr", [value]) for value in values]
    assert sorted(set(names), key=natural) == names


@pytest.mark.parametrize(
    "names",
    [["a", "a-1", "a-1-b", "a-2", "a-10", "a-b", "b"], ["layer2", "layer10"], ["m", "m-m1", "m-1p5", "m-mx"]],
)
def test_names_are_sorted_with_numbers_before_words(names):
    assert sorted(set(names), key=natural) == names


@given(st.lists(st.text("amp0123e-.²x", max_size=12)))
def test_names_of_any_characters_have_one_order(names):
    first, second = (sorted(each, key=natural) for each in (names, names[::-1]))
    assert list(map(natural, first)) == list(map(natural, second))


@pytest.mark.parametrize(("message", "cause", "text"), [
    ("main/0 exited with 1", "", "main/0 exited with 1"),
    ("main/0 exited with 1", "main/1: boom", "main/0 exited with 1; main/1: boom"),
    ("main/0: exited: KeyError: 'x'", "main/0: KeyError: 'x'", "main/0: exited: KeyError: 'x'"),
    ("", "main/0: boom", "main/0: boom"),
])  # fmt: skip
def test_an_error_that_the_message_has_already_is_not_repeated(message: str, cause: str, text: str) -> None:
    assert with_cause(message, cause) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "under 0.01 cores"), (0.02, "0.02 cores"), (1, "1 core"), (1.04, "1 core"), (1.84, "1.8 cores")],
)
def test_cores_have_few_digits(number: float, text: str) -> None:
    assert cores(number) == text


@pytest.mark.parametrize(
    ("name", "kept"), [("Trainer_1.x", "Trainer_1.x"), ("../a b", "a-b"), (".hidden", "hidden"), ("漢", "x")]
)
def test_path_names_stay_in_their_folder(name: str, kept: str) -> None:
    assert path_name(name) == kept


def test_different_names_get_different_path_names() -> None:
    assert path_names(["a b", "a-b", "A-B", "c"]) == ["a-b", "a-b-2", "A-B-3", "c"]


def test_the_longest_argument_that_is_allowed_is_the_longest_that_a_program_gets():
    longest = "x" * 131_071
    assert unusable_in(longest) == ""
    printed = subprocess.run(["sh", "-c", 'printf %s "$1"', "sh", longest], capture_output=True, check=True)
    assert printed.stdout == longest.encode()
    assert unusable_in(f"{longest}x").startswith("more than 131,071 bytes")
    if sys.platform == "linux":
        with pytest.raises(OSError, match="Argument list too long"):
            subprocess.run(["true", f"{longest}x"], check=True)
