"""Jobs that need jobs run in order, are skipped with the reason, and end alike after SIGKILL at any point."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest

from launcher.apply.events import event_schema
from launcher.schedulers import pids
from launcher.schedulers.local import rundir
from tests import processes
from tests.lanes import sampled, seeds, thinned
from tests.scenario import until_line
from tests.scenarios.test_kill import killed

JOBS = ("prepare", "train", "evaluate")
STEPS = ["reserving", "reserved", "created", "starting", "started", "attempt_waiting", "recorded"]
KILLS = [("1", step) for step in STEPS] + [("2", step) for step in reversed(STEPS) if step != "started"]
"""The step of the first job, or of the second one, which does not start at once."""
pytestmark = pytest.mark.timeout(600)  # many applies in a row, beside other tests


class Pipeline:
    """prepare → train → evaluate: each appends its name to a log, and the first waits for a gate."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.log = scenario.folder / "log"
        self.gate = scenario.folder / "gate"
        self.write("prepare", f"until [ -e {self.gate} ]; do sleep 0.05; done")
        self.write("train", top="needs: [prepare]")
        self.write("evaluate", top="needs: [train]")

    def write(self, job, script="true", top=""):
        self.scenario.job(f"{script} && echo {job} >>{self.log}", name=job, top=top)

    def open(self):
        self.gate.touch()

    def ran(self):
        return self.log.read_text().split() if self.log.exists() else []

    def states(self):
        """Return the state of the latest attempt of each job."""
        return {job: self.scenario.attempts(job)[-1].state for job in JOBS}

    def kill_holder(self, job):
        """SIGKILL the process that holds a waiting job; return what commands then say of the job."""
        pid = self.scenario.supervisors()[self.scenario.attempts(job)[-1].app_id]
        processes.kill([pid])
        assert processes.gone([pid], timeout_s=20)
        return f"the process that would start it has died: launcher apply {job}.launcher.yaml"

    def finish(self):
        """Apply until everything has succeeded; every job has run once, and nothing is left."""
        self.open()
        self.scenario.run_to_end(".")
        assert self.states() == dict.fromkeys(JOBS, "succeeded")
        assert self.ran() == list(JOBS)
        assert [len(self.scenario.attempts(job)) for job in JOBS] == [1, 1, 1]
        assert self.scenario.actions(".") == dict.fromkeys(JOBS, "keep")
        assert self.scenario.supervisors() == {}
        assert sorted(self.scenario.apps()) == sorted(self.scenario.attempts(job)[0].app_id for job in JOBS)


@pytest.fixture
def pipeline(scenario):
    return Pipeline(scenario)


def test_one_apply_starts_all_jobs_of_a_pipeline_in_order(scenario, pipeline):
    done = scenario.apply(".")
    assert pipeline.states() == {"prepare": "running", "train": "waiting", "evaluate": "waiting"}
    assert "train waits for prepare" in done.err
    assert scenario.actions(".") == dict.fromkeys(JOBS, "keep")
    found = json.loads(scenario.launcher("status", "train", "--json").out)
    assert (found["state"], found["attempt_state"]) == ("PENDING", "waiting")
    assert found["message"] == "waits for prepare (running)"
    assert "waits for prepare (running)" in done.out
    waited = scenario.launcher("wait", "train", "--timeout", "1ms", code=5)
    assert waited.out.endswith(" WAITING: waits for prepare (running)\n")
    watching = scenario.start("status", "train", "--watch")
    assert until_line(watching.stderr, "train").endswith(" WAITING: waits for prepare (running)\n")
    pipeline.open()
    assert watching.wait() == 0
    scenario.wait("evaluate")
    assert pipeline.ran() == list(JOBS)
    pipeline.finish()


