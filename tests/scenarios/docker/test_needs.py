"""Jobs in containers that need jobs: in order, after the death of watchers, and seen from other homes."""

import json
from pathlib import Path

import pytest

from tests import processes
from tests.contract.conftest import Gate
from tests.scenario import until_line
from tests.scenarios.test_needs import (  # noqa: F401
    JOBS,
    pipeline,
    test_a_wait_ends_and_names_the_apply_where_the_holder_of_its_job_dies_meanwhile,
    test_an_added_need_keeps_a_running_job_and_resubmits_a_waiting_job,
    test_logs_of_a_waiting_job_name_its_need_and_follow_the_job_from_its_start,
)

pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


@pytest.fixture
def gate(scenario):
    """prepare → train → evaluate: each appends its name to a log, and the first waits for this gate."""
    made = Gate(scenario.folder / "gate")
    log = scenario.folder / "log"
    scenario.job(f"{made.script}; echo prepare >>{log}", name="prepare")
    scenario.job(f"echo train >>{log}", name="train", top="needs: [prepare]")
    scenario.job(f"echo evaluate >>{log}", name="evaluate", top="needs: [train]")
    return made


@pytest.mark.slow
def test_an_apply_ends_when_the_watcher_of_all_waiting_jobs_has_died(scenario, pipeline):  # noqa: F811
    applying = scenario.start("apply", ".", "--yes", "--wait")
    until_line(applying.stderr, "evaluate waits for train")
    [train] = scenario.attempts("train")
    processes.kill([scenario.supervisors()[train.app_id]])
    pipeline.open()
    _, err = applying.communicate(timeout=60)
    assert applying.returncode == 5
    for job in ("train", "evaluate"):
        assert f"{job}: the process that would start it has died: launcher apply {job}.launcher.yaml" in err
    assert pipeline.states() == {"prepare": "succeeded", "train": "waiting", "evaluate": "waiting"}
    scenario.apply(".")
    scenario.wait("evaluate")
    assert pipeline.ran() == list(JOBS)


def ran(scenario) -> list[str]:
    log: Path = scenario.folder / "log"
    return log.read_text().split() if log.exists() else []


def test_a_plan_of_another_home_keeps_waiting_jobs(scenario, gate, tmp_path):
    scenario.apply(".")
    assert "no changes, 3 unchanged" in scenario.launcher("plan", ".", env=scenario.elsewhere).out
    done = scenario.launcher("apply", ".", "--yes", env=scenario.elsewhere)
    assert "no changes" in done.out + done.err
    listed = json.loads(scenario.launcher("list", "-s", "local_docker", "--json", env=scenario.elsewhere).out)
    shown = {each["app_id"]: (each["state"], each["message"]) for each in listed}
    for job, need in (("train", "prepare (running)"), ("evaluate", "train (waiting)")):
        assert shown[scenario.attempts(job)[0].app_id] == ("PENDING", f"waits for {need}")
    gate.open()
    scenario.wait("evaluate")
    assert ran(scenario) == list(JOBS)
    assert "no changes, 3 unchanged" in scenario.launcher("plan", ".", env=scenario.elsewhere).out


def test_the_next_apply_resumes_waiting_jobs_whose_watchers_have_died(scenario, gate):
    scenario.apply(".")
    waiting = {scenario.attempts(job)[-1].app_id for job in ("train", "evaluate")}
    scenario.kill_watchers()
    assert "has died: launcher apply" in scenario.launcher("status", "train").out
    assert scenario.launcher("list", "--json").out.count("has died: launcher apply") == len(waiting)
    assert scenario.actions(".") == {"prepare": "keep", "train": "resume", "evaluate": "resume"}
    scenario.apply(".")
    assert {scenario.attempts(job)[-1].app_id for job in ("train", "evaluate")} == waiting
    gate.open()
    scenario.wait("evaluate")
    assert ran(scenario) == list(JOBS)


def test_editions_that_another_home_counts_rerun_no_job(scenario, tmp_path):
    """A job of this engine needs a local job, whose editions each state folder counts for itself."""

    def prepare(word):
        roles = f"roles: {{main: {{entrypoint: echo, args: [{word}]}}}}"
        return scenario.write("prepare.launcher.yaml", f"version: 1\nname: prepare\n{roles}\n")

    prepare("one")
    scenario.job("true", name="train", top="needs: [prepare]")
    scenario.run_to_end(".")
    for word in ("two", "one"):
        scenario.launcher("apply", prepare(word), "--yes", "--wait", env=scenario.elsewhere)
    assert scenario.actions_elsewhere(".") == {"prepare": "keep", "train": "keep"}
    assert scenario.actions(".") == {"prepare": "keep", "train": "keep"}
    prepare("two")
    assert scenario.actions(".") == {"prepare": "create", "train": "rerun"}
