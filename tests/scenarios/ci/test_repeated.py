"""Applies that were killed or failed and ran again, and applies of several projects: what they record."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.github.fake import REPOSITORY
from tests.github.repository import Repository, git
from tests.scenarios.ci.test_stories import BY_HAND, CHECK, PRUNES, job, ran, repo, until_opened

__all__ = ["repo"]

PRUNE = PRUNES["launcher.toml"]


def killed_before_its_record(repo: Repository, folder: Path, number: int) -> int:
    """Run `ci apply`, send it a signal when it has started what was approved; return its exit code."""
    commit = git(repo.work, "rev-parse", "main")
    clone = folder / "killed"
    git(folder, "clone", "-q", str(repo.remote), str(clone))
    event = folder / "event.json"
    event.write_text(json.dumps({"repository": {"default_branch": "main"}}))
    environ = {
        **os.environ, "LAUNCHER_HOME": str(repo.home), "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(event), "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_SHA": commit,
        "GITHUB_API_URL": repo.github.url, "GITHUB_TOKEN": "token",
    }  # fmt: skip
    script = (
        "import os, launcher.cli.ci as ci\n"
        f"ci.applied_check = lambda *_, **__: os.kill(os.getpid(), {number})\n"
        "from launcher.__main__ import main\nmain()\n"
    )
    command = [sys.executable, "-c", script, "ci", "apply"]
    return subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True).returncode


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_an_apply_after_a_killed_one_records_the_jobs_of_both(repo, github, scenario, tmp_path, number, code):
    repo.propose(1, {"one.launcher.yaml": job("one"), "two.launcher.yaml": job("two")})
    commit = repo.merge(1)
    assert killed_before_its_record(repo, tmp_path, number) == code
    assert commit not in github.conclusions(CHECK)
    repo.apply()
    assert ran(scenario) == {"base": [""], "one": ["1"], "two": ["1"]}
    assert f"applied at {commit[:7]}: started one and two" in github.bodies(1)[0]
    for name in ("one", "two"):
        scenario.wait(name)
    repo.report()
    assert "### 2 succeeded" in github.bodies(1)[1]
    repo.apply()
    repo.report()
    assert len(github.bodies(1)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("is_between", [True, False], ids=["a report between", "one report"])
def test_the_jobs_of_two_applies_of_a_commit_are_each_reported_once(repo, github, scenario, is_between):
    """The first apply starts a job and leaves another one out, whose plan comes late."""
    repo.propose(1, {"one.launcher.yaml": job("one")})
    repo.merge(1)
    repo.pull_request(2, {"two.launcher.yaml": job("two")})
    repo.merge(2)
    repo.apply(code=4)
    scenario.wait("one")
    if is_between:
        repo.report()
    repo.plan(2)
    repo.apply()
    scenario.wait("two")
    for _ in range(2):
        repo.report()
    for number, name in ((1, "one"), (2, "two")):
        assert "".join(github.bodies(number)).count(f"| {name}@1 |") == 1


@pytest.mark.slow
def test_a_job_is_reported_once_when_each_commit_of_a_rebased_pull_request_is_applied(repo, github, scenario):
    repo.pull_request(1, {"one.launcher.yaml": job("one")})
    repo.propose(1, {"two.launcher.yaml": job("two")})
    git(repo.work, "merge", "-q", "--ff-only", "change-1")
    git(repo.work, "push", "-q", "origin", "main")
    commits = git(repo.work, "rev-list", "--reverse", "-2", "main").split()
    github.merge_pull(1, commits[1])
    github.commits[commits[0]] = [1]
    for commit in commits:
        repo.apply(at=commit)
    for name in ("one", "two"):
        scenario.wait(name)
    repo.report()
    told = "".join(github.bodies(1)[1:])
    assert [told.count(f"| {name}@1 |") for name in ("one", "two")] == [1, 1]


@pytest.mark.slow
def test_a_running_job_of_another_project_is_no_orphan(repo, github, scenario):
    gate = scenario.gate()
    repo.push(
        {
            "launcher.toml": PRUNE, "a/launcher.toml": f'project = "a"\n{PRUNE}',
            "b/launcher.toml": f'project = "b"\n{PRUNE}',
            "a/serve.launcher.yaml": until_opened("serve", gate), "b/train.launcher.yaml": job("train", "1"),
        }
    )  # fmt: skip
    repo.apply(BY_HAND, event="workflow_dispatch")
    gate.entered()
    repo.propose(1, {"b/train.launcher.yaml": job("train", "2")})
    commit = repo.merge(1)
    shown = repo.apply()
    assert "orphan" not in shown
    assert github.conclusions("launcher apply (b, default)")[commit] == "success"
    gate.open()


@pytest.mark.slow
def test_the_jobs_of_a_project_whose_last_file_was_removed_are_stopped(repo, github, scenario):
    gate = scenario.gate()
    files = {
        "a/launcher.toml": f'project = "a"\n{PRUNE}',
        "a/serve.launcher.yaml": until_opened("serve", gate),
    }
    repo.push({"launcher.toml": PRUNE, **files})
    repo.apply(BY_HAND, event="workflow_dispatch")
    gate.entered()
    repo.propose(1, dict.fromkeys(files))
    assert "### Stops 1 app" in github.bodies(1)[0]
    commit = repo.merge(1)
    repo.apply()
    assert github.conclusions("launcher apply (a, default)")[commit] == "success"
    (made,) = scenario.attempts("serve", project="a")
    assert made.state == "cancelled"
    assert scenario.processes_of(made.app_id) == []


@pytest.mark.parametrize("prunes", [True, False])
def test_the_last_job_file_of_a_repository_is_removed_by_a_pull_request(repo, github, scenario, prunes):
    gate = scenario.gate()
    serve = {"jobs/serve.launcher.yaml": until_opened("serve", gate)}
    repo.land(1, {"base.launcher.yaml": None, **serve, **(PRUNES if prunes else {})})
    gate.entered()
    repo.propose(2, {"jobs/serve.launcher.yaml": None})
    commit = repo.merge(2)
    repo.apply()
    (made,) = scenario.attempts("serve")
    if prunes:
        assert github.bodies(2)[0].endswith(f"applied at {commit[:7]}: stopped serve\n")
        assert made.state == "cancelled"
    else:
        assert "orphan" in repo.plan(2)
        assert made.state == "running"
        gate.open()
    repo.land(3, {"next.launcher.yaml": job("next")})
    assert ran(scenario)["next"] == ["3"]


def push_commits(repo: Repository, count: int) -> None:
    """Push commits that change nothing, each the merge of work that is no job."""
    for number in range(count):
        git(repo.work, "commit", "-qm", f"other work {number}", "--allow-empty")
    git(repo.work, "push", "-q", "origin", "main")


@pytest.mark.slow
def test_a_job_that_ends_after_a_hundred_merges_is_reported(repo: Repository, github, scenario) -> None:
    repo.land(1, {"one.launcher.yaml": job("one")})
    scenario.wait("one")
    push_commits(repo, 100)
    repo.report()
    assert "### 1 succeeded" in github.bodies(1)[1]


@pytest.mark.slow
def test_a_report_looks_no_further_back_than_a_commit_before_which_all_is_reported(
    repo: Repository, github, scenario
) -> None:
    """It looks at 50 commits in any case: an older one may have been applied for another target since."""
    repo.land(1, {"one.launcher.yaml": job("one")})
    push_commits(repo, 70)
    repo.land(2, {"two.launcher.yaml": job("two")})
    for name in ("one", "two"):
        scenario.wait(name)
    push_commits(repo, 50)
    asked = []
    for _ in range(2):
        before = len(github.requests)
        repo.report()
        asked.append(sum("check-runs" in each and "GET" in each for each in github.requests[before:]))
    assert asked == [124, 51]
    assert [len(github.bodies(number)) for number in (1, 2)] == [2, 2]


def test_a_plan_of_several_projects_asks_once_for_the_pull_request_and_its_comments(
    repo: Repository, github
) -> None:
    files = {f"{name}/launcher.toml": f'project = "{name}"\n' for name in "abc"}
    repo.pull_request(1, {**files, **{f"{name}/{name}.launcher.yaml": job(name) for name in "abc"}})
    before = len(github.requests)
    repo.plan(1)
    asked = [each for each in github.requests[before:] if each.startswith("GET")]
    assert sorted(asked) == ["GET /issues/1/comments", "GET /pulls/1"]
    assert sorted(body.splitlines()[0] for body in github.bodies(1)) == [
        f"<!-- launcher plan: {name} -->" for name in "abc"
    ]


@pytest.mark.slow
def test_a_comment_that_cannot_be_written_makes_no_apply_a_failed_one(repo: Repository, github, scenario):
    for number, name in ((1, "one"), (2, "two")):
        repo.propose(number, {f"{name}.launcher.yaml": job(name)})
        repo.merge(number)
    github.faults.answers = {"PATCH": [422]}
    shown = repo.apply()
    assert "422 refused for a test: #1 does not show what was applied" in shown
    assert ran(scenario) == {"base": [""], "one": ["1"], "two": ["2"]}
    assert "applied at" not in github.bodies(1)[0]
    assert "started two" in github.bodies(2)[0]


@pytest.mark.slow
def test_an_apply_of_several_projects_reads_the_comments_of_a_pull_request_once(repo: Repository, github):
    files = {f"{name}/launcher.toml": f'project = "{name}"\n' for name in "abc"}
    repo.propose(1, {**files, **{f"{name}/{name}.launcher.yaml": job(name) for name in "abc"}})
    repo.merge(1)
    before = len(github.requests)
    repo.apply()
    assert github.requests[before:].count("GET /issues/1/comments") == 1
    assert all(f"started {name}" in body for name, body in zip("abc", github.bodies(1), strict=True))


def test_a_report_of_a_shallow_clone_names_how_to_fetch_the_merges_that_it_lacks(repo: Repository) -> None:
    assert "::warning" not in repo.report()
    repo.depth = 1
    assert "jobs of merges that this clone lacks are not reported" in repo.report()