@pytest.mark.slow
def test_a_failed_job_skips_its_dependents_until_it_succeeds(scenario, pipeline):
    pipeline.write("train", "false", top="needs: [prepare]")
    pipeline.open()
    scenario.run_to_end(".", code=5)
    assert pipeline.states() == {"prepare": "succeeded", "train": "failed", "evaluate": "skipped"}
    waited = scenario.wait("evaluate", code=5)
    assert "SKIPPED: train failed" in waited.out
    text = scenario.launcher("status", "evaluate").out
    assert "train failed" in text
    assert "when train succeeds: launcher apply evaluate.launcher.yaml" in text
    assert scenario.actions(".") == {"prepare": "keep", "train": "hold", "evaluate": "hold"}
    row = {line.split()[0]: line for line in scenario.apply(".").out.splitlines()[-3:]}
    assert row["train"].endswith("main/0 exited with 1")
    assert "SKIPPED" in row["evaluate"]
    assert row["evaluate"].endswith("needs_failed (train: failed)")
    pipeline.write("train", top="needs: [prepare]")
    scenario.run_to_end(".")
    assert pipeline.ran() == list(JOBS)
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert [attempt.number for attempt in scenario.attempts("evaluate")] == [1, 2]


@pytest.mark.slow
def test_the_apply_that_is_named_can_be_typed_in_the_current_directory(scenario, pipeline):
    pipeline.write("train", "false", top="needs: [prepare]\ntargets: {prod: {description: other}}")
    for name in ("prepare", "evaluate"):
        text = (scenario.folder / f"{name}.launcher.yaml").read_text()
        (scenario.folder / f"{name}.launcher.yaml").write_text(f"{text}\ntargets: {{prod: {{}}}}\n")
    pipeline.open()
    scenario.run_to_end(".", "--target", "prod", code=5)
    below = scenario.folder / "below"
    below.mkdir()
    for folder, path in (
        (scenario.folder, "evaluate.launcher.yaml"),
        (below, "../evaluate.launcher.yaml"),
        (scenario.home, f"{scenario.folder}/evaluate.launcher.yaml"),
    ):
        text = scenario.launcher("status", "evaluate", "--target", "prod", cwd=folder).out
        assert f"when train succeeds: launcher apply {path} --target prod\n" in text


def test_describe_shows_the_attempts_that_a_waiting_attempt_needs(scenario, pipeline):
    scenario.apply(".")
    shown = scenario.launcher("describe", "train").out
    assert re.search(r"^  edition +1$", shown, re.M)
    assert re.search(r"^  needs +prepare@1 \(edition 1\)$", shown, re.M)
    [prepare] = scenario.attempts("prepare")
    [need] = json.loads(scenario.launcher("describe", "train", "--json").out)["needs"]
    assert need == {
        "job": "prepare", "attempt": 1, "edition": 1, "app_id": prepare.app_id,
        "scheduler": prepare.scheduler,
    }  # fmt: skip
    pipeline.finish()


@pytest.mark.slow
def test_logs_of_a_waiting_job_name_its_need_and_follow_the_job_from_its_start(scenario, pipeline):
    pipeline.write("train", "echo trained", top="needs: [prepare]")
    scenario.apply(".")
    for job, need in (("train", "prepare (running)"), ("evaluate", "train (waiting)")):
        got = scenario.launcher("logs", job)
        assert (got.out, got.err.strip()) == ("", f"{job} has not started: waits for {need}")
    following = scenario.start("logs", "train", "--follow")
    until_line(following.stderr, "train has not started: waits for prepare")
    pipeline.open()
    out, _ = following.communicate()
    assert (following.returncode, out) == (0, "trained\n")
    scenario.wait("evaluate")


def test_an_apply_that_follows_the_output_ends_with_a_skipped_job_whose_logs_say_why(scenario, pipeline):
    pipeline.write("train", "false", top="needs: [prepare]")
    pipeline.open()
    done = scenario.apply(".", "--wait", "--logs", code=5)
    assert "error:" not in done.err
    assert "SKIPPED" in done.out
    got = scenario.launcher("logs", "evaluate", "--follow")
    assert (got.out, got.err.strip()) == ("", "evaluate was skipped: train failed")


