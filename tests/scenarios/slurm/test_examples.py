"""Every example with a target for Slurm plans as new, runs to success there, and plans as unchanged."""

import re
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.ports import free_port
from tests.scenarios.test_examples import EXAMPLES, assert_runs, job_of, why_not

OF_THEIR_OWN = ("anywhere", "pipeline", "allreduce")
"""Examples with a test of their own: here, or in test_pipeline.py."""


def on_slurm() -> list[str]:
    """Return the other examples with a target `slurm`."""
    found = []
    for file in sorted(EXAMPLES.rglob("*.launcher.yaml")):
        read = YAML(typ="safe", pure=True).load(file)
        if (
            file.parent.name not in OF_THEIR_OWN
            and read.get("targets", {}).get("slurm", {}).get("scheduler") == "slurm"
        ):
            found.append(str(file.relative_to(EXAMPLES)))
    return found


@pytest.fixture(autouse=True)
def _port(monkeypatch):
    """Give the examples a free port: the nodes of these clusters are one machine."""
    for name in ("ALLREDUCE_PORT", "SERVICE_PORT", "DASK_PORT"):
        monkeypatch.setenv(name, str(free_port()))


def copied(scenario, name: str) -> Path:
    shutil.copytree(EXAMPLES / name, scenario.folder / name)
    return scenario.folder / name


@pytest.mark.parametrize("name", on_slurm())
def test_an_example_succeeds_and_plans_as_unchanged_afterwards(scenario, name):
    if reason := why_not(job_of(EXAMPLES / name)):
        pytest.skip(reason)
    file = copied(scenario, name.partition("/")[0]) / name.rpartition("/")[2]
    assert_runs(scenario, file, "--target", "slurm")
    assert scenario.left_in_queue() == []


def test_the_anywhere_example_prints_the_same_on_this_machine_and_on_slurm(scenario):
    folder = copied(scenario, "anywhere")
    scenario.run_to_end(folder)
    assert_runs(scenario, folder / "anywhere.launcher.yaml", "--target", "slurm")
    for target in ("default", "slurm"):
        [attempt] = scenario.attempts("anywhere", target=target)
        message = scenario.launcher("logs", f"{attempt.app_id}/reader", "--no-prefix").out
        assert message == "replica 0 was here\n"


def test_the_replicas_of_allreduce_run_on_a_node_each_and_find_rank_0(scenario):
    folder = copied(scenario, "allreduce")
    assert_runs(scenario, folder / "allreduce.launcher.yaml", "--target", "slurm")
    [attempt] = scenario.attempts("allreduce", target="slurm")
    message = scenario.launcher("logs", attempt.app_id, "--no-prefix").out.splitlines()
    assert sorted(line.partition(" brought ")[2] for line in message) == [
        "1; the sum of all 2 is 5",
        "4; the sum of all 2 is 5",
    ]
    jobs = scenario.cluster.run("scontrol", "show", "job", "-o").splitlines()
    folder = scenario.job_dir / "apps" / attempt.app_id
    [job] = [line for line in jobs if f" WorkDir={folder} " in line]
    assert re.search(r" NumNodes=2 .* NumTasks=2 ", job), job
