"""A cluster refuses apps or ends them: partitions, nodes, memory, time."""

import pytest

from launcher.specs import AppState

EATS = "import time; held = bytearray(600 << 20); time.sleep(1000)"


def test_an_app_with_more_nodes_than_the_cluster_is_refused_or_waits_with_the_reason(scenario):
    """Slurm 22.05 accepts the job and waits: the cluster could grow."""
    applied = scenario.apply(scenario.job("true", replicas=9, top="cfg: {nodes: 9}"), code=None)
    if applied.code == 0:
        assert scenario.state("job") is AppState.PENDING
        assert [job.state for job in scenario.queue()] == ["PENDING"]
        scenario.cancel("job")
        assert scenario.state("job") is AppState.CANCELLED
    else:
        assert scenario.apps() == []
    assert scenario.left_in_queue() == []


def test_an_app_that_uses_more_memory_than_it_asked_for_has_failed(scenario):
    file = scenario.job(f"exec python3 -c '{EATS}'", role="resource: {memMB: 100}")
    scenario.run_to_end(file, code=None)
    assert scenario.state("job") is AppState.FAILED
    message = scenario.status("job")["message"]
    assert "memory" in message or "signal 9" in message


def test_a_replica_with_16_mb_of_memory_runs_beside_the_processes_of_launcher(scenario):
    scenario.run_to_end(scenario.job("sleep 5", role="resource: {memMB: 16}"))


@pytest.mark.slow
def test_an_app_that_reaches_the_time_limit_of_slurm_has_failed(scenario):
    file = scenario.job(
        "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done", top="cfg: {time: 1m, grace_s: 40}"
    )
    scenario.run_to_end(file, code=None)
    assert scenario.state("job") is AppState.FAILED
    assert "timed out after 1 min" in scenario.status("job")["message"]
    assert "bye" in scenario.logs("job")