@pytest.mark.slow
def test_an_apply_that_waits_reports_the_start_of_a_waiting_job_before_its_output(scenario, pipeline):
    pipeline.write("train", "echo trained", top="needs: [prepare]")
    applying = scenario.start("apply", ".", "--yes", "--wait", "--logs", "--format", "jsonl")
    until_line(applying.stdout, '"attempt_waiting"')
    pipeline.open()
    out, _ = applying.communicate()
    events = [json.loads(line) for line in out.splitlines()]
    of_train = [event["event"] for event in events if event.get("job") == "train"]
    assert [name for name in of_train if name in ("started", "log", "ended")] == ["started", "log", "ended"]
    for event in events:
        jsonschema.Draft202012Validator(event_schema()).validate(event)


@pytest.mark.slow
def test_the_summary_of_an_apply_reports_a_dead_holder_of_a_waiting_job(scenario, pipeline):
    applying = scenario.start("apply", ".", "--yes", "--wait")
    until_line(applying.stderr, "evaluate waits for train")
    why = pipeline.kill_holder("evaluate")
    pipeline.open()
    out, err = applying.communicate()
    assert applying.returncode == 5
    [row] = [line for line in out.splitlines() if line.startswith("evaluate ")]
    assert row.endswith(why)
    assert f"evaluate: {why}" in err.splitlines()
    pipeline.finish()


@pytest.mark.slow
def test_an_apply_does_not_wait_for_jobs_behind_a_job_whose_holder_has_died(scenario, pipeline):
    applying = scenario.start("apply", ".", "--yes", "--wait")
    until_line(applying.stderr, "evaluate waits for train")
    why = pipeline.kill_holder("train")
    pipeline.open()
    out, err = applying.communicate(timeout=60)
    assert applying.returncode == 5
    [row] = [line for line in out.splitlines() if line.startswith("evaluate ")]
    assert row.endswith("waits for train (waiting, and its process has died)")
    assert f"train: {why}" in err
    assert pipeline.states() == {"prepare": "succeeded", "train": "waiting", "evaluate": "waiting"}
    scenario.apply("train.launcher.yaml")
    scenario.wait("evaluate")
    assert pipeline.ran() == list(JOBS)


def test_a_job_reads_the_output_folder_of_every_job_of_a_matrix(scenario):
    """LAUNCHER_NEEDS has the folders as the program sees them."""
    matrix = "matrix: {lr: [1, 3, 2]}"
    scenario.job("echo $<matrix.lr> >$LAUNCHER_OUTPUT_DIR/score", name="sweep", top=matrix)
    folders = """$(echo "$LAUNCHER_NEEDS" | grep -o '"/[^"]*"' | tr -d '"')"""
    script = f"for folder in {folders}; do cat $folder/score; done | sort | tr -d '\n'"
    scenario.job(script, name="best", top="needs: [sweep]")
    scenario.run_to_end(".")
    assert scenario.logs("best", "--no-prefix") == "123"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "step"), thinned(KILLS, every=2))
def test_the_next_apply_finishes_the_work_of_a_client_killed_at_a_named_step(
    scenario, pipeline, step, number
):
    assert killed(scenario, "step", step, number, argv=["apply", ".", "--yes"])
    pipeline.finish()


@pytest.mark.slow
@pytest.mark.parametrize("victim", sampled(JOBS[1:], "train"))
def test_a_waiting_attempt_whose_supervisor_was_killed_is_resumed_under_its_number(
    scenario, pipeline, victim
):
    scenario.apply(".")
    why = pipeline.kill_holder(victim)
    assert why in scenario.launcher("wait", victim, "--timeout", "60s", code=5, timeout_s=30).out
    assert json.loads(scenario.launcher("status", victim, "--json").out)["message"] == why
    listed = json.loads(scenario.launcher("list", "--json").out)
    assert why in [each["message"] for each in listed]
    assert scenario.actions(".")[victim] == "resume"
    scenario.apply(".")
    assert pipeline.states() == {"prepare": "running", "train": "waiting", "evaluate": "waiting"}
    pipeline.finish()


