"""The formats of diagnostics: text, JSON, SARIF, GitHub; and what `--strict` makes of warnings."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from launcher import __version__
from launcher.cli.render.findings import FORMATS, counts, envelope, exit_code, findings, in_short
from launcher.cli.render.github import sarif_log
from launcher.cli.schema import findings_schema
from launcher.jobfile import Diagnostic, Related, Span
from launcher.jobfile.diagnostic import CODES, explanations

WARNS = "version: 1\nname: job\nroles:\n  main:\n    image: x:latest\n    entrypoint: 'true'\n"
WRONG = "version: 1\nname: job\nroles:\n  main:\n    entrypoint: 'true'\n    num_replica: 2\n"


def diagnostic(line=1, severity="error", **fields):
    span = Span(line=line, column=3, end_line=line, end_column=7)
    report = {"file": "jobs/a b.yaml", "span": span, "code": "wrong-type", "message": "m"}
    return Diagnostic(severity=severity, **{**report, **fields})


# --strict


def test_a_warning_changes_the_exit_code_only_under_strict(scenario):
    file = scenario.write("job.launcher.yaml", WARNS)
    assert scenario.launcher("validate", file).err == "valid: 1 job; 1 warning\n"
    assert scenario.launcher("validate", file, "--strict", code=6).err == "1 warning\n"
    for format in FORMATS:
        scenario.launcher("validate", file, "--strict", "--format", format, code=6)
        scenario.launcher("validate", file, "--format", format)


@pytest.mark.parametrize("command", [["plan"], ["apply", "--yes"], ["run"]], ids=" ".join)
def test_under_strict_a_warning_stops_the_command_before_it_acts(scenario, command):
    file = scenario.write("job.launcher.yaml", WARNS)
    done = scenario.launcher(*command, file, "--strict", code=6)
    assert done.err.endswith("error: 1 warning in 1 file; --strict treats warnings as errors\n")
    assert done.err.count("--> ") == 1
    assert not scenario.home.exists()


def test_strict_accepts_a_clean_file(scenario):
    scenario.launcher("validate", scenario.job("true"), "--strict")
    scenario.launcher("plan", scenario.job("true"), "--strict")


def test_exit_codes_and_counts_follow_the_severities():
    warning, error = diagnostic(severity="warning"), diagnostic()
    assert [exit_code([]), exit_code([warning]), exit_code([error])] == [0, 0, 6]
    assert [exit_code(found, strict=True) for found in ([], [warning], [error])] == [0, 6, 6]
    assert counts([error, warning, warning]) == "1 error, 2 warnings"
    assert in_short([error, error, warning]) == "2 problems in 1 file"


# JSON


def test_the_envelope_has_a_version_and_counts():
    found = [diagnostic(), diagnostic(severity="warning")]
    assert envelope(found, 2) == {
        "version": "launcher.diagnostics/v1",
        "code": "job-file",
        "message": "1 problem in 1 file",
        "hint": "launcher explain wrong-type",
        "exit": 6,
        "jobs": 2,
        "errors": 1,
        "warnings": 1,
        "diagnostics": [entry.to_json() for entry in found],
    }


def test_a_plan_of_wrong_files_as_json_is_their_diagnostics(scenario):
    file = scenario.write("job.launcher.yaml", WRONG)
    done = scenario.launcher("plan", file, "--format", "json", code=6)
    assert [entry["code"] for entry in json.loads(done.out)["diagnostics"]] == ["unknown-field"]
    assert done.err == "error: 1 problem in 1 file\n"
    scenario.write("job.launcher.yaml", WARNS)
    planned = json.loads(scenario.launcher("plan", file, "--format", "json").out)
    assert planned["version"] == "launcher.plan/v3"


def test_the_published_schema_describes_what_is_printed(scenario):
    check = Draft202012Validator(findings_schema()).validate
    scenario.write("a.launcher.yaml", WRONG)
    scenario.write("b.launcher.yaml", WRONG)
    check(json.loads(scenario.launcher("validate", ".", "nowhere", "--format", "json", code=6).out))
    check(envelope([diagnostic(hint="h", label="l")], 0))


# SARIF


def results(log):
    """Return the results of a log, which has one run. Each names its rule by id and by index."""
    [run] = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result.pop("ruleIndex")] == result["ruleId"]
    return run["results"]


def rule(code, level):
    """Return the description of a code, as sections 3.49 and 3.51 of SARIF 2.1.0 have it."""
    why, right = explanations()[code]["Why"].text, explanations()[code]["Right"]
    return {
        "id": code,
        "shortDescription": {"text": CODES[code].capitalize()},
        "fullDescription": {"text": why},
        "help": {"text": f"{why}\n\n{right}", "markdown": f"{why}\n\n```\n{right}```\n"},
        "defaultConfiguration": {"level": level},
    }


def place(uri, *region):
    names = ("startLine", "startColumn", "endLine", "endColumn")
    where = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}}
    return {"physicalLocation": {**where, "region": dict(zip(names, region, strict=True))}}


def test_sarif_has_a_result_for_each_diagnostic_of_wrong_files(scenario):
    scenario.write("jobs/a b.launcher.yaml", WRONG)
    scenario.write("jobs/c.launcher.yaml", WARNS)
    done = scenario.launcher("validate", "jobs", "--format", "sarif", code=6)
    assert done.err == ""
    log = json.loads(done.out)
    found = results(log)
    misspelt, unpinned = (each.pop("message")["text"] for each in found)
    assert misspelt.startswith("`num_replica` is not a field of role `main`\ndid you mean `num_replicas`?\n")
    assert unpinned.startswith("the image of role `main` is not pinned: tag `latest` may change\n")
    rules = [rule("unknown-field", "error"), rule("unpinned-image", "warning")]
    first = place("jobs/a%20b.launcher.yaml", 6, 5, 6, 16)
    second = place("jobs/c.launcher.yaml", 5, 12, 5, 20)
    assert log == {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "launcher", "version": __version__, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The root of the checkout."}}},
                "results": [
                    {"ruleId": "unknown-field", "level": "error", "locations": [first]},
                    {"ruleId": "unpinned-image", "level": "warning", "locations": [second]},
                ],
            }
        ],
    }


def test_sarif_without_problems_is_a_log_without_results(scenario):
    done = scenario.launcher("plan", scenario.job("true"), "--format", "sarif")
    assert results(json.loads(done.out)) == []
    assert "Plan: 1 to create" in done.err


def test_sarif_has_related_places_and_uris_outside_of_the_root(tmp_path):
    span = Span(line=1, column=1, end_line=1, end_column=2)
    other = Related(file=str(tmp_path / "b.yaml"), span=span, message="the other one is here")
    found = [
        diagnostic(file=str(tmp_path / "in" / "é.yaml"), related=(other,)),
        diagnostic(span=None, code="unknown-variable", file="3 files"),
        diagnostic(span=None, code="no-such-file", file="x"),
    ]
    first, second, third = results(sarif_log(found, root=str(tmp_path / "in")))
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "%C3%A9.yaml"
    related = first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]
    assert related == {"uri": f"file://{tmp_path}/b.yaml"}
    assert second["locations"] == []
    assert "region" not in third["locations"][0]["physicalLocation"]


# a secret never leaves through a frame


@pytest.mark.parametrize("format", FORMATS)
def test_a_value_that_looks_like_a_secret_is_in_no_format(scenario, format):
    file = scenario.write(
        "job.launcher.yaml",
        """
        version: 1
        name: job
        roles:
          main: {x: 1, entrypoint: "true", args: [--token=c4n4ry], env: {A_TOKEN: c4n4ry, PASSWD: "c4n4ry"}}
        """,
    )
    done = scenario.launcher("validate", file, "--format", format, code=6)
    assert "c4n4ry" not in done.out + done.err
    assert re.search("unknown-field", done.out)


def test_findings_without_diagnostics_are_empty_text():
    assert [findings([], format) for format in ("text", "github")] == ["", ""]


# Saved plans beside job files


def test_a_broken_saved_plan_hides_no_other_file(scenario):
    scenario.write("job.launcher.yaml", WRONG)
    scenario.write("broken.json", "{nope\n")
    files = ("job.launcher.yaml", "broken.json", "none.json")
    done = scenario.launcher("validate", *files, "--format", "json", code=6)
    found = json.loads(done.out)["diagnostics"]
    assert [(entry["file"], entry["code"]) for entry in found] == [
        ("job.launcher.yaml", "unknown-field"),
        ("broken.json", "invalid-value"),
        ("none.json", "no-such-file"),
    ]
    assert found[1]["span"]["line"] == 1
    printed = scenario.launcher("validate", *files, code=6).out
    assert all(f"--> {name}" in printed for name in files)


@pytest.mark.parametrize("command", ["validate", "apply"])
def test_json_that_is_no_saved_plan_gets_one_sentence(scenario, command):
    scenario.write("q.json", '{"a": 1}')
    done = scenario.launcher(command, "q.json", code=6 if command == "validate" else 1)
    printed = done.out + done.err
    assert "q.json is not a saved plan: it has no `version`" in printed
    assert "launcher plan FILE --out plan.json" in printed


# Names


def test_a_misspelt_name_of_another_tool_gets_our_name(scenario):
    file = scenario.write(
        "job.launcher.yaml",
        """
        version: 1
        name: job
        roles:
          main: {entrypoint: "true", retires: 3}
        """,
    )
    assert "did you mean `max_retries`?" in scenario.launcher("validate", file, code=6).out


@pytest.mark.parametrize(("option", "hint"), [
    ("-o", "did you mean `--offline` or `--out`?"),
    ("-p", "did you mean `--prune`?"),
    ("-q", "see `launcher plan --help`"),
])  # fmt: skip
def test_the_hint_for_a_short_option_names_the_long_option_that_begins_with_it(scenario, option, hint):
    assert hint in scenario.launcher("plan", option, code=64).err
