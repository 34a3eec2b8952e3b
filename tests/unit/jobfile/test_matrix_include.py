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


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("[{n: 7}]", "1/x/7 1/y/7 2/x/7 2/y/7"),
        ("[{n: 7}, {a: 2, n: 8}]", "1/x/7 1/y/7 2/x/8 2/y/8"),
        ("[{a: 2, n: 8}, {n: 7}]", "1/x/7 1/y/7 2/x/7 2/y/7"),
        ("[{n: 7}, {b: y, n: 0.10, a: 2}]", "1/x/7 1/y/7 2/x/7 2/y/0.10"),
        ("[{a: 1.0, n: 7}, {a: 2, n: true}]", "1/x/7 1/y/7 2/x/true 2/y/true"),
        ("[{n: 7}, {b: z, a: 3}]", "1/x/7 1/y/7 2/x/7 2/y/7 3/z/7"),
        ("[{b: z, a: 3}, {n: 7}]", "1/x/7 1/y/7 2/x/7 2/y/7 3/z/7"),
        ("[{n: 7}, {a: 3, b: z, n: 8}, {a: 3, b: z, n: 9}]", "1/x/7 1/y/7 2/x/7 2/y/7 3/z/9"),
        ("[{n: 7}, {a: 1, b: x}]", "1/x/7 1/y/7 2/x/7 2/y/7"),
        ("[{n: 7, x-why: [it, is]}]", "1/x/7 1/y/7 2/x/7 2/y/7"),
    ],
)
def test_each_item_gives_its_further_values_to_the_jobs_that_have_its_values_of_axes(
    tmp_path: Path, include: str, expected: str
) -> None:
    assert values(tmp_path, f"{{{AXES}, include: {include}}}") == expected


def test_include_follows_exclude(tmp_path: Path) -> None:
    again = "exclude: [{a: 1}], include: [{n: 7}, {a: 1, b: y, n: 8}]"
    assert values(tmp_path, f"{{{AXES}, {again}}}") == "2/x/7 2/y/7 1/y/8"


def test_names_hold_only_the_axes_whatever_further_values_the_jobs_get(tmp_path: Path) -> None:
    text = f"{HEAD}roles: {{main: {{entrypoint: x, args: [$<matrix.n>]}}}}\n"
    plain = launches(tmp_path, f"{HEAD}{ROLE.replace('$<matrix.n>', '')}matrix: {{{AXES}}}\n")
    more = launches(tmp_path, f"{text}matrix: {{{AXES}, include: [{{n: 1}}, {{a: 2, n: 9}}]}}\n")
    assert [*more] == [*plain] == ["job-1-x", "job-1-y", "job-2-x", "job-2-y"]
    assert {each.matrix for each in more.values()} == {"job"}


def test_a_further_value_has_the_type_that_it_is_written_with(tmp_path: Path) -> None:
    role = "roles: {main: {entrypoint: x, num_replicas: $<matrix.n>, env: {N: $<matrix.n>}}}\n"
    found = launches(tmp_path, f"{HEAD}{role}matrix: {{a: [1], include: [{{n: 3}}]}}\n")
    [role] = found["job-1"].app.roles
    assert (role.num_replicas, role.env) == (3, {"N": "3"})


def test_further_values_take_references_and_targets_give_others(tmp_path: Path) -> None:
    text = f"{HEAD}vars: {{n: {{type: int, default: 5}}}}\n{ROLE}"
    text += f"matrix: {{{AXES}, include: [{{n: $<var.n>}}, {{a: 2, n: '$<target.name>-2'}}]}}\n"
    text += "targets: {dev: {matrix: {a: [3], include: [{n: 1}]}}, two: {matrix: {b: [x]}}}\n"

    def of(target: str | None) -> list[str]:
        return [each.app.roles[0].args[0] for each in launches(tmp_path, text, target=target).values()]

    assert of(None) == ["1/x/5", "1/y/5", "2/x/default-2", "2/y/default-2"]
    assert of("dev") == ["3/x/1", "3/y/1"]
    assert of("two") == ["1/x/5", "2/x/two-2"]


def test_the_advice_for_a_value_that_a_job_lacks_works(tmp_path: Path) -> None:
    matrix = f"{{{AXES}, include: [{{n: 1, b: y}}]}}"
    for _ in range(3):
        compiled = compile_text(tmp_path, f"{HEAD}{ROLE}matrix: {matrix}\n")
        if not compiled.errors:
            break
        item = compiled.diagnostics[0].label.split("`")[3].replace("…", "2")
        matrix = matrix.replace("include: [", f"include: [{item}, ")
    assert values(tmp_path, matrix) == "1/x/2 1/y/1 2/x/2 2/y/1"


def test_each_item_without_axes_is_one_job(tmp_path: Path) -> None:
    head = "version: 1\nname: job-$<matrix.a>\n"
    matrix = "{group: jobs, include: [{a: 1, b: x, n: 7}, {a: B F, b: y, n: 8}]}"
    found = launches(tmp_path, f"{head}{ROLE}matrix: {matrix}\n")
    assert [each.app.roles[0].args[0] for each in found.values()] == ["1/x/7", "B F/y/8"]
    assert [name[:6] for name in found] == ["job-1", "job-bf"]


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


def test_a_value_of_include_may_have_any_name_that_an_axis_may_have(tmp_path: Path) -> None:
    role = "roles: {main: {entrypoint: x, args: [$<matrix.N_1-x>]}}\n"
    [found] = launches(tmp_path, f"{HEAD}{role}matrix: {{a: [1], include: [{{N_1-x: z}}]}}\n").values()
    assert found.app.roles[0].args == ["z"]


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