@pytest.mark.slow
def test_a_wait_ends_and_names_the_apply_where_the_holder_of_its_job_dies_meanwhile(scenario, pipeline):
    scenario.apply(".")
    waiting = scenario.start("wait", "train", "--timeout", "60s")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(3)
    why = pipeline.kill_holder("train")
    out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 5
    assert why in out
    scenario.apply(".")
    pipeline.finish()


def after_a_reboot(scenario):
    """Make the records of live apps those of another boot, as a power cut leaves them; reuse their pid."""
    stranger = scenario.spawn(["sleep", "1000"])
    left = {app_id: scenario.processes_of(app_id) for app_id in scenario.supervisors()}
    pids_ = [pid for each in left.values() for pid in each]
    for pid in pids_:  # all at once: a holder that outlives its need skips what waits
        with suppress(ProcessLookupError):  # such as a `sleep` of a replica
            os.kill(pid, signal.SIGSTOP)
    processes.kill(pids_)
    assert processes.gone(pids_, timeout_s=60)
    for app_id in left:
        path = Path(rundir.events(str(scenario.home / "local/apps" / app_id)))
        first, end, rest = path.read_text().partition("\n")
        now = {"pid": stranger.pid, "start": pids.start_time(stranger.pid), "boot": "before"}
        assert now.keys() <= json.loads(first).keys()
        path.write_text(json.dumps({**json.loads(first), **now}, separators=(",", ":")) + end + rest)
    return stranger


@pytest.mark.slow
def test_a_waiting_attempt_is_resumed_under_its_number_after_a_reboot(scenario, pipeline):
    """`prepare` succeeded just before the reboot, and `train` was not started any more."""
    scenario.apply(".")
    waiting = [scenario.attempts(job)[-1].app_id for job in JOBS[1:]]
    holders = [scenario.supervisors()[app_id] for app_id in waiting]
    for pid in holders:
        os.kill(pid, signal.SIGSTOP)
    pipeline.open()
    scenario.wait("prepare")
    stranger = after_a_reboot(scenario)
    assert scenario.actions(".") == {"prepare": "keep", "train": "resume", "evaluate": "resume"}
    scenario.run_to_end(".")
    assert stranger.poll() is None
    assert [scenario.attempts(job)[-1].app_id for job in JOBS[1:]] == waiting
    pipeline.finish()


def test_a_waiting_job_can_be_cancelled_after_a_reboot(scenario, pipeline):
    scenario.apply(".")
    stranger = after_a_reboot(scenario)
    scenario.cancel("train")
    assert scenario.attempts("train")[-1].state == "cancelled"
    assert stranger.poll() is None


@pytest.mark.slow
def test_jobs_that_wait_for_a_job_lost_in_a_reboot_run_again_with_it(scenario, pipeline):
    scenario.apply(".")
    stranger = after_a_reboot(scenario)
    assert scenario.actions(".") == dict.fromkeys(JOBS, "hold")
    pipeline.open()
    scenario.run_to_end(".", "--retry-failed")
    assert stranger.poll() is None
    assert pipeline.ran() == list(JOBS)
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert [each.state for each in scenario.attempts("prepare")] == ["lost", "succeeded"]


@pytest.mark.slow
@pytest.mark.parametrize("event", sampled(["created", "waiting", "met", "starting"], "waiting", "met"))
def test_the_next_applies_finish_the_work_of_supervisors_that_die_at_an_event(scenario, pipeline, event):
    """An attempt whose supervisor died after `starting` is lost: its processes may have begun."""
    pipeline.open()
    trap = [sys.executable, "-m", "tests.kill_at", "record", event, "1"]
    scenario.spawn([*trap, "--", "apply", ".", "--yes", "--wait"]).communicate()
    for _ in range(4):  # a job, its leftover, and those behind it
        if scenario.launcher("apply", ".", "--yes", "--wait", "--retry-failed", code=None).code == 0:
            break
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert sorted(set(pipeline.ran())) == sorted(JOBS)
    assert scenario.supervisors() == {}


