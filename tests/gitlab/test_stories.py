"""What differs on GitLab from the stories of GitHub: the ways to merge, artifacts, tokens."""

from __future__ import annotations

import json

import pytest

from tests.github.hub import digest_in
from tests.github.test_stories import APPLIED, attempts, engine, hub, job, new

__all__ = ["engine", "hub", "new"]


@pytest.fixture
def provider() -> str:
    return "gitlab"


@pytest.mark.slow
def test_two_merge_requests_merged_at_once_by_fast_forward_are_both_applied_once(hub, scenario):
    for number, name in ((1, "one"), (2, "two")):
        hub.pull_request(number, {f"{name}.txt": "a first commit"})
        hub.pull_request(number, job(name))
    for number in (1, 2):
        hub.merge(number, forward=True)
    hub.pushed()
    list(hub.github.jobs.values())[-1].files.clear()  # the runner has died before it kept the artifact
    assert all("started" in hub.github.bodies(number)[0] for number in (1, 2))
    hub.pushed()  # the pipeline of the second merge
    assert (attempts(scenario, "one"), attempts(scenario, "two")) == (["1"], ["2"])
    assert hub.github.conclusions(APPLIED)[hub.commit()] == "success"


@pytest.mark.slow
def test_a_job_that_changed_after_the_plan_is_held_until_a_manual_pipeline_applies_it(hub, scenario):
    hub.propose(1, job("train", "echo reviewed"))
    hub.pull_request(1, job("train", "echo other"))
    hub.merge(1)
    told = hub.pushed(code=4).output
    assert "left no plan on the last commit of !1" in told
    assert "train: no approval starts it" in told
    assert "in which LAUNCHER_DIGEST is the digest lp3:" in told
    assert scenario.attempts("train", project="vision") == []
    hub.dispatched(digest_in(told))
    assert attempts(scenario, "train") == [""]


@pytest.mark.slow
def test_without_an_access_token_the_widget_shows_plans_and_the_log_shows_ends(hub, scenario):
    hub.runner.secrets["LAUNCHER_GITLAB_TOKEN"] = hub.github.own_token = ""
    planned = hub.propose(1, job("train", "exit 3"))
    assert "Starts 1 job" in planned.summary
    assert "LAUNCHER_GITLAB_TOKEN is not set" in planned.output
    left = list(hub.github.jobs.values())[-1].files
    assert json.loads(left["launcher-ci/widget.json"]) == {"create": 1, "update": 0, "delete": 0}
    assert json.loads(left["launcher-ci/plan.json"])["effects"]
    hub.land(1)
    scenario.launcher("wait", "train", code=None)
    assert "!1 (vision, default): 1 failed" in hub.ticked().output
    assert hub.github.bodies(1) == []


@pytest.mark.slow
def test_the_free_tier_reads_artifacts_with_the_access_token_and_names_a_missing_one(hub, scenario):
    hub.github.is_paid = False
    hub.propose(1, job("one"))
    hub.land(1)
    assert attempts(scenario, "one") == ["1"]
    hub.propose(2, job("two"))
    hub.runner.secrets["LAUNCHER_GITLAB_TOKEN"] = hub.github.own_token = ""
    assert "LAUNCHER_GITLAB_TOKEN is not set, and the token of the job may not" in hub.land(2, code=1).output


@pytest.mark.slow
def test_a_merge_request_of_a_fork_is_compared_without_the_engine_and_approves_nothing(hub, scenario):
    hub.pull_request(1, job("train"))
    told = hub.planned(1, CI_MERGE_REQUEST_SOURCE_PROJECT_ID="43").output
    assert "a merge request of a fork" in told
    hub.land(1, code=4)
    assert scenario.attempts("train", project="vision") == []


@pytest.mark.slow
def test_a_plan_shows_what_main_has_applied_since_the_branch_began_as_nothing_new(hub, scenario):
    hub.pull_request(1, {"README": "1"})
    hub.propose(2, job("train"))
    hub.land(2)
    scenario.wait("train")
    hub.planned(1)
    assert hub.github.bodies(1) == []


@pytest.mark.slow
def test_a_merge_request_that_conflicts_with_main_fails_its_plan(hub):
    hub.pull_request(1, {"README": "1"})
    hub.push({"README": "2"})
    assert "CONFLICT" in hub.planned(1, code=1).output
