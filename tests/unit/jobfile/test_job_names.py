"""`name` as a pattern, `matrix.group`, and their meaning in `needs` of other files."""

import re
from pathlib import Path

import pytest

from launcher.jobfile import Compiled, Environment, compile_files
from launcher.jobfile.compile.matrix import MAX_NAME
from launcher.jobfile.model.types import LABEL
from tests.unit.jobfile.words import SCHEDULERS, compile_text, launches

ROLE = "roles: {main: {entrypoint: x, args: [$<job.name>, $<matrix.a>]}}\n"


def text(name: str, matrix: str, more: str = "") -> str:
    return f"version: 1\nname: {name}\n{ROLE}matrix: {matrix}\n{more}"


@pytest.mark.parametrize(
    ("name", "matrix", "names"),
    [
        ("fit-$<matrix.a>", "{group: fit, a: [0.1, -3]}", ["fit-0p1", "fit-m3"]),
        ("$<matrix.a>", "{group: fit, a: [x, y]}", ["x", "y"]),
        ("$<matrix.a>-$<matrix.b>", "{group: fit, a: [1], b: [x, y]}", ["1-x", "1-y"]),
        ("a$<matrix.b>z-$<matrix.a>", "{group: fit, a: [1, 2], b: [true]}", ["atruez-1", "atruez-2"]),
        ("f-$<matrix.n>", "{group: fit, a: [1, 2], include: [{a: 1, n: p}, {a: 2, n: q}]}", ["f-p", "f-q"]),
        ("f-$<matrix.n>", "{group: f, include: [{n: 1, a: 1}, {n: 2, a: 1}]}", ["f-1", "f-2"]),
        ("f", "{a: [5], group: [1, 2]}", ["f-5-1", "f-5-2"]),
        ("f", "{a: [5], group: {range: [0, 2]}}", ["f-5-0", "f-5-1"]),
    ],
)
def test_a_pattern_names_each_job_by_its_values(tmp_path: Path, name, matrix, names) -> None:
    compiled = compile_text(tmp_path, text(name, matrix))
    assert [each.key.job for each in compiled.launches] == names
    for each in compiled.launches:
        assert each.app.name == each.app.roles[0].args[0] == each.key.job


def test_jobs_of_a_pattern_belong_to_the_group_and_others_to_the_name(tmp_path: Path) -> None:
    found = launches(tmp_path, text("fit-$<matrix.a>", "{group: sweep, a: [1, 2]}", "max_parallel: 1\n"))
    assert [(each.matrix, each.max_parallel) for each in found.values()] == [("sweep", 1)] * 2
    assert {each.matrix for each in launches(tmp_path, text("fit", "{a: [1, 2]}")).values()} == {"fit"}


def test_a_long_name_is_cut_and_two_long_names_differ(tmp_path: Path) -> None:
    name = "n" * 30 + "-$<matrix.a>-" + "x" * 20
    found = launches(tmp_path, text(name, f"{{group: g, a: [{'v' * 24}1, {'v' * 24}2]}}"))
    assert len(found) == 2
    assert all(len(each) == MAX_NAME and re.fullmatch(LABEL[1:-1], each) for each in found)


def test_toml_and_yaml_name_the_jobs_alike(tmp_path: Path) -> None:
    toml = 'version = 1\nname = "fit-$<matrix.a>"\n[roles.main]\nentrypoint = "x"\nargs = ["$<job.name>"]\n'
    toml += '[matrix]\ngroup = "fit"\na = [0.10, "B F", true]\n'
    yaml = text("fit-$<matrix.a>", "{group: fit, a: [0.10, B F, true]}")
    assert [*launches(tmp_path, toml, name="job.launcher.toml")] == [*launches(tmp_path, yaml)]


def test_no_message_has_a_value_under_a_name_of_secrets(tmp_path: Path) -> None:
    matrix = "{group: fit, a: [1], api_token: [hunter2hunter2, hunter3hunter3], include: [{a: 1, n: 2}]}"
    wrong = text("fit-$<matrix.a>", matrix).replace("job.name", "matrix.m")
    found = compile_text(tmp_path, wrong).diagnostics
    assert {each.code for each in found} >= {"constraint", "unknown-reference"}
    assert "hunter" not in "".join(map(str, found))


def compiled(folder: Path, *files: str) -> Compiled:
    environment = Environment(schedulers=SCHEDULERS, cwd=str(folder), environ={})
    return compile_files(files or ["."], environment=environment)


def needs_of(found: Compiled, job: str) -> list[str]:
    return next([need.job for need in each.needs] for each in found.launches if each.key.job == job)


@pytest.mark.parametrize("given", [(), ("report.launcher.yaml",)])
def test_the_group_among_needs_means_all_of_its_jobs_in_this_and_other_files(tmp_path: Path, given) -> None:
    (tmp_path / "launcher.toml").write_text('project = "p"\n')
    pattern = text("$<matrix.b>-$<matrix.a>", "{group: fit, a: [1, 2], include: [{b: x}]}")
    (tmp_path / "fit.launcher.yaml").write_text(pattern)
    report = "version: 1\nname: report\nneeds: [fit]\nroles: {main: {entrypoint: x}}\n"
    (tmp_path / "report.launcher.yaml").write_text(report)
    found = compiled(tmp_path, *given)
    assert found.errors == ()
    assert needs_of(found, "report") == ["x-1", "x-2"]
    (tmp_path / "report.launcher.yaml").write_text(report.replace("[fit]", "[x-2]"))
    assert needs_of(compiled(tmp_path, *given), "report") == ["x-2"]


def test_names_that_variables_decide_are_not_known_from_another_file(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text('project = "p"\n')
    head = "version: 1\nvars: {v: {type: str}}\nroles: {main: {entrypoint: x, args: ['$<matrix.b>']}}\n"
    matrix = "matrix: {group: fit, a: [1], include: [{b: $<var.v>}]}\n"
    (tmp_path / "report.launcher.yaml").write_text(
        "version: 1\nname: report\nneeds: [fit]\nroles: {main: {entrypoint: x}}\n"
    )
    (tmp_path / "fit.launcher.yaml").write_text(f"{head}name: f-$<matrix.a>\n{matrix}")
    [report] = compiled(tmp_path, "report.launcher.yaml").launches
    assert ([need.job for need in report.needs], dict(report.unresolved)) == (["f-1"], {})
    (tmp_path / "fit.launcher.yaml").write_text(f"{head}name: f-$<matrix.b>\n{matrix}")
    [report] = compiled(tmp_path, "report.launcher.yaml").launches
    assert "the names of its jobs are not known here" in report.unresolved["fit"]


def test_needs_spell_the_names_of_a_pattern_by_the_same_rule(tmp_path: Path) -> None:
    axes = "matrix: {group: %s, a: [0.1, B F, '007']}\n"
    role = "roles: {main: {entrypoint: x, args: [$<matrix.a>]}}\n"
    made = launches(tmp_path, f"version: 1\nname: p-$<matrix.a>-q\n{role}{axes % 'p'}")
    other = f"version: 1\nname: r-$<matrix.a>\nneeds: [p-$<matrix.a>-q]\n{role}{axes % 'r'}"
    needed = [each.needs[0].job for each in launches(tmp_path, other).values()]
    assert needed == [*made]
