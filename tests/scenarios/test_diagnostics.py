"""Six mistakes in one file are six diagnostics, each at its place, in YAML as in TOML."""

import json

import pytest

YAML = """\
version: 1
name: Train_Job
scheduler: local_cdw
timeout: soon
roles:
  trainer:
    entrypoint: python
    num_replica: 2
    max_retries: -1
    args: [--run, $<app_idd>]
"""
TOML = """\
version = 1
name = "Train_Job"
scheduler = "local_cdw"
timeout = "soon"

[roles.trainer]
entrypoint = "python"
num_replica = 2
max_retries = -1
args = ["--run", "$<app_idd>"]
"""
EXPECTED = {
    "train.launcher.yaml": [(2, 7, "invalid-name"), (3, 12, "unknown-variant"), (4, 10, "invalid-value"),
        (8, 5, "unknown-field"), (9, 18, "out-of-range"), (10, 19, "unknown-reference")],
    "train.launcher.toml": [(2, 8, "invalid-name"), (3, 13, "unknown-variant"), (4, 11, "invalid-value"),
        (8, 1, "unknown-field"), (9, 15, "out-of-range"), (10, 19, "unknown-reference")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [("train.launcher.yaml", YAML), ("train.launcher.toml", TOML)])
def test_six_mistakes_are_six_diagnostics_with_line_and_column(scenario, name, text):
    scenario.write(name, text)
    done = scenario.launcher("validate", name, "--format", "json", code=6)
    found = json.loads(done.out)["diagnostics"]
    assert [(d["span"]["line"], d["span"]["column"], d["code"]) for d in found] == EXPECTED[name]

    shown = scenario.launcher("validate", name, code=6)
    places = [line for line in (shown.err + shown.out).splitlines() if line.lstrip().startswith("--> ")]
    assert [place.split()[-1] for place in places] == [
        f"{name}:{line}:{col}" for line, col, _ in EXPECTED[name]
    ]


@pytest.mark.parametrize(("name", "text"), [("train.launcher.yaml", YAML), ("train.launcher.toml", TOML)])
def test_plan_and_apply_refuse_a_bad_file_with_the_same_diagnostics(scenario, name, text):
    scenario.write(name, text)
    good = scenario.job("true", name="good")
    for command in (["plan", name], ["apply", good, name, "--yes"]):
        done = scenario.launcher(*command, code=6)
        assert (done.err.count("--> "), done.out) == (6, "")
        assert done.err.splitlines()[-1] == "error: 6 problems in 1 file"
    assert not scenario.home.exists()


def test_yaml_and_toml_give_the_same_diagnostics_with_the_nearest_names(scenario):
    scenario.write("a.launcher.yaml", YAML)
    scenario.write("b.launcher.toml", TOML)
    of_a, of_b = (
        [(d["message"], d["label"]) for d in json.loads(done.out)["diagnostics"]]
        for name in ("a.launcher.yaml", "b.launcher.toml")
        if (done := scenario.launcher("validate", name, "--format", "json", code=6))
    )
    assert of_a == of_b
    shown = str(of_a)
    assert [name for name in ("`local_cwd`", "`num_replicas`", "app_id") if name not in shown] == []


def test_problems_of_all_files_are_reported_at_once_in_their_order(scenario):
    scenario.write("a.launcher.yaml", YAML)
    scenario.write("b.launcher.yaml", "version: 1\nname: b\n")
    done = scenario.launcher(
        "validate", "b.launcher.yaml", "missing.yaml", "a.launcher.yaml", "--format", "json", code=6
    )
    found = [(each["file"], each["code"]) for each in json.loads(done.out)["diagnostics"]]
    assert found == [
        ("b.launcher.yaml", "missing-field"),
        ("missing.yaml", "no-such-file"),
        *(("a.launcher.yaml", code) for _, _, code in EXPECTED["train.launcher.yaml"]),
    ]
