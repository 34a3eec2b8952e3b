"""Jobs of one apply share a machine: the plan says so, they start in its order, and limits hold."""

import json
import os
import re

import pytest

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux"),
]

TWO_CORES = "[queue]\ncpu = 2\n"


class Sweep:
    """A matrix of jobs, each of which writes its begin and its end to one log, and waits for a gate."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.log = scenario.folder / "log"
        self.log.touch()
        self.gate = scenario.folder / "gate"

    def write(self, count, *, top="", resource="{cpu: 2}", name="sweep", script="", waits=False):
        waiting = f"until [ -e {self.gate} ]; do sleep 0.02; done; " if waits else ""
        begin, end = (f"echo {word} $<matrix.n> >>{self.log}" for word in ("begin", "end"))
        self.scenario.job(
            f"{begin}; {script}{waiting}{end}",
            name=name,
            top=f"matrix: {{n: {{range: [0, {count}]}}}}\n{top}",
            role=f"resource: {resource}",
        )

    def read(self):
        return [(word, int(n)) for word, n in map(str.split, self.log.read_text().splitlines())]

    def order(self):
        return [n for word, n in self.read() if word == "begin"]

    def most_at_once(self):
        running = most = 0
        for word, _ in self.read():
            running += 1 if word == "begin" else -1
            most = max(most, running)
        return most

    def states(self, count, name="sweep"):
        return [self.scenario.attempts(f"{name}-{n}")[-1].state for n in range(count)]


@pytest.fixture
def sweep(scenario):
    return Sweep(scenario)


def test_an_apply_accepts_and_reports_the_jobs_in_line_which_run_one_at_a_time_in_order(scenario, sweep):
    scenario.write("launcher.toml", TWO_CORES)
    sweep.write(3, waits=True)
    plan = scenario.plan("sweep.launcher.yaml")
    message = r"^turns: 3 jobs ask for 6 cores of [12]( of project default)?: 1 at a time, in this order$"
    assert re.search(message, plan, re.M), plan
    assert scenario.plan_document("sweep.launcher.yaml")["turns"][0] in plan
    lines = scenario.apply("sweep.launcher.yaml", "--format", "jsonl").out.splitlines()
    report = [json.loads(line) for line in lines]
    queued = [each for each in report if each["event"] == "attempt_queued"]
    assert {each["job"] for each in queued} == {"sweep-1", "sweep-2"}
    assert {(each["cpu"], each["memory_mb"], each["gpus"]) for each in queued} == {(2, 0, 0)}
    assert sweep.states(3) == ["running", "queued", "queued"]
    assert scenario.actions("sweep.launcher.yaml") == dict.fromkeys(("sweep-0", "sweep-1", "sweep-2"), "keep")
    sweep.gate.touch()
    scenario.wait("sweep")
    assert sweep.order() == [0, 1, 2]
    assert sweep.most_at_once() == 1
    assert sweep.states(3) == ["succeeded"] * 3


def test_a_matrix_may_limit_how_many_of_its_jobs_run(scenario, sweep):
    sweep.write(6, top="max_parallel: 2", resource="{}")
    assert "turns: 6 jobs of sweep: 2 at a time, in this order" in scenario.plan("sweep.launcher.yaml")
    scenario.run_to_end("sweep.launcher.yaml")
    assert sweep.most_at_once() <= 2
    assert sorted(sweep.order()) == list(range(6))
    scenario.job("true", name="alone", top="max_parallel: 2")
    refused = scenario.launcher("validate", "alone.launcher.yaml", code=6).out
    assert "alone.launcher.yaml:3:1" in refused


def test_an_apply_may_limit_how_many_of_its_jobs_run(scenario, sweep):
    sweep.write(5, resource="{}")
    done = scenario.run_to_end("sweep.launcher.yaml", "--parallel", "1")
    assert "turns: 5 jobs of this apply: 1 at a time, in this order" in done.out
    assert sweep.order() == list(range(5))
    assert sweep.most_at_once() == 1


VALUES = "matrix: {lr: [0.3, 0.1, 0.01, 1.5], include: [{lr: 0.002}]}\nmax_parallel: 1"


@pytest.mark.parametrize("saved", [False, True])
def test_jobs_run_in_the_order_of_their_files_and_of_the_values(scenario, sweep, saved):
    """The plan lists the jobs by name: 0.002, 0.01, 0.1, …"""
    scenario.job(f"echo $<matrix.lr> >>{sweep.log}", name="sweep", top=VALUES, role="resource: {cpu: 64}")
    scenario.job(f"echo first >>{sweep.log}", name="also", role="resource: {cpu: 64}")
    files = ["sweep.launcher.yaml", "also.launcher.yaml"]
    assert "1 at a time, in the order of the file" in scenario.plan(*files)
    if saved:
        scenario.plan(*files, "--out", "plan.json")
        scenario.launcher("apply", "plan.json", "--wait")
    else:
        scenario.run_to_end(*files)
    assert sweep.log.read_text().split() == ["0.3", "0.1", "0.01", "1.5", "0.002", "first"]


@pytest.mark.slow
def test_an_apply_submits_nothing_when_a_job_asks_for_more_gpus_than_there_are(scenario, monkeypatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "1")
    scenario.job("true", name="wide", role="resource: {gpu: 2}")
    scenario.job("true", name="narrow")
    assert scenario.actions(".") == {"wide": "hold", "narrow": "create"}
    refused = scenario.apply(".", code=3)
    assert "wide: asks for 2 GPUs, and this machine has 1" in refused.err
    assert scenario.apps() == []
    scenario.plan(".", "--out", "plan.json")
    scenario.launcher("apply", "plan.json", code=3)
    monkeypatch.setenv("LAUNCHER_GPUS", "2")
    scenario.plan(".", "--out", "later.json")
    monkeypatch.setenv("LAUNCHER_GPUS", "0")
    refused = scenario.launcher("apply", "later.json", code=3)
    assert "wide: asks for 2 GPUs, and this machine has none" in refused.err
    assert scenario.apps() == []
    monkeypatch.setenv("LAUNCHER_GPUS", "2")
    scenario.launcher("apply", "later.json", "--wait")


def test_an_apply_counts_gpus_only_when_a_job_asks_for_gpus(scenario, monkeypatch):
    counted = scenario.folder / "counted"
    text = f"#!/bin/sh\necho >{counted}\necho 'GPU 0: one (UUID: GPU-1)'\n"
    program = scenario.write("bin/nvidia-smi", text)
    program.chmod(0o755)
    monkeypatch.delenv("LAUNCHER_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    scenario.job("true", role="resource: {cpu: 1}")
    scenario.run_to_end("job.launcher.yaml")
    assert not counted.exists()
    scenario.job("true", role="resource: {gpu: 2}")
    assert "asks for 2 GPUs, and this machine has 1" in scenario.plan("job.launcher.yaml")
    assert counted.exists()
