"""Every reason in a plan is explained, and what the explanation says is true: its commands are run.

The last command of an example shows the reason; after the remedy it is gone.
"""

import json
import re
import shlex
import subprocess
import sys

import pytest

from launcher.cli.main import main
from launcher.jobfile.diagnostics.explain import REASON_EXPLANATIONS, ReasonExplanation
from launcher.plan.reasons import REASONS
from tests import processes
from tests.scenario import Scenario

NOT_RUN = {
    "drift": "needs a Docker engine: tests/scenarios/docker/test_drift.py",
    "superseded": "needs a scheduler that does not stop what it should",
    "interrupted": "needs an apply that is killed at one moment",
    "in_progress": "needs an apply that is looked at in one moment",
    "expired": "takes a day",
    "not_yet_valid": "needs another machine with another clock",
}
REFUSED = {
    "attempt_changed": "printed no attempt, found ",
    "already_applied": "applied it already",
    "other_engine": "local_cwd ",
    "other_origin": "the plan is for ",
    "duplicate_job": "declared by ",
    "needs_cycle": "jobs need each other",
}
"""What the message of a refusal says, which has no codes."""

RUN = [each for code, each in REASON_EXPLANATIONS.items() if code not in NOT_RUN]


def test_every_reason_has_an_explanation_and_every_explanation_a_reason():
    assert REASON_EXPLANATIONS.keys() == REASONS.keys()


@pytest.mark.parametrize("explained", REASON_EXPLANATIONS.values(), ids=list(REASON_EXPLANATIONS))
def test_an_explanation_is_sentences_and_commands_that_fit_a_terminal(explained: ReasonExplanation):
    for text in (explained.why, explained.remedy):
        assert re.fullmatch(r"[A-Z`].*[.]", text, re.DOTALL)
    lines = [*str(explained.example).splitlines(), *explained.typed]
    assert max(map(len, lines)) <= 96
    assert len(lines) <= 24
    assert explained.typed


@pytest.mark.slow  # all of them together
@pytest.mark.parametrize("explained", RUN, ids=lambda explained: explained.code)
def test_the_example_shows_the_reason_and_the_remedy_removes_it(explained, scenario, monkeypatch):
    for name, content in explained.example.files.items():
        path = scenario.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(content))
    try:
        for line in explained.example.before:
            typed(line, scenario, monkeypatch)
        last = explained.example.command
        shown = shlex.split(last) or ["plan", *explained.example.files]
        assert explained.code in reasons(explained, shown, scenario)
        for line in explained.typed[:-1]:
            typed(line, scenario, monkeypatch)
        remedy = shlex.split(explained.typed[-1])[1:]
        if remedy[0] == "apply":
            scenario.launcher(*remedy)
        if shown[0] == "plan":
            found = reasons(explained, remedy if remedy[0] == "plan" else shown, scenario)
            assert explained.code not in found
    finally:
        scenario.launcher("cancel", "train", code=None)


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
    """Whether the example is about a job that fails for want of a file."""
    file = scenario.folder / "job.launcher.yaml"
    text = file.read_text() if file.exists() else ""
    return "data.csv]}}" in text and not (scenario.folder / "data.csv").exists()


def reasons(explained: ReasonExplanation, argv: list[str], scenario: Scenario) -> set[str]:
    """The codes in the plan that a command prints; of a refused apply the code whose words it prints."""
    if argv[0] == "apply":
        printed = scenario.launcher(*argv, code=4).err
        return {explained.code} if REFUSED[explained.code] in printed else {printed}
    if argv[-1] == "twice.py":
        script = [sys.executable, "twice.py"]
        printed = subprocess.run(script, cwd=scenario.folder, capture_output=True, text=True, check=False)
        return (
            {explained.code}
            if REFUSED[explained.code] in printed.stdout + printed.stderr
            else {printed.stderr}
        )
    done = scenario.launcher(*argv, "--format", "json", code=None)
    document = json.loads(done.out)
    found = {reason["code"] for job in document["jobs"] for reason in job["reasons"]}
    found |= {"orphan" for _ in document.get("orphans", ())}
    return found | {problem["code"] for problem in document.get("problems", ())}


def test_explain_prints_cause_example_and_remedy(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "last_failed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "reason[last_failed]: the latest attempt failed"
    assert (
        "    $ launcher plan job.launcher.yaml" in lines[lines.index("Example:") : lines.index("What to do:")]
    )
    assert lines[-1].endswith("--retry-failed")
    assert main(["explain", "last_failed", "--json"]) == 0
    assert {"why", "example", "remedy", "typed"} <= json.loads(capsys.readouterr().out).keys()
