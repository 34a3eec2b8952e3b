"""Variables: where a value comes from, and what it must be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobfile.words import HEAD, compile_text, launch, places

USE = "roles: {main: {entrypoint: env, args: [$<var.v>]}}\n"


def arg(folder: Path, definition: str, given: Mapping[str, Any] | None = None, **environ: str) -> str:
    text = HEAD + f"vars: {{v: {definition}}}\n" + USE
    return launch(folder, text, variables=given, environ=environ).app.roles[0].args[0]


@pytest.mark.parametrize(("definition", "given", "expected"), [
    ("{type: float}", "1e-3", "1e-3"), ("{type: float}", 0.5, "0.5"), ("{type: float}", 2, "2.0"),
    ("{type: int}", 5, "5"), ("{type: bool}", "yes", "true"), ("{type: bool}", False, "false"),
    ("{type: str}", " x ", " x "), ("{type: str}", "", ""),
])  # fmt: skip
def test_a_value_within_text_keeps_its_spelling(tmp_path, definition, given, expected):
    assert arg(tmp_path, definition, None if given is None else {"v": given}) == expected


@pytest.mark.parametrize(("definition", "given", "expected"), [
    ("{type: int}", "x", 'variable `v` is "x" from --var v, and must be a whole number'),
    ("{type: int}", "1.0", 'variable `v` is "1.0" from --var v, and must be a whole number'),
    ("{type: int}", True, "variable `v` is true from --var v, and must be a whole number"),
    ("{type: float}", "nan", 'variable `v` is "nan" from --var v, and must be a number'),
    ("{type: bool}", "maybe", 'variable `v` is "maybe" from --var v, and must be true or false'),
    ("{type: str}", 3, "variable `v` is 3 from --var v, and must be text"),
    ("{type: int, min: 2}", "1", "variable `v` is 1 from --var v, less than 2"),
    ("{type: float, max: 1}", "1.5", "variable `v` is 1.5 from --var v, more than 1.0"),
    ("{type: str, choices: [aa, bb]}", "ab",
        'variable `v` is "ab" from --var v, which is none of its choices'),
])  # fmt: skip
def test_a_given_value_of_a_variable_is_checked(tmp_path, definition, given, expected):
    compiled = compile_text(tmp_path, HEAD + f"vars: {{v: {definition}}}\n" + USE, variables={"v": given})
    assert [found.message for found in compiled.diagnostics] == [expected]


def test_placeholders_stand_in_for_missing_values(tmp_path: Path) -> None:
    text = HEAD + (
        "vars:\n  n: {type: int, min: 4}\n  s: {type: str}\n  r: {type: str}\n"
        "  c: {type: str, choices: [hold]}\n"
        "scheduler: $<var.s>\nproject: $<var.s>\ntimeout: $<var.s>\nlifecycle: {on_failed: $<var.c>}\n"
        "roles:\n  main:\n    entrypoint: $<var.s>\n    num_replicas: $<var.n>\n    min_replicas: 9\n"
        "    resource: $<var.r>\n    retry_policy: $<var.s>\n"
    )
    assert compile_text(tmp_path, text, placeholders=True).errors == ()
    assert {place.split()[1] for place in places(compile_text(tmp_path, text))} == {"unset-variable"}


def test_a_placeholder_still_has_a_type(tmp_path: Path) -> None:
    text = HEAD + "vars: {s: {type: str}}\nroles: {main: {entrypoint: x, num_replicas: $<var.s>}}\n"
    assert places(compile_text(tmp_path, text, placeholders=True)) == ["4:45 wrong-type"]


def test_a_variable_that_names_the_project_counts_as_used(tmp_path: Path) -> None:
    text = HEAD + "vars: {p: {type: str, default: vision}}\nproject: $<var.p>\nroles: {a: {entrypoint: x}}\n"
    compiled = compile_text(tmp_path, text)
    assert compiled.diagnostics == ()
    assert compiled.launches[0].key.project == "vision"


def test_a_misspelt_variable_on_the_command_line_gets_the_nearest_variable(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: int, default: 1}, epochs: {type: int, default: 1}}\n" + USE
    text = text.replace("$<var.v>", "$<var.v>, $<var.epochs>")
    [found] = compile_text(tmp_path, text, variables={"epoch": "1"}).errors
    assert (found.code, found.label) == ("unknown-variable", "did you mean `epochs`?")
    [found] = compile_text(tmp_path, text, variables={"zzz": "1"}).errors
    assert found.hint == "declared: epochs, v"


def test_a_misspelt_choice_on_the_command_line_gets_the_nearest_choice(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str, default: fp32, choices: [fp32, bf16]}}\n" + USE
    [found] = compile_text(tmp_path, text, variables={"v": "bf61"}).errors
    assert (found.label, found.hint) == ("did you mean `bf16`?", "choices: bf16, fp32")
