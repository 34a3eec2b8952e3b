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


KNOWN = ("attempt", "state", "effect", "approval", "run_url", "commit", "digest")


def known(scenario):
    """Return the history of the job's attempts as a client without a state folder reads it."""
    scenario.forget()
    found = json.loads(scenario.launcher("history", "job", "--json").out)
    return [{name: each[name] for name in KNOWN} for each in found]


def test_the_history_of_a_job_is_on_the_engine_and_outlives_its_pruned_containers(scenario):
    for word in ("one", "two"):
        file = scenario.job(f"echo {word}")
        scenario.plan(file, "--out", "reviewed.json")
        scenario.launcher("apply", file, "--approved", "reviewed.json", "--wait", env={**os.environ, **CI})
    before = json.loads(scenario.launcher("history", "job", "--json").out)
    assert [each["attempt"] for each in before] == [2, 1]
    assert all(each["run_url"].endswith("/actions/runs/77") for each in before)
    assert all(each["approval"] and each["effect"].startswith("le1:") for each in before)
    found = known(scenario)
    assert found == [{name: each[name] for name in KNOWN} for each in before]
    assert "echo one" in scenario.launcher("diff", "job@1", "job@2").out
    scenario.prune()
    assert scenario.containers() == []
    assert known(scenario) == found


def test_an_approval_is_used_up_for_a_client_without_a_ledger(scenario):
    for word in ("one", "two"):
        file = scenario.job(f"echo {word}")
        scenario.plan(file, "--out", f"{word}.json")
        scenario.launcher("apply", file, "--approved", f"{word}.json", "--wait")
    shutil.rmtree(scenario.home)
    again = scenario.job("echo one")
    refused = scenario.launcher("apply", again, "--approved", "one.json", "--approved", "two.json", code=4)
    assert "attempt 1 has used it up" in refused.err
    scenario.plan(again, "--out", "three.json")
    scenario.launcher("apply", again, "--approved", "three.json", "--wait")
