"""One grammar of durations and sizes: the amount that a refusal advises is accepted."""

import re

import pytest
from pydantic_core import PydanticCustomError

from launcher.cli.arguments import duration
from launcher.jobfile.model.types import MEMORY_PATTERN, memory_mib, seconds


def refusal(read, value) -> tuple[str, str]:
    with pytest.raises(PydanticCustomError) as caught:
        read(value)
    context = caught.value.context or {}
    return context["label"], context["hint"]


@pytest.mark.parametrize(("written", "advice"), [
    ("4G", ["4GiB", "4GB"]), ("512M", ["512MiB", "512MB"]), ("4096", ["4096MiB", "4096GiB"]),
    (4096, ["4096MiB", "4096GiB"]), (1.5, ["1.5MiB", "1.5GiB"]), ("4 gigs", ["4GiB"]),
    ("4mb", ["4MB", "4MiB"]), ("lots", ["4GiB"]), (True, ["4GiB", "512MiB"]),
])  # fmt: skip
def test_a_refused_amount_of_memory_gets_an_amount_that_is_accepted(written, advice):
    label, _ = refusal(memory_mib, written)
    assert re.findall(r'"([^"]+)"', label) == advice
    assert all(memory_mib(amount) > 0 for amount in advice)


@pytest.mark.parametrize(("written", "advice"), [
    ("90", ["90s", "90h"]), ("1.5", ["1.5m", "1.5h"]), (1.5, ["1.5m", "1.5h"]), ("1.5 hours", ["1.5h"]),
    ("02:00:00", ["2h"]), ("1:30:05", ["1h30m5s"]), ("22:30", ["22h30m", "22m30s"]), ("2H", ["2h"]),
    ("10x", ["10s", "1h30m"]), (True, ["2h", "90s"]),
])  # fmt: skip
def test_a_refused_duration_gets_a_duration_that_is_accepted(written, advice):
    label, _ = refusal(seconds, written)
    assert re.findall(r'"([^"]+)"', label) == advice
    assert all(seconds(amount) > 0 for amount in advice)


def test_a_bare_number_in_quotes_is_refused_with_what_a_bare_number_means():
    assert "a whole number without quotes is seconds" in refusal(seconds, "90")[1]
    assert "`memMB`" in refusal(memory_mib, 4096)[1]


def test_every_unit_that_the_hint_lists_is_accepted():
    _, hint = refusal(memory_mib, "4X")
    units = hint.partition("units: ")[2].partition(" as ")[0]
    listed = re.findall(r"\b(?:[KMGT]iB?|[kMGT]?B|[bkmgt])\b", units)
    assert len(listed) == 18
    for unit in listed:
        assert memory_mib(f"2{unit}") >= 1
        assert re.search(MEMORY_PATTERN, f"2{unit}")


@pytest.mark.parametrize("text", ["1.5h", "1h30m", "2000ms", "2w", "1d2h", "0.5m"])
def test_options_and_job_files_read_a_duration_alike(text):
    assert seconds(text) == duration(text)


def test_nan_and_infinity_are_no_part_of_advice():
    for value in (float("nan"), float("inf"), -1.5, "9" * 40):
        assert "inf" not in refusal(seconds, value)[0]
        assert "nan" not in refusal(memory_mib, value)[0]
