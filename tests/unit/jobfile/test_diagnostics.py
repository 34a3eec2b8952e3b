"""How a diagnostic reads, on a terminal and as JSON."""

from pathlib import Path

import pytest

from launcher.errors import JobFileError
from launcher.jobfile import Diagnostic, Span, job_file_error, render
from launcher.jobfile.diagnostic import in_order, without_secrets
from launcher.jobfile.model.role import RoleSpec
from launcher.jobfile.text.document import Source
from tests.lanes import sampled
from tests.unit.jobfile.words import HEAD, compile_text


def span(line: int, column: int, end_line: int, end_column: int) -> Span:
    return Span(line=line, column=column, end_line=end_line, end_column=end_column)


def at(text: str, part: str, label: str = "", hint: str = "") -> Diagnostic:
    start = text.index(part)
    return Source("f.yaml", "yaml", text).diagnostic(
        start, start + len(part), "wrong-type", "no", label=label, hint=hint
    )


def test_a_diagnostic_as_text_shows_place_excerpt_and_help(tmp_path: Path) -> None:
    text = HEAD + "roles:\n  trainer:\n    entrypoint: python\n    num_replica: 2\n"
    assert render(compile_text(tmp_path, text).diagnostics) == (
        "error[unknown-field]: `num_replica` is not a field of role `trainer`\n"
        " --> job.launcher.yaml:6:5\n"
        "  |\n"
        "6 |     num_replica: 2\n"
        "  |     ^^^^^^^^^^^ did you mean `num_replicas`?\n"
        f"  = help: fields here: {', '.join(sorted(RoleSpec.model_fields))}"
    )


def test_a_value_from_a_variable_points_at_use_and_definition(tmp_path: Path) -> None:
    text = HEAD + (
        "vars: {n: {type: int, default: 0}}\n"
        "roles:\n  main:\n    entrypoint: env\n    num_replicas: $<var.n>\n"
    )
    assert render(compile_text(tmp_path, text).diagnostics) == (
        "error[out-of-range]: `num_replicas` of role `main` is 0\n"
        " --> job.launcher.yaml:7:19\n"
        "  |\n"
        "7 |     num_replicas: $<var.n>\n"
        "  |                   ^^^^^^^^ want at least 1\n"
        "  = note: `$<var.n>` is 0, from its default\n"
        " --> job.launcher.yaml:3:32\n"
        "  |\n"
        "3 | vars: {n: {type: int, default: 0}}\n"
        "  |                                ^"
    )


def test_colours_appear_only_where_they_are_asked_for() -> None:
    found = at("a: b\n", "b", label="c", hint="d")
    assert "\x1b" not in found.render()
    assert "\x1b[1;31m" in found.render(color=True)


def test_carets_stand_under_wide_characters_and_tabs() -> None:
    wide = at("名前: x\n", "x").render().splitlines()
    assert wide[-1].index("^") - wide[-2].index("x") == 2  # two characters take four columns
    tab = at("a =\tx\n", "x").render().splitlines()
    assert tab[-1].index("^") == tab[-2].index("x")


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    shown = at("a: \x1b[2Jx\n", "x").render()
    assert "\x1b" not in shown
    assert "\\x1b[2Jx" in shown


def test_a_long_line_is_cut_around_the_range() -> None:
    shown = at("a: " + "x" * 500 + "HERE" + "y" * 500 + "\n", "HERE").render().splitlines()
    assert all(len(line) < 130 for line in shown)
    assert shown[-1].index("^") == shown[-2].index("HERE")


def test_help_and_source_fit_a_narrow_terminal_and_text_to_copy_stays_whole() -> None:
    text = "a: " + "x" * 40 + "HERE" + "y" * 40 + "\n"
    hint = "write `a: [one, two, three]` in its place, or none"
    found = at(text, "HERE", label="did you mean `there`?", hint=hint)
    assert found.render(columns=50) == (
        "error[wrong-type]: no\n"
        " --> f.yaml:1:44\n"
        "  |\n"
        "1 | …xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxHEREyyyyyyyyyy…\n"
        "  |                                ^^^^\n"
        "  = help: did you mean `there`?\n"
        "  = help: write `a: [one, two, three]` in its\n"
        "          place, or none"
    )


