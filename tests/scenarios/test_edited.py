"""A plan names code that differs from the code that a kept job ran; `on_edit: rerun` runs the job again."""

import json
import os
import shutil
import sqlite3
import subprocess
import time

import pytest

from launcher import paths
from tests.waiting import until

TRAIN = """
    version: 1
    name: train
    %s
    roles:
      main: {entrypoint: python3, args: [train.py]}
"""


def git(folder, *args):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True)


@pytest.fixture
def train(scenario):
    """A job that has run `train.py`, which imports `model.py`."""
    scenario.write("train.py", "import model\n")
    scenario.write("model.py", "x = 1\n")
    file = scenario.write("train.launcher.yaml", TRAIN % "")
    scenario.run_to_end(file)
    return file


def edited(scenario, *files, code=0):
    """Return by job the files that the plan calls edited."""
    made = json.loads(scenario.launcher("plan", *files, "--format", "json", code=code).out)
    return {job["key"]["job"]: job["edited"] for job in made["jobs"] if "edited" in job}


def test_a_plan_reports_edited_code_of_a_kept_job(scenario, train):
    assert "1 job unchanged, already succeeded: train" in scenario.launcher("plan", train).out
    scenario.write("model.py", "x = 2\n")
    text = scenario.launcher("plan", train).out
    assert (
        "=   train  unchanged, already succeeded; differs from what ran: model.py "
        "(to run it again: --rerun train; always: inputs)\n" in text
    )
    assert "Plan: no changes, 1 unchanged, 1 of them edited\n" in text
    assert edited(scenario, train) == {"train": ["model.py"]}
    assert "model.py" in scenario.launcher("plan", train, "--format", "markdown").out
    scenario.launcher("plan", train, "--fail-on", "edited", code=3)
    scenario.launcher("apply", train, "--yes", "--fail-on", "edited", code=3)
    scenario.launcher("plan", train, "--detailed-exitcode")


def test_new_and_removed_modules_count_as_edits_and_outputs_do_not(scenario, train):
    scenario.write("train.py", "import model, more\n")
    scenario.write("more.py", "")
    (scenario.folder / "model.py").unlink()
    assert edited(scenario, train) == {"train": ["model.py", "more.py", "train.py"]}


@pytest.mark.slow
def test_plans_of_two_checkouts_report_only_their_own_edits(scenario):
    repo, other = scenario.folder / "repo", scenario.folder / "other"
    scenario.write("repo/jobs/train.launcher.yaml", TRAIN % "")
    scenario.write("repo/jobs/train.py", "import lib.model\n")
    scenario.write("repo/jobs/lib/model.py", "x = 1\n")
    git(repo, "init", "-q")
    git(repo, "remote", "add", "origin", "https://git.example.org/team/repo.git")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "one")
    shutil.copytree(repo, other)
    scenario.run_to_end(repo / "jobs")
    (other / "jobs" / "lib" / "model.py").write_text("x = 2\n")
    assert edited(scenario, repo / "jobs") == {}
    assert edited(scenario, other / "jobs") == {"train": ["jobs/lib/model.py"]}
    head = subprocess.check_output(["git", "-C", str(repo), "rev-parse", "HEAD"], text=True)
    shown = scenario.launcher("plan", other / "jobs").out
    assert f"differs from what ran ({head[:7]}): jobs/lib/model.py" in shown


def test_a_file_that_a_job_writes_is_no_edit_unless_git_tracks_it(scenario):
    """Otherwise a job that rewrites a file that it names would run again at every apply."""
    file = scenario.job("cat out.txt; echo 1 >>out.txt; echo 1 >>conf.txt", top="lifecycle: {on_edit: rerun}")
    scenario.write("out.txt", "")
    scenario.write("conf.txt", "")
    scenario.run_to_end(file)
    assert edited(scenario, file) == {}
    git(scenario.folder, "init", "-q")
    git(scenario.folder, "add", "conf.txt")
    assert edited(scenario, file) == {"job": ["conf.txt"]}
    scenario.write("out.txt", "later")
    assert edited(scenario, file) == {"job": ["conf.txt", "out.txt"]}


@pytest.mark.slow
def test_on_edit_rerun_runs_the_job_and_its_dependents_again(scenario):
    scenario.write("train.py", "print(1)\n")
    file = scenario.write("train.launcher.yaml", TRAIN % "")
    after = scenario.job("true", name="after", top="needs: [train]")
    scenario.run_to_end(file, after)
    scenario.write("train.launcher.yaml", TRAIN % "lifecycle: {on_edit: rerun}")
    assert scenario.actions(file, after) == {"train": "keep", "after": "keep"}
    scenario.write("train.py", "print(2)\n")
    assert scenario.actions(file, after) == {"train": "rerun", "after": "rerun"}
    assert "train    rerun: train.py differs from what ran" in scenario.launcher("plan", file, after).out
    scenario.launcher("plan", file, after, "--out", "plan.json")
    scenario.launcher("apply", "plan.json", "--wait")
    assert scenario.actions(file, after) == {"train": "keep", "after": "keep"}
    scenario.write("train.launcher.yaml", TRAIN % "")
    assert scenario.actions(file, after) == {"train": "keep", "after": "keep"}


