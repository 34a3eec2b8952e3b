"""GitHub: annotations within its limits, files that cannot drive the runner, a plan's summary and outputs."""

import re

import pytest

from launcher.cli.render.github import outputs, report, shielded, workflow_commands
from launcher.jobfile import Diagnostic, Span
from tests.unit.cli.worlds import attempt, launch, plan


def diagnostic(line=1, severity="error", **fields):
    span = Span(line=line, column=3, end_line=line, end_column=7)
    answer = {"file": "a.yaml", "span": span, "code": "wrong-type", "message": "m"}
    return Diagnostic(severity=severity, **{**answer, **fields})


def test_an_annotation_has_the_place_and_the_message():
    found = diagnostic(message="100% wrong:\nyes", label="do, it", file="jobs/a,b:c.yaml")
    assert list(workflow_commands([found])) == [
        "::error file=jobs/a%2Cb%3Ac.yaml,line=1,endLine=1,col=3,endColumn=7,title=wrong-type"
        "::100%25 wrong:%0Ayes%0Ado, it"
    ]


def test_a_range_over_lines_has_no_columns():
    span = Span(line=2, column=3, end_line=4, end_column=1)
    assert list(workflow_commands([diagnostic(span=span)])) == [
        "::error file=a.yaml,line=2,endLine=4,title=wrong-type::m"
    ]


def test_a_diagnostic_without_a_file_names_none():
    found = diagnostic(span=None, code="unknown-variable", file="3 files")
    assert list(workflow_commands([found])) == ["::error title=unknown-variable::m"]


@pytest.mark.parametrize(("count", "more"), [(9, None), (10, 1), (30, 21)])
def test_each_severity_has_at_most_nine_annotations_and_one_that_counts_the_others(count, more):
    found = [diagnostic(n + 1) for n in range(count)]
    found += [diagnostic(n + 1, severity="warning") for n in range(count)]
    lines = list(workflow_commands(found))
    for kind in ("error", "warning"):
        ours = [line for line in lines if line.startswith(f"::{kind} ")]
        assert len(ours) == 9 + (more is not None)
        assert more is None or f"::and {more} more" in ours[-1]


def test_the_path_is_relative_to_the_workspace(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    [line] = workflow_commands([diagnostic(file="./a.yaml")])
    assert "file=sub/a.yaml," in line
    [line] = workflow_commands([diagnostic(file="../../x.yaml")])
    assert "file=../../x.yaml," in line


def test_text_is_shielded_from_workflow_commands_by_a_random_word():
    first, second = shielded("::add-mask::x"), shielded("::add-mask::x")
    assert first != second
    start, text, end = first.splitlines()
    assert text == "::add-mask::x"
    assert start == f"::stop-commands::{end.strip(':')}"
    assert re.fullmatch("::[0-9a-f]{32}::", end)


def test_the_report_has_every_diagnostic_in_full_behind_the_shield():
    found = [diagnostic(n + 1) for n in range(12)]
    lines = report(found).splitlines()
    stop = next(n for n, line in enumerate(lines) if line.startswith("::stop-commands::"))
    assert sum(line.startswith("::error ") for line in lines[:stop]) == 10
    assert sum(line.lstrip().startswith("--> ") for line in lines[stop:]) == 12


def test_the_step_outputs_hold_the_digest_and_the_counts_of_a_plan():
    ran = launch("ran")
    found = outputs(plan([launch("new"), ran], [attempt(ran, "failed")]))
    assert found.pop("plan_digest").startswith("lp3:sha256:")
    assert found == {
        "has_changes": "true",
        "create": "1",
        "hold": "1",
        "orphaned": "0",
        **dict.fromkeys(("replace", "rerun", "resume", "destroy", "keep"), "0"),
    }
    assert outputs(plan([]))["has_changes"] == "false"


def test_a_plan_goes_into_the_summary_and_the_outputs_of_the_step(scenario, monkeypatch):
    for name in ("SUMMARY", "OUTPUT"):
        variable = "GITHUB_OUTPUT" if name == "OUTPUT" else "GITHUB_STEP_SUMMARY"
        monkeypatch.setenv(variable, str(scenario.write(name, "before\n")))
    file = scenario.write(
        "job.launcher.yaml",
        """
        version: 1
        name: job
        roles: {main: {image: "x:latest", entrypoint: "true", args: ["::set-output name=a::b"]}}
        """,
    )
    done = scenario.launcher("plan", file, "--format", "github")
    lines = done.out.splitlines()
    assert lines[0].startswith("::warning file=")
    stops = [line.rpartition("::")[2] for line in lines if line.startswith("::stop-commands::")]
    assert len(stops) == 2
    assert [line for line in lines if line in [f"::{s}::" for s in stops]] == [f"::{s}::" for s in stops]
    assert "Plan: 1 to create" in lines
    assert done.err == ""
    summary, output = ((scenario.folder / name).read_text() for name in ("SUMMARY", "OUTPUT"))
    assert summary.startswith("before\n<!-- launcher plan: default -->\n### Plan: 1 to create\n")
    values = dict(line.split("=", 1) for line in output.splitlines()[1:])
    assert values["has_changes"] == "true"
    assert values["create"] == "1"
    assert values["plan_digest"] == scenario.plan_document(file)["plan_digest"]


def test_wrong_files_are_annotated_and_the_summary_says_why_there_is_no_plan(scenario, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(scenario.folder / "summary"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(scenario.folder / "output"))
    file = scenario.write("job.launcher.yaml", "version: 1\nname: job\nroles: {main: {imag: '```'}}\n")
    done = scenario.launcher("plan", file, "--format", "github", code=6)
    assert done.out.count("::error file=") == 2
    assert done.err == "error: 2 problems in 1 file\n"
    summary = (scenario.folder / "summary").read_text()
    assert summary.startswith("### No plan: 2 problems in 1 file\n\n````text\n")
    assert summary.endswith("\n````\n")
    assert not (scenario.folder / "output").exists()


def test_outside_of_github_no_summary_and_no_outputs_are_written(scenario, monkeypatch):
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    scenario.launcher("plan", scenario.job("true"), "--format", "github")


def test_a_summary_that_cannot_be_written_is_an_error(scenario, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(scenario.folder / "no" / "summary"))
    done = scenario.launcher("plan", scenario.job("true"), "--format", "github", code=1)
    assert "cannot write" in done.err