def test_help_is_said_once_beside_labels() -> None:
    one, other = (
        at("a: b\nc: d\n", "b", label="x", hint="units: s"),
        at("a: b\nc: d\n", "d", label="y", hint="units: s"),
    )
    assert render([one, other]).count("units: s") == 1
    assert render([one, at("a: b\nc: d\n", "d", hint="units: s")]).count("units: s") == 2


def test_a_range_over_lines_is_marked_to_the_end_of_the_first() -> None:
    shown = at("a: [1,\n  2]\n", "[1,\n  2]").render().splitlines()
    assert shown[-1].count("^") == 3


def test_a_diagnostic_as_json_has_its_span_code_and_message() -> None:
    assert at("a: b\n", "b", label="c").to_json() == {
        "file": "f.yaml",
        "span": {"line": 1, "column": 4, "end_line": 1, "end_column": 5},
        "code": "wrong-type",
        "severity": "error",
        "message": "no",
        "label": "c",
    }
    assert Diagnostic(file="x", span=None, code="no-such-file", message="m").to_json()["span"] is None


def test_in_order_sorts_by_place_and_drops_repetitions() -> None:
    first, second = at("a: b\nc: d\n", "a"), at("a: b\nc: d\n", "d")
    assert in_order([second, first, second]) == [first, second]


def test_the_exception_names_the_first_error_and_counts_the_rest() -> None:
    first, second = at("a: b\nc: d\n", "a", hint="h"), at("a: b\nc: d\n", "d")
    error = job_file_error([first, second])
    assert str(error) == "f.yaml:1:1: no (and 1 more)"
    assert error.hint == "h"
    assert error.diagnostics == (first, second)
    assert error.exit_code == 6
    with pytest.raises(JobFileError):
        raise error


def test_positions_count_characters_whatever_the_line_end() -> None:
    source = Source("f", "yaml", "é😀a\r\nb\rc\nd")
    assert [source.position(source.text.index(char)) for char in "abcd"] == [(1, 3), (2, 1), (3, 1), (4, 1)]
    assert [source.line(number) for number in (1, 2, 3, 4, 5)] == ["é😀a", "b", "c", "d", ""]
    assert source.span(0, 5) == span(1, 1, 1, 4)  # the line end is no part of it


@pytest.mark.parametrize(("line", "shown"), [
    ("  HF_TOKEN: abc  # mine", "  HF_TOKEN: ***  # mine"),
    ("env: {API_KEY: abc, MAX_TOKENS: 3}", "env: {API_KEY: ***, MAX_TOKENS: 3}"),
    ("'db-password': 'a b'", "'db-password': *****"),
    ('apiKey = "a\\"b"', "apiKey = ******"),
    ("args: [--token=abc, --lr=1]", "args: [--token=***, --lr=1]"),
    ('K: {secret: "env:HF_TOKEN"}', 'K: {secret: "env:HF_TOKEN"}'),
    ("HF_TOKEN: $<var.token>", "HF_TOKEN: $<var.token>"),
    ("password:", "password:"),
])  # fmt: skip
def test_an_excerpt_masks_literals_that_look_like_secrets(line: str, shown: str) -> None:
    assert without_secrets(line) == shown


@pytest.mark.slow
@pytest.mark.parametrize("part", sampled(["a", "a: ", 'a:"', "'", " ", "a ", "a=\\", "-"], "a: ", "a "))
def test_an_excerpt_of_a_very_long_line_is_made_at_once(part: str) -> None:
    line = part * (2**20 // len(part))
    assert len(without_secrets(line)) == len(line)  # the suite's time limit is the bound


def test_a_diagnostic_outside_of_any_file_has_no_file() -> None:
    found = Diagnostic(file="3 files", span=None, code="unknown-variable", message="m", label="l", hint="h")
    assert not found.has_file
    assert found.text == "m\nl\nh"