def test_an_edit_under_a_running_attempt_does_not_stop_it(scenario):
    gate = scenario.gate()
    scenario.write("part.sh", "true\n")
    file = scenario.job(f"{gate.script}; sh part.sh", top="lifecycle: {on_edit: rerun}")
    scenario.apply(file)
    gate.entered()
    scenario.write("part.sh", "false\n")
    assert scenario.actions(file) == {"job": "keep"}
    scenario.write("part.sh", "echo\n")
    gate.open()
    scenario.wait("job")
    assert scenario.actions(file) == {"job": "rerun"}


@pytest.mark.slow
def test_an_edit_while_a_job_waits_is_what_it_runs_and_no_edit_of_it(scenario):
    gate = scenario.gate()
    scenario.job(gate.script, name="first")
    scenario.write("train.py", "print('old')\n")
    scenario.write("train.launcher.yaml", TRAIN % "needs: [first]")
    scenario.apply(".")
    gate.entered()
    scenario.write("train.py", "print('new')\n")
    begun = scenario.attempts("train")[0].created_at
    os.utime(scenario.folder / "train.py", (begun, begun))
    until(lambda: time.time() > begun + 2.1)
    gate.open()
    scenario.wait("train")
    assert scenario.logs("train") == "new\n"
    assert edited(scenario, ".") == {}
    scenario.write("train.py", "print('newest')\n")
    assert edited(scenario, ".") == {"train": ["train.py"]}


def test_a_plan_reports_no_edits_of_an_attempt_of_an_older_version(scenario, train):
    with sqlite3.connect(paths.ledger()) as store:
        store.execute("UPDATE attempts SET seen = ''")
    scenario.write("model.py", "x = 2\n")
    assert edited(scenario, train) == {}


@pytest.mark.slow
def test_a_plan_reports_jobs_that_ran_the_same_code_in_one_line(scenario):
    scenario.write("train.py", "")
    file = scenario.write(
        "sweep.launcher.yaml",
        """
        version: 1
        name: sweep
        matrix: {lr: {range: [0, 12]}}
        roles:
          main: {entrypoint: python3, args: [train.py, $<matrix.lr>]}
        """,
    )
    scenario.run_to_end(file)
    scenario.write("train.py", "print()")
    lines = scenario.launcher("plan", file).out.splitlines()
    assert [line for line in lines if "train.py" in line] == [
        "=   12 jobs unchanged, already succeeded; differ from what ran: train.py "
        "(to run them again: --rerun sweep; always: inputs): "
        "sweep-0, sweep-1, sweep-2, sweep-3, sweep-4 … and 7 more"
    ]


@pytest.mark.slow
def test_explain_shows_the_needs_and_files_of_a_success(scenario, train):
    after = scenario.job("true", name="after", top="needs: [train]")
    scenario.run_to_end(train, after)
    scenario.write("model.py", "x = 2\n")
    scenario.run_to_end(train, "--rerun", "train")
    text = scenario.launcher("plan", train, after, "--explain", "after").out
    assert text.startswith("after stands on attempt 1 (")
    assert "train has run since: attempt 2" in text
    assert text.endswith("Plan: rerun: needs_changed (train has run since: attempt 2)\n")
    found = json.loads(scenario.launcher("plan", train, "--explain", "train", "--format", "json").out)
    assert (found["success"]["attempt"], found["action"]) == (2, "keep")
    assert [(part["part"], part["name"], part["is_current"]) for part in found["stands_on"]] == [
        ("document", "", True),
        ("seen", "model.py", True),
        ("seen", "train.py", True),
    ]


def test_explain_refuses_unknown_jobs_and_options_that_it_cannot_combine(scenario, train):
    scenario.launcher("plan", train, "--explain", "trane", code=64)
    for option in (
        ["--out", "plan.json"],
        ["--format", "markdown"],
        ["--fail-on", "held"],
        ["--show-request"],
    ):
        done = scenario.launcher("plan", train, "--explain", "train", *option, code=64)
        assert "explain" in done.err
    new = scenario.job("true", name="new")
    assert "new: no attempt has succeeded" in scenario.launcher("plan", new, "--explain", "new").out
