"""Jobs in containers that need jobs: in order, after kills, and seen from other homes."""

import json
import os
from pathlib import Path

import pytest

from tests import processes
from tests.contract.test_holding import Gate
from tests.lanes import seeds
from tests.scenario import until_line
from tests.scenarios.test_needs import (  # noqa: F401
    JOBS,
    kill_at_random,
    pipeline,
    test_a_changed_waiting_job_is_withdrawn_and_submitted_again,
    test_a_failed_job_skips_its_dependents_until_it_succeeds,
    test_a_job_reads_the_output_folder_of_every_job_of_a_matrix,
    test_a_wait_ends_and_names_the_apply_where_the_holder_of_its_job_dies_meanwhile,
    test_a_wait_for_a_job_whose_holder_has_died_ends_and_names_the_apply_that_starts_it,
    test_an_apply_that_follows_the_output_ends_with_the_outcome_of_a_skipped_job,
    test_an_apply_that_waits_reports_the_start_of_a_waiting_job_before_its_output,
    test_describe_shows_the_attempts_that_a_waiting_attempt_needs,
    test_logs_of_a_skipped_job_show_why_the_job_was_skipped,
    test_logs_of_a_waiting_job_name_its_need_and_follow_the_job_from_its_start,
    test_one_apply_starts_all_jobs_of_a_pipeline_in_order,
    test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step,
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


@pytest.mark.parametrize("seed", seeds(1))
def test_applies_finish_the_work_after_random_kills_of_clients_and_watchers(scenario, pipeline, seed):  # noqa: F811
    kill_at_random(scenario, pipeline, seed)


def test_editions_that_another_home_counts_rerun_no_job(scenario, tmp_path):
    """A job of this engine needs a local job, whose editions each state folder counts for itself."""

    def prepare(word):
        roles = f"roles: {{main: {{entrypoint: echo, args: [{word}]}}}}"
        return scenario.write("prepare.launcher.yaml", f"version: 1\nname: prepare\n{roles}\n")

    def actions(env):
        plan = scenario.launcher("plan", ".", "--format", "json", env=env).out
        return {job["key"]["job"]: job["action"] for job in json.loads(plan)["jobs"]}

    prepare("one")
    scenario.job("true", name="train", top="needs: [prepare]")
    scenario.run_to_end(".")
    for word in ("two", "one"):
        scenario.launcher("apply", prepare(word), "--yes", "--wait", env=scenario.elsewhere)
    assert actions(scenario.elsewhere) == {"prepare": "keep", "train": "keep"}
    assert actions(dict(os.environ)) == {"prepare": "keep", "train": "keep"}
    prepare("two")
    assert actions(dict(os.environ)) == {"prepare": "create", "train": "rerun"}