def overlaps(spans):
    """Return the runs that began before an earlier run had ended, by the lines `begin ID` and `end ID`.

    A run that never ended was stopped: then it counts as ended when the next one began.
    """
    lines = [tuple(line.split()) for line in spans.splitlines()]
    at_once, live = [], set()
    for at, (what, app_id) in enumerate(lines):
        if what == "begin":
            live = {each for each in live if ("end", each) in lines[at:]}
            at_once += [(each, app_id) for each in live]
            live.add(app_id)
        else:
            live.discard(app_id)
    return at_once


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_applies_finish_the_work_after_random_kills_of_clients_and_supervisors(scenario, pipeline, seed):
    """After any kills each job succeeds, no job runs twice at once, and no process is left.

    Each seed is one pipeline with up to eight SIGKILLs, four on average: of the client, and of supervisors
    that run or wait. CI takes two seeds. By hand, for about 500 kills, each test with its number:

        LAUNCHER_KILL_SEEDS=0-124 pytest -m '' -n 2 -rP tests/scenarios/test_needs.py -k random_kills

    Watchers are killed by tests/scenarios/docker/test_random_kills.py.
    """
    chance = random.Random(seed)
    folder = scenario.folder
    for job, needed in zip(JOBS, ("", "needs: [prepare]", "needs: [train]"), strict=True):
        line = f"$<app_id> >>{folder}/{job}.spans"
        alone = f"exec 9>{folder}/{job}.lock; type flock && {{ flock -n 9 || echo {job} >>{folder}/twice; }}"
        pipeline.write(job, f"echo begin {line}; {alone}; sleep 0.3; echo end {line}", top=needed)
    kills = 0
    for _ in range(4):
        process = scenario.start("apply", ".", "--yes", "--wait", "--retry-failed")
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.2, 2.5))
        holders = sorted(scenario.supervisors().values())
        if holders and chance.random() < 0.7:
            processes.kill([chance.choice(holders)])
            kills += 1
        process.kill()
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    print(f"{kills} kills")
    for _ in range(6):
        if scenario.launcher("apply", ".", "--yes", "--wait", "--retry-failed", code=None).code == 0:
            break
    assert pipeline.states() == dict.fromkeys(JOBS, "succeeded")
    assert not (folder / "twice").exists()
    for job in JOBS:
        assert not overlaps((folder / f"{job}.spans").read_text())
    assert scenario.supervisors() == {}
    recorded = sorted(each.app_id for job in JOBS for each in scenario.attempts(job))
    assert scenario.apps() == recorded
    assert [scenario.processes_of(app_id) for app_id in recorded] == [[]] * len(recorded)
    assert scenario.actions(".") == dict.fromkeys(JOBS, "keep")


# The set of needs


def summing(scenario, values):
    """The matrix `a`, each job of which writes its value, and `sum`, which adds up those of its needs."""
    value = f"{scenario.folder}/$<job.name>"
    scenario.job(f"echo $<matrix.n> >{value}", name="a", top=f"matrix: {{n: {values}}}")
    jobs = "printenv LAUNCHER_NEEDS | grep -o 'a-[0-9]*' | sort -u"
    scenario.job(f"cd {scenario.folder}; {jobs} | xargs cat | paste -sd+ >sum", name="sum", top="needs: [a]")


def stood_on(scenario):
    """Return the needs of each attempt of `sum`."""
    return [[need.job for need in attempt.needs] for attempt in scenario.attempts("sum")]


