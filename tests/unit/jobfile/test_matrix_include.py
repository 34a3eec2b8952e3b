"""`include` of a matrix: the jobs that it adds, and the further values that it gives to jobs."""

from pathlib import Path

import pytest

from launcher.jobfile.compile import matrix
from tests.unit.jobfile.words import HEAD, compile_text, launches, lines

ROLE = "roles: {main: {entrypoint: x, args: ['$<matrix.a>/$<matrix.b>/$<matrix.n>']}}\n"
AXES = "a: [1, 2], b: [x, y]"


def values(folder: Path, axes: str, **options: str) -> str:
    """Return the values of each job, one after the other."""
    found = launches(folder, f"{HEAD}{ROLE}matrix: {axes}\n", **options)
    return " ".join(each.app.roles[0].args[0] for each in found.values())


def test_the_advice_for_a_value_that_a_job_lacks_works(tmp_path: Path) -> None:
    matrix = f"{{{AXES}, include: [{{n: 1, b: y}}]}}"
    for _ in range(3):
        compiled = compile_text(tmp_path, f"{HEAD}{ROLE}matrix: {matrix}\n")
        if not compiled.errors:
            break
        item = compiled.diagnostics[0].label.split("`")[3].replace("…", "2")
        matrix = matrix.replace("include: [", f"include: [{item}, ")
    assert values(tmp_path, matrix) == "1/x/2 1/y/1 2/x/2 2/y/1"


def test_the_limit_counts_jobs_after_exclude_and_include(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MAX_JOBS", 256)
    most = "{a: {range: [0, 257]}, b: [1], exclude: [{a: 0}], include: [{n: 1}, {a: 5, n: 2}]}"
    assert len(values(tmp_path, most).split()) == 256
    [line] = lines(compile_text(tmp_path, f"{HEAD}{ROLE}matrix: {most[:-2]}, {{a: 0, b: 1}}]}}\n"))
    assert line == "4:1 too-large `matrix` makes 257 jobs, and a file makes at most 256"
    items = ", ".join(f"{{n: {number}}}" for number in range(257))
    head = "version: 1\nname: job-$<matrix.n>\nroles: {main: {entrypoint: x}}\n"
    [line] = lines(compile_text(tmp_path, f"{head}matrix: {{group: jobs, include: [{items}]}}\n"))
    assert "makes 257 jobs" in line


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("job", "{a: [$<var.x>, $<var.y>]}"),
        ("job", "{a: [2, 3], exclude: [{a: $<var.x>}]}"),
        ("job", "{a: [2, 3], include: [{a: $<var.x>, n: 1}, {a: $<var.y>}]}"),
        ("job-$<matrix.n>", "{group: job, include: [{n: $<var.x>}, {n: $<var.y>}]}"),
    ],
)
def test_values_that_are_not_known_yet_cause_no_diagnostic(tmp_path: Path, name, matrix):
    head = f"version: 1\nname: {name}\nvars: {{x: {{type: int}}, y: {{type: int}}}}\n"
    text = f"{head}roles: {{main: {{entrypoint: x}}}}\nmatrix: {matrix}\n"
    found = compile_text(tmp_path, text, placeholders=True).diagnostics
    assert [each.message for each in found if each.code != "unused-variable"] == []
