"""`name` as a pattern, `matrix.group`, and their meaning in `needs` of other files."""

import re
from pathlib import Path

from launcher.jobfile import Compiled, Environment, compile_files
from launcher.jobfile.compile.matrix import MAX_NAME
from launcher.jobfile.model.types import LABEL
from tests.unit.jobfile.words import SCHEDULERS, compile_text, launches

ROLE = "roles: {main: {entrypoint: x, args: [$<job.name>, $<matrix.a>]}}\n"


def text(name: str, matrix: str, more: str = "") -> str:
    return f"version: 1\nname: {name}\n{ROLE}matrix: {matrix}\n{more}"


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
