"""Every example is valid, plans as new, runs to success, and plans as unchanged afterwards."""

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.specs import AppState
from tests.ports import free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def in_containers(file):
    """Return whether an example needs a Docker engine: tests/scenarios/docker runs those."""
    return "local_docker" in file.read_text()


FILES = sorted(path for path in EXAMPLES.rglob("*.launcher.*") if not in_containers(path))


@functools.cache
def why_not(job: str) -> str:
    """Return why an example cannot run on this machine, "" when it can."""
    if job != "dask":
        return ""
    imported = subprocess.run(["python3", "-c", "import distributed"], capture_output=True, check=False)
    found = shutil.which("dask") and imported.returncode == 0
    return "" if found else "there is no Python package `distributed`"


@pytest.fixture(autouse=True)
def _ports(monkeypatch):
    """Ports of their own for the examples of servers, as tests run beside each other, and two GPUs."""
    monkeypatch.setenv("LAUNCHER_GPUS", "2")
    for name in ("SERVICE_PORT", "DASK_PORT", "ALLREDUCE_PORT"):
        monkeypatch.setenv(name, str(free_port()))


def job_of(file):
    return file.name.partition(".")[0]


def assert_runs(scenario, file, *on):
    """Check that an example is valid, plans as new, succeeds, and plans as unchanged; return its jobs.

    `on`: its target.
    """
    scenario.launcher("validate", file, *on)
    first = scenario.actions(file, *on)
    assert set(first.values()) == {"create"}
    assert all(job == job_of(file) or job.startswith(f"{job_of(file)}-") for job in first)
    scenario.run_to_end(file, *on)
    target = on[-1] if on else "default"
    ids = {attempt.app_id for job in first for attempt in scenario.attempts(job, target=target)}
    assert {scenario.state(app_id) for app_id in ids} == {AppState.SUCCEEDED}
    assert scenario.apps() == sorted(ids)
    assert scenario.actions(file, *on) == dict.fromkeys(first, "keep")
    scenario.plan(file, *on, "--detailed-exitcode", code=0)
    return set(first)


GREETING = [f"hello world, this is replica {k} of 2" for k in (0, 1)]
OUTPUT = {
    "hello": GREETING, "hello-toml": GREETING, "report": ["numbers: count 3", "numbers: sum 12"],
    "sweep-0p1-0": ["sweep-0p1-0: lr=0.1 seed=0"], "sweep-0p1-1": ["sweep-0p1-1: lr=0.1 seed=1"],
    "sweep-0p01-0": ["sweep-0p01-0: lr=0.01 seed=0"], "sweep-1-7": ["sweep-1-7: lr=1 seed=7"],
}  # fmt: skip
"""Job of an example → its lines of output, sorted."""


@pytest.mark.parametrize("file", FILES, ids=job_of)
def test_an_example_succeeds_and_plans_as_unchanged_afterwards(scenario, file):
    jobs = assert_runs(scenario, file)
    for job in jobs & OUTPUT.keys():
        assert sorted(scenario.logs(job, "--no-prefix").splitlines()) == OUTPUT[job]
    if job_of(file) == "sweep":
        assert jobs == {job for job in OUTPUT if job.startswith("sweep-")}
    if job_of(file) == "stream":
        assert "the sum of the squares is 385" in scenario.logs("stream/sum")
    if job_of(file) == "retry":
        tries = [line for line in scenario.logs("retry").splitlines() if "try number" in line]
        assert [line[-1] for line in tries] == ["1", "2", "3"]


@pytest.mark.slow
def test_all_examples_can_be_applied_together(scenario):
    scenario.run_to_end(*FILES)
    assert set(scenario.actions(*FILES).values()) == {"keep"}


@pytest.mark.slow
def test_the_allreduce_example_sums_the_numbers_of_all_replicas(scenario):
    scenario.run_to_end(EXAMPLES / "allreduce", "--var", "replicas=3")
    ends = [line.partition(" brought ")[2] for line in scenario.logs("allreduce", "--no-prefix").splitlines()]
    assert sorted(ends) == [f"{own}; the sum of all 3 is 14" for own in (1, 4, 9)]


def test_the_report_example_prints_less_under_a_target(scenario):
    scenario.run_to_end(EXAMPLES / "report", "--target", "fast")
    [attempt] = scenario.attempts("report", target="fast")
    assert scenario.logs(attempt.app_id, "--no-prefix").splitlines() == ["in short: sum 12"]


@pytest.mark.slow
def test_the_gpu_example_deals_each_gpu_to_one_job_at_a_time(scenario):
    """Six jobs on two GPUs. Each takes the lock of its GPU, which fails where another job has it."""
    text = (EXAMPLES / "gpu" / "gpu.launcher.yaml").read_text()
    message = 'echo "$<job.name> has GPU $CUDA_VISIBLE_DEVICES"'
    assert message in text
    taken = 'mkdir "taken-$CUDA_VISIBLE_DEVICES" && %s && rmdir "taken-$CUDA_VISIBLE_DEVICES"'
    file = scenario.write("gpu.launcher.yaml", text.replace(message, taken % message))
    scenario.run_to_end(file)
    lines = [scenario.logs(f"gpu-{seed}", "--no-prefix").split() for seed in range(6)]
    assert [line[:-1] for line in lines] == [[f"gpu-{seed}", "has", "GPU"] for seed in range(6)]
    assert {line[-1] for line in lines} <= {"0", "1"}
