"""The engine keeps the history of attempts: a client without a ledger reads where each came from."""

import json
import os
import shutil

CI = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "acme/vision",
    "GITHUB_RUN_ID": "77",
}


def test_the_history_of_a_job_is_on_the_engine(scenario):
    for word in ("one", "two"):
        file = scenario.job(f"echo {word}")
        scenario.plan(file, "--out", "reviewed.json")
        scenario.launcher("apply", file, "--approved", "reviewed.json", "--wait", env={**os.environ, **CI})
    before = json.loads(scenario.launcher("history", "job", "--json").out)
    assert [each["attempt"] for each in before] == [2, 1]
    assert all(each["run_url"].endswith("/actions/runs/77") for each in before)
    assert all(each["approval"] and each["effect"].startswith("le1:") for each in before)
    shutil.rmtree(scenario.home)
    assert known(scenario) == [{name: each[name] for name in KNOWN} for each in before]
    assert "echo one" in scenario.launcher("diff", "job@1", "job@2").out


def test_the_history_of_a_job_outlives_its_containers(scenario):
    file = scenario.job("echo one")
    scenario.plan(file, "--out", "reviewed.json")
    scenario.launcher("apply", file, "--approved", "reviewed.json", "--wait", env={**os.environ, **CI})
    before = known(scenario)
    scenario.prune()
    shutil.rmtree(scenario.home)
    assert scenario.containers() == []
    assert known(scenario) == before
    assert before[0]["run_url"].endswith("/actions/runs/77")


KNOWN = ("attempt", "state", "effect", "approval", "run_url", "commit", "digest")


def known(scenario):
    """Return the history of the job's attempts as a client reads it."""
    found = json.loads(scenario.launcher("history", "job", "--json").out)
    return [{name: each[name] for name in KNOWN} for each in found]


def test_an_approval_is_used_up_for_a_client_without_a_ledger(scenario):
    file = scenario.job("echo one")
    scenario.plan(file, "--out", "one.json")
    scenario.launcher("apply", file, "--approved", "one.json", "--wait")
    changed = scenario.job("echo two")
    scenario.plan(changed, "--out", "two.json")
    scenario.launcher("apply", changed, "--approved", "two.json", "--wait")
    shutil.rmtree(scenario.home)
    again = scenario.job("echo one")
    refused = scenario.launcher("apply", again, "--approved", "one.json", "--approved", "two.json", code=4)
    assert "attempt 1 has used it up" in refused.err
    scenario.plan(again, "--out", "three.json")
    scenario.launcher("apply", again, "--approved", "three.json", "--wait")
