"""The workflow of `launcher init --ci`, as it stands and with the jobs that apply: its commands work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

WORKFLOW = ".github/workflows/launcher.yml"


def with_apply(text: str) -> str:
    """The workflow with the jobs that stand in comments."""
    return re.sub(r"(?m)^# (?=  )", "", text)


@pytest.fixture
def workflow(scenario) -> str:
    scenario.launcher("init", "--ci")
    return (scenario.folder / WORKFLOW).read_text()


def commands(job) -> list[list[str]]:
    return [step["run"].split()[1:] for step in job["steps"] if step.get("run", "").startswith("launcher ")]


def test_pull_requests_are_checked_and_planned_without_their_code_and_the_environment(scenario, workflow):
    jobs = YAML(typ="safe").load(workflow)["jobs"]
    assert [*jobs] == ["check"]
    steps = jobs["check"]["steps"]
    of_others = [step["run"] for step in steps if step.get("if") == "github.event_name == 'pull_request'"]
    assert [run.split()[1] for run in of_others] == ["validate", "plan"]
    assert all("--no-components --no-env-vars" in run for run in of_others)
    for argv in commands(jobs["check"]):
        scenario.launcher(*argv)


def test_what_was_reviewed_is_applied_and_nothing_else(scenario, workflow, monkeypatch, tmp_path):
    jobs = YAML(typ="safe").load(with_apply(workflow))["jobs"]
    assert [*jobs] == ["check", "review", "apply"]
    output = tmp_path / "output"
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    [plan], [apply] = commands(jobs["review"]), commands(jobs["apply"])
    scenario.launcher(*plan)
    found = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert found["has_changes"] == "true"
    argv = [word.replace('"$DIGEST"', found["plan_digest"]) for word in apply]
    other = scenario.job("true", name="other")
    assert "the plan is not the approved one" in scenario.launcher(*argv, code=4).err
    other.unlink()
    scenario.launcher(*argv)
    assert scenario.actions(".") == {"hello": "keep"}


@pytest.mark.parametrize("text", ["github", "text"])
def test_a_runner_that_begins_with_nothing_says_that_it_knows_nothing(scenario, monkeypatch, tmp_path, text):
    job = scenario.job("true")
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert "CI runner" not in "".join(scenario.launcher("plan", job, "--format", text)[1:])
    monkeypatch.setenv("CI", "true")
    done = scenario.launcher("plan", job, "--format", text)
    assert "jobs that `local_cwd` finished before are unknown here" in done.out + done.err
    if text == "github":
        assert done.out.startswith("::warning title=launcher::the state folder of this CI runner")
        assert "> [!WARNING]\n> the state folder" in summary.read_text()
    assert "are unknown here" in scenario.run_to_end(job).err
    assert "are unknown here" not in scenario.launcher("plan", job).err
    assert "are unknown here" not in scenario.run_to_end(job).err


def test_an_engine_that_all_runners_share_needs_no_warning(scenario, monkeypatch):
    from launcher import load_job
    from launcher.cli.plan_options import empty_state_warning

    top = "scheduler: local_docker"
    launch = load_job(scenario.job("true", role="image: busybox:1.37", top=top))
    assert empty_state_warning([launch], {"CI": "true"}) == ""
    assert "local_cwd" in empty_state_warning([load_job(scenario.job("true"))], {"CI": "1"})
    assert empty_state_warning([load_job(scenario.job("true"))], {"CI": "false"}) == ""


@pytest.mark.slow
@pytest.mark.parametrize("make", [str, with_apply], ids=["as it stands", "with the jobs that apply"])
@pytest.mark.parametrize(
    "checker",
    [
        ["zizmor", "--offline", "--no-progress", "--strict-collection"],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
        ["check-jsonschema", "--builtin-schema", "custom.github-workflows-require-timeout"],
    ],
    ids=["zizmor", "schema", "timeouts"],
)
def test_checkers_of_workflows_find_nothing(workflow, scenario, checker, make):
    (scenario.folder / WORKFLOW).write_text(make(workflow))
    program = Path(sys.executable).with_name(checker[0])
    done = subprocess.run(
        [program, *checker[1:], WORKFLOW], cwd=scenario.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
