"""References inside of other references: to output folders of needs, and to hosts of roles."""

from pathlib import Path

import pytest

from tests.unit.jobfile.words import HEAD, compile_text

TOP = "vars:\n  name: {type: str, default: prepare}\nmatrix: {day: [1, B F, 0.1]}\n"
HASHED = "bf-k6keb"


def text(arg: str, *, needs: str = "", top: str = TOP) -> str:
    return f"{HEAD}{top}{needs}roles: {{main: {{entrypoint: cat, args: ['{arg}']}}}}\n"


def args(folder: Path, source: str) -> list[str]:
    compiled = compile_text(folder, source)
    assert [each for each in compiled.diagnostics if each.code != "unused-variable"] == []
    return [launch.app.roles[0].args[0] for launch in compiled.launches]


def test_an_output_folder_is_named_as_its_job_is_in_needs(tmp_path: Path) -> None:
    name = "prepare-$<matrix.day>"
    source = text(f"in=$<needs.{name}.output_dir>/x", needs=f"needs: [{name}]\n")
    assert args(tmp_path, source) == [
        f"in=$<needs.prepare-{day}.output_dir>/x" for day in ("1", HASHED, "0p1")
    ]


def test_a_name_may_hold_several_references(tmp_path: Path) -> None:
    name = "$<var.name>-$<matrix.day>"
    found = args(tmp_path, text(f"$<needs.{name}.output_dir>", needs=f"needs: [{name}]\n"))
    assert found == [f"$<needs.prepare-{day}.output_dir>" for day in ("1", HASHED, "0p1")]


def test_a_long_name_is_cut_as_in_needs(tmp_path: Path) -> None:
    name = f"{'p' * 60}-$<matrix.day>"
    compiled = compile_text(tmp_path, text(f"$<needs.{name}.output_dir>", needs=f"needs: [{name}]\n"))
    for launch in compiled.launches:
        assert launch.app.roles[0].args == [f"$<needs.{launch.needs[0].job}.output_dir>"]


def test_the_host_of_a_role_may_be_named_by_a_variable(tmp_path: Path) -> None:
    top = "vars: {role: {type: str, default: main}}\n"
    assert args(tmp_path, text("$<role.$<var.role>.host>", top=top)) == ["$<role.main.host>"]


@pytest.mark.parametrize("outer", ["needs.prepare-$<matrix.day>.output_dir", "var.$<matrix.day>"])
def test_an_escaped_reference_is_text(tmp_path: Path, outer: str) -> None:
    meant = [outer.replace("$<matrix.day>", day) for day in ("1", HASHED, "0p1")]
    assert args(tmp_path, text(f"$$<{outer}>")) == [f"$$<{each}>" for each in meant]
