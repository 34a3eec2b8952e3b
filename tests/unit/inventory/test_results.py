"""The numbers that jobs leave in their output folders, read as they are and compared."""

import json
import math

import pytest

from launcher.inventory.outputs import ResultRow, compare, numbers_in, shown


def test_numbers_of_a_flat_mapping_are_read_and_all_else_is_left_out():
    data = {"loss": 0.5, "steps": 100, "name": "x", "ok": True, "nested": {"a": 1}, "none": None, "list": [1]}
    assert numbers_in(json.dumps(data).encode()) == {"loss": 0.5, "steps": 100.0}


@pytest.mark.parametrize(
    "text", ["", "3", "[1]", "{", "null", '"x"', "\xff", "[" * 100_000, f'{{"a": {"9" * 9999}}}']
)
def test_text_that_is_no_mapping_has_no_results(text):
    assert numbers_in(text.encode("latin-1")) is None


def test_results_that_are_nan_or_infinite_are_kept():
    found = numbers_in(b'{"loss": NaN, "max": Infinity}')
    assert math.isnan(found["loss"])
    assert [shown(value) for value in found.values()] == ["nan", "inf"]
    assert ResultRow("loss", 0.5, found["loss"]).change == ResultRow("max", 0.5, found["max"]).change == ""


def test_the_json_of_a_result_is_read_by_strict_parsers():
    row = ResultRow("loss", math.inf, math.nan).to_json()
    assert json.loads(json.dumps(row, allow_nan=False)) == {"name": "loss", "old": "inf", "new": "nan"}
    assert ResultRow("loss", None, 0.5).to_json() == {"name": "loss", "old": None, "new": 0.5}


def test_a_result_larger_than_any_float_is_left_out():
    assert numbers_in(f'{{"a": 1{"0" * 400}, "b": 1}}'.encode()) == {"b": 1.0}


def test_names_of_results_are_short_and_printable_and_their_number_is_bounded():
    assert [*numbers_in(json.dumps({"a\x1b[31m\n\u202e": 1}).encode())] == ["a\\x1b[31m\\n\\u202e"]
    found = numbers_in(json.dumps({f"{number}{'x' * 200}": number for number in range(2000)}).encode())
    assert len(found) == 1000
    assert max(map(len, found)) == 80


def test_names_of_the_new_results_come_first_and_lost_names_last():
    rows = compare({"gone": 1, "loss": 2}, {"loss": 1, "acc": 0.5})
    assert rows == [ResultRow("loss", 2, 1), ResultRow("acc", None, 0.5), ResultRow("gone", 1, None)]
    assert compare(None, {"a": 1}) == [ResultRow("a", None, 1)]
    assert compare({}, None) == []


@pytest.mark.parametrize(("old", "new", "change"), [
    (0.5, 0.25, "-0.25 (-50 %)"), (-2, -1, "+1 (+50 %)"), (0, 3, "+3"), (3, 3, "0"), (None, 3, ""),
    (1e-320, 1e300, "+1e+300"), (0.912, 0.9342, "+0.0222 (+2.43 %)"),
])  # fmt: skip
def test_a_change_is_a_difference_and_a_share(old, new, change):
    assert ResultRow("x", old, new).change == change
