import re
import time
from datetime import datetime, timezone

import pytest

from launcher.cli.arguments import attempts, count, duration, key_value, moment, several_of


@pytest.mark.parametrize(("text", "seconds"), [
    ("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("10s", 10), ("2m", 120), ("1h30m", 5400), ("1d2h", 93600),
    ("0", 0),
])  # fmt: skip
def test_a_duration_is_read_in_each_of_its_forms(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "ranges"), [
    ("3", [(3, 3)]), ("1,3", [(1, 1), (3, 3)]), ("1..5", [(1, 5)]), ("1..2, 7", [(1, 2), (7, 7)]),
    ("3..", [(3, 10**9)]),
])  # fmt: skip
def test_numbers_of_attempts_are_read_as_ranges(text, ranges):
    assert attempts(text) == tuple(ranges)


NO_DURATIONS = ["", "x", "10x", "h", "1h30", "-5", "1..2s", "²", "10 s", "1e5", "30m1h"]


@pytest.mark.parametrize(("read", "text", "problem"), [
    *((duration, text, "expected a duration") for text in NO_DURATIONS),
    (duration, "2 hours", "did you mean `2h`"),
    *((moment, text, "expected a time") for text in ("yesterday", "25:00", "2025-13-01", "@x", "")),
    *((key_value, text, "KEY=VALUE") for text in ("a", "=b", "")),
    *((count, text, "whole number") for text in ("-1", "x", "1.5", "", "²")),
    (attempts, "", "expected numbers of attempts such as 3, 1,3, 1..5 or 3.., got ``"),
    *((attempts, text, f"got `{text}`") for text in ("x", "..3", "1...3", "²")),
    (attempts, "1" * 5000, "expected numbers"), (attempts, "0..2", "numbered from 1"),
    (attempts, "5..3", "did you mean `3..5`?"),
    (several_of("held", "orphan"), "hold", "did you mean `held`"),
])  # fmt: skip
def test_text_of_another_form_is_refused_with_the_right_form(read, text, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        read(text)


def test_a_duration_as_a_moment_counts_back_from_now():
    assert moment("10m") == pytest.approx(time.time() - 600, abs=5)


@pytest.mark.parametrize("text", ["9999w", "9" * 20 + "w", "@0", "@" + "9" * 20, "@" + "9" * 400])
def test_a_moment_that_no_calendar_has_becomes_the_nearest_valid_moment(text):
    assert datetime.fromtimestamp(moment(text), timezone.utc).year in (1970, 9999)


def test_moments_are_local_unless_they_say_otherwise():
    utc = datetime(2025, 3, 1, 10, 30, 5, tzinfo=timezone.utc).timestamp()
    assert moment("2025-03-01T12:30:05+02:00") == utc
    assert moment("2025-03-01T12:30:05Z") == datetime(2025, 3, 1, 12, 30, 5, tzinfo=timezone.utc).timestamp()
    assert moment("2025-03-01T14:30:05.500000+0200") == moment("2025-03-01T12:30:05Z") + 0.5
    assert moment("2025-03-01 12:30") == datetime(2025, 3, 1, 12, 30).timestamp()
    assert moment("2025-03-01") == datetime(2025, 3, 1).timestamp()
    assert moment("@1740832200") == 1740832200


def test_a_time_of_day_is_of_today():
    today = time.localtime()
    got = time.localtime(moment("12:30"))
    assert (got.tm_mday, got.tm_hour, got.tm_min) == (today.tm_mday, 12, 30)


def test_key_value_splits_at_the_first_equals_sign():
    assert key_value("a=b=c") == ("a", "b=c")
    assert key_value("a=") == ("a", "")


def test_a_count_of_any_length_is_one_that_databases_and_buffers_take():
    assert count("1000") == 1000
    assert count("9" * 20) < 2**31


def test_a_list_option_takes_each_known_word():
    assert several_of("held", "orphan")("orphan, held") == ("orphan", "held")
