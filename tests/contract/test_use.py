"""Contract: the record of an ended app has its CPU time and memory."""

from tests.contract.conftest import Case

BURN = "(ulimit -t 1; while :; do :; done) || true"
"""Ends with the first second of CPU time."""


def test_an_ended_app_has_the_cpu_time_that_it_used(case: Case) -> None:
    app_id = case.run(case.app(f"{BURN}; sleep {case.sampled_s}")).app_id
    seen = case.another().record(app_id)
    assert seen is not None
    use = seen.used["r"]
    assert use.runs == 1
    assert 0.7 <= use.cpu_s < 3.0, "the limit is counted in ticks of the kernel"
    assert 0.0 < use.cores <= 1.2
    assert (use.memory > 0) == bool(use.source)
    (replica,) = seen.replicas
    assert replica.use is not None
    assert replica.use.to_json() == use.to_json()