@pytest.mark.slow
def test_a_job_has_the_same_needs_whichever_job_files_are_planned(scenario):
    scenario.write("launcher.toml", "")
    summing(scenario, "[0, 1]")
    scenario.run_to_end(".")
    for files in (["."], ["sum.launcher.yaml"]):
        paths = [scenario.folder / file for file in files]
        assert scenario.actions(*paths)["sum"] == "keep"
        assert scenario.actions(*paths, "--select", "sum")["sum"] == "keep"
    summing(scenario, "[1]")
    assert scenario.actions(scenario.folder / "sum.launcher.yaml") == {"sum": "rerun"}
    (scenario.folder / "a.launcher.yaml").write_text("version: 1\nname: a\nmatrix: {n: [")
    shown = scenario.plan(scenario.folder / "sum.launcher.yaml")
    assert "its needs are not compared with those on record: " in shown
    assert scenario.actions(scenario.folder / "sum.launcher.yaml") == {"sum": "keep"}
    assert scenario.actions(scenario.folder / "sum.launcher.yaml", "--rerun", "sum") == {"sum": "hold"}
    assert stood_on(scenario) == [["a-0", "a-1"]]


@pytest.mark.slow
def test_an_added_need_keeps_a_running_job_and_resubmits_a_waiting_job(scenario, pipeline):
    for job in ("other", "more"):
        scenario.job("true", name=job)
    scenario.run_to_end(scenario.folder / "other.launcher.yaml", scenario.folder / "more.launcher.yaml")
    pipeline.write("prepare", f"until [ -e {pipeline.gate} ]; do sleep 0.05; done")
    scenario.apply(".")
    pipeline.write("prepare", f"until [ -e {pipeline.gate} ]; do sleep 0.05; done", top="needs: [other]")
    pipeline.write("train", top="needs: [prepare, more]")
    shown = scenario.plan(".")
    assert "note: out of date once it has ended: it now also needs other" in shown
    scenario.apply(".")
    assert pipeline.states() == {"prepare": "running", "train": "waiting", "evaluate": "waiting"}
    assert [attempt.state for attempt in scenario.attempts("train")] == ["skipped", "waiting"]
    pipeline.open()
    scenario.wait("evaluate")
    actions = scenario.actions(".")
    assert [actions[job] for job in JOBS] == ["rerun", "rerun", "rerun"]
    scenario.run_to_end(".")
    assert set(scenario.actions(".").values()) == {"keep"}
    assert pipeline.ran() == [*JOBS, *JOBS]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_the_recorded_needs_match_the_job_files_after_each_edit_and_apply(scenario, seed):
    """Any needs of the matrix `a`, of its jobs and of `b`, with and without `rerun: never`."""
    chance = random.Random(seed)
    values, needs = [0, 1], {"b": {}, "sum": {}}
    for _ in range(12):
        if chance.random() < 0.5:
            values = sorted(chance.sample(range(5), chance.randint(1, 3)))
        job = chance.choice(["b", "sum"])
        names = ["a", *(f"a-{n}" for n in values), *(["b"] if job == "sum" else [])]
        needs[job] = {name: chance.random() < 0.3 for name in chance.sample(names, chance.randint(0, 2))}
        for of in needs.values():  # no job of the matrix that it has no more
            for name in [*of]:
                if name.startswith("a-") and name not in names:
                    del of[name]
        scenario.job("true", name="a", top=f"matrix: {{n: {values}}}")
        for name, of in needs.items():
            listed = ", ".join(f"{need}: {{{'rerun: never' if never else ''}}}" for need, never in of.items())
            scenario.job("true", name=name, top=f"needs: {{{listed}}}")
        scenario.run_to_end(".")
        assert set(scenario.actions(".").values()) == {"keep"}
        for name, of in needs.items():
            asked = dict.fromkeys(map("a-{}".format, values), of["a"]) if "a" in of else {}
            asked |= {need: never for need, never in of.items() if need != "a"}
            last = scenario.attempts(name)[-1]
            recorded = {need.job: need.edition for need in last.needs}
            never = {need for need in asked if asked[need]} | (set(last.order_only) - asked.keys())
            editions = {need: scenario.attempts(need)[-1].edition for need in asked}
            assert {need: recorded.get(need) for need in recorded.keys() - never} == {
                need: editions[need] for need in asked.keys() - never
            }
