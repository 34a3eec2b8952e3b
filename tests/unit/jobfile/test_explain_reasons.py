"""Every reason in a plan is explained, and the explanation is true: its commands are run.

The last command of an example shows the reason; after the remedy it is gone.
"""

import json
import shlex
import subprocess
import sys

import pytest

from launcher.cli.main import main
from launcher.jobfile.diagnostic import explanations
from launcher.plan.step import REASONS
from tests import processes
from tests.scenario import Scenario

NOT_RUN = {
    "drift": "needs a Docker engine: tests/scenarios/docker/test_drift.py",
    "image_changed": "needs a Docker engine: tests/scenarios/docker/test_moved_tag.py",
    "record_unreadable": "needs a user who may not read all files: tests/scenarios/test_unreadable_record.py",
    "refused": "needs a Slurm cluster: tests/scenarios/slurm/test_check.py",
    "superseded": "needs a scheduler that does not stop what it should",
    "interrupted": "needs an apply that is killed at one moment",
    "in_progress": "needs an apply that is looked at in one moment",
    "expired": "takes a day",
    "not_yet_valid": "needs another machine with another clock",
}
REFUSED = {
    "attempt_changed": "expected no attempt, found ",
    "already_applied": "applied it already",
    "other_engine": "local_cwd ",
    "other_origin": "the plan is for ",
    "duplicate_job": "declared by ",
    "needs_cycle": "jobs need each other",
    "unapproved": "the job file changed since",
}
"""Texts in the message of a refusal, which has no codes."""

EXPLAINED = {str(code): explanations()[code] for code in REASONS}


@pytest.mark.slow  # all of them together
@pytest.mark.parametrize("code", [code for code in EXPLAINED if code not in NOT_RUN])
def test_the_example_shows_the_reason_and_the_remedy_removes_it(code, scenario, monkeypatch):
    example, remedy = EXPLAINED[code]["Example"], EXPLAINED[code]["What to do"].commands
    for name, content in example.files.items():
        path = scenario.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    *before, last = example.commands
    shown, after = words_of(last), words_of(remedy[-1])
    try:
        for line in before:
            typed(line, scenario, monkeypatch)
        assert code in reasons(code, shown, scenario)
        for line in remedy[:-1]:
            typed(line, scenario, monkeypatch)
        if after[0] == "apply":
            scenario.launcher(*after)
        if shown[0] != "apply":
            assert code not in reasons(code, after if after[0] == "plan" else shown, scenario)
    finally:
        scenario.launcher("cancel", "train", code=None)


def words_of(command: str) -> list[str]:
    """Return the words of a command without `launcher` in front."""
    words = shlex.split(command)
    return words[1:] if words[0] == "launcher" else words


def typed(line: str, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one line of an example."""
    words = shlex.split(line)
    if words[0] == "launcher":
        scenario.launcher(*words[1:], code=5 if "--wait" in words and is_failing(scenario) else 0)
    elif words[0] == "export":
        name, _, value = words[1].partition("=")
        monkeypatch.setenv(name, value.replace("$PWD", str(scenario.folder)))
    elif line == "sudo reboot":
        for pid in scenario.supervisors().values():
            processes.kill([pid])
            assert processes.gone([pid], timeout_s=60)
    else:
        python = f'python() {{ {shlex.quote(sys.executable)} "$@"; }}; '
        subprocess.run(["bash", "-c", python + line], cwd=scenario.folder, check=False, capture_output=True)


def is_failing(scenario: Scenario) -> bool:
    """Return whether the job of the example fails because a file is missing."""
    file = scenario.folder / "job.launcher.yaml"
    text = file.read_text() if file.exists() else ""
    return "data.csv]}}" in text and not (scenario.folder / "data.csv").exists()


def reasons(code: str, argv: list[str], scenario: Scenario) -> set[str]:
    """Return the codes in a printed plan; of a refused apply the code whose words it prints."""
    if argv[0] == "apply":
        printed = scenario.launcher(*argv, code=4).err
        return {code} if REFUSED[code] in printed else {printed}
    if argv[0] == "python":
        script = [sys.executable, *argv[1:]]
        done = subprocess.run(script, cwd=scenario.folder, capture_output=True, text=True, check=False)
        return {code} if REFUSED[code] in done.stdout + done.stderr else {done.stderr}
    printed = scenario.launcher(*argv, "--format", "json", code=None).out
    document = json.loads(printed)
    if "jobs" not in document:  # a plan that cannot be made is an error
        return {document["code"]}
    found = {reason["code"] for job in document["jobs"] for reason in job["reasons"]}
    found |= {"orphan" for _ in document.get("orphans", ())}
    return found | {problem["code"] for problem in document.get("problems", ())}


def test_explain_prints_cause_example_and_remedy(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "last_failed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reason[last_failed]: the latest attempt failed"
    example = lines[lines.index("Example:") : lines.index("What to do:")]
    assert "    $ launcher plan job.launcher.yaml" in example
    assert lines[-1].endswith("--retry-failed")
    assert main(["explain", "last_failed", "--json"]) == 0
    assert {"why", "example", "remedy", "typed"} <= json.loads(capsys.readouterr().out).keys()
