"""Pull requests that try to control their comment, or to approve themselves."""

import pytest

from tests.github.repository import git
from tests.scenarios.ci.test_stories import job, repo

__all__ = ["repo"]

MARK = "<!-- launcher applied -->"


def test_a_text_like_the_mark_of_applied_jobs_hides_no_part_of_a_later_plan(repo, github):
    def run(text: str) -> dict[str, str | None]:
        script = f"      {MARK}\n      echo {text}\n"
        role = f"version: 1\nname: train\nroles:\n  main:\n    run: |\n      true\n{script}"
        return {"train.launcher.yaml": role, "zebra.launcher.yaml": job("zebra", text)}

    repo.propose(1, run("reviewed"))
    repo.propose(1, run("other"))
    (comment,) = github.bodies(1)
    assert "other" in comment
    assert "reviewed" not in comment
    commit = repo.merge(1)
    repo.apply()
    (comment,) = github.bodies(1)
    assert comment.endswith(f"\n{MARK}\napplied at {commit[:7]}: started train and zebra\n")
    assert "zebra" in comment


@pytest.mark.parametrize("event", ["pull_request_target", "push", "workflow_dispatch", "issue_comment"])
def test_a_plan_for_another_event_approves_nothing(repo, github, event):
    """Effects on a commit of main would be those of a merge queue."""
    head = repo.pull_request(1, {"train.launcher.yaml": job("train")})
    clone = repo.clone(git(repo.work, "rev-parse", "main"))
    git(clone, "checkout", "-q", head, "--", ".")
    before = len(github.requests)
    shown = repo.run(clone, event, {"pull_request": {"number": 1}}, ["plan"], 1)
    assert f"`launcher ci plan` is for pull requests and merge queues, and not for `{event}`" in shown
    assert github.requests[before:] == []


@pytest.mark.slow
def test_a_job_inherits_no_token_by_which_a_step_proves_who_it_is(repo, scenario, monkeypatch):
    for name in ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_RUNTIME_TOKEN"):
        monkeypatch.setenv(name, "s3cret")
    text = job("train", "-c", '"env | grep -c s3cret || true"').replace("entrypoint: echo", "entrypoint: sh")
    repo.land(1, {"train.launcher.yaml": text})
    scenario.wait("train")
    assert scenario.logs("train").strip() == "0"
