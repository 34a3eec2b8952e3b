"""Applies of a branch in another order than its merges, and the first apply of a project."""

import pytest

from tests.github.repository import git
from tests.scenarios.ci.test_stories import BY_HAND, CHECK, job, ran, repo

__all__ = ["repo"]

BETA = "launcher apply (beta, default)"


def beta(name: str) -> dict[str, str | None]:
    return {"b/launcher.toml": 'project = "beta"\n', f"b/{name}.launcher.yaml": job(name)}


def test_a_run_of_a_commit_that_a_later_one_has_overtaken_applies_nothing(repo, scenario):
    """The first run was evicted, and is run again by hand when the next one has applied both merges."""
    repo.propose(1, {"train.launcher.yaml": job("train", "v1")})
    first = repo.merge(1)
    repo.propose(2, {"train.launcher.yaml": job("train", "v2")})
    last = repo.merge(2)
    repo.apply()
    scenario.wait("train")
    assert f"{last[:7]} was applied, a later commit of main" in repo.apply(at=first, code=4)
    assert "a later commit of main" in repo.apply(BY_HAND, at=first, code=4)
    assert ran(scenario)["train"] == ["2"]
    repo.apply()


def test_a_late_run_in_a_shallow_clone_takes_no_job_back(repo, scenario):
    """It lacks the commits after its own, so it cannot see that one of them was applied."""
    repo.propose(1, {"train.launcher.yaml": job("train", "v1")})
    first = repo.merge(1)
    repo.propose(2, {"train.launcher.yaml": job("train", "v2")})
    repo.merge(2)
    repo.apply()
    scenario.wait("train")
    repo.depth = 50  # all commits up to the first
    shown = repo.apply(at=first, code=4)
    assert "train@1 was started from" in shown
    repo.depth = 1
    shown = repo.apply(at=first, code=4)
    assert "this clone is shallow" in shown
    assert "`fetch-depth: 0` of actions/checkout, or `GIT_DEPTH: 0` of GitLab" in shown
    assert ran(scenario)["train"] == ["2"]


@pytest.mark.slow
def test_only_commits_of_the_default_branch_are_applied(repo, scenario):
    repo.propose(1, {"train.launcher.yaml": job("train")})
    repo.merge(1)
    git(repo.work, "push", "-q", "--force", "origin", "main~1:main")
    for commit in ("main", "change-1"):
        shown = repo.apply(at=commit, code=4)
        assert "is no commit of main" in shown
        assert "is no commit of main" in repo.apply(BY_HAND, at=commit, code=4)
    assert "train" not in ran(scenario)


@pytest.mark.slow
def test_a_merge_after_a_rewrite_of_the_history_changes_a_job_from_before(repo, scenario, monkeypatch):
    repo.land(1, {"train.launcher.yaml": job("train", "v1")})
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@4000000000 +0000")
    git(repo.work, "commit", "-q", "--amend", "-m", "rewritten")
    git(repo.work, "push", "-q", "--force", "origin", "main")
    repo.land(2, {"train.launcher.yaml": job("train", "v2")})
    assert ran(scenario)["train"] == ["1", "2"]


def test_the_pull_request_that_adds_a_project_approves_its_jobs(repo, github, scenario):
    repo.land(1, {"README": "1"})
    repo.propose(2, beta("one"))
    repo.merge(2)
    repo.propose(3, beta("two"))
    commit = repo.merge(3)
    repo.apply()
    assert ran(scenario) == {"base": [""], "one": ["2"], "two": ["3"]}
    assert f"applied at {commit[:7]}: started one" in github.bodies(2)[0]
    assert github.conclusions(BETA)[commit] == github.conclusions(CHECK)[commit] == "success"


@pytest.mark.slow
def test_a_project_that_cannot_be_applied_holds_up_no_other(repo, github, scenario):
    secret = "{main: {entrypoint: echo, env: {KEY: {secret: 'env:NO_SUCH_VARIABLE'}}}}"
    project = {"a/launcher.toml": 'project = "alpha"\n'}
    repo.propose(1, {**project, "a/one.launcher.yaml": f"version: 1\nname: one\nroles: {secret}\n"})
    repo.merge(1)
    repo.propose(2, {"two.launcher.yaml": job("two")})
    commit = repo.merge(2)
    assert "secrets are missing" in repo.apply(code=1)
    assert ran(scenario) == {"base": [""], "two": ["2"]}
    assert f"the apply at {commit[:7]} failed. [The run](" in github.bodies(1)[0]
