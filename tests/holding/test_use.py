"""The use of runs: cores, JSON, and records of an older version."""

from types import SimpleNamespace

import pytest

from launcher.holding import use as uses
from launcher.holding.use import PROCESS, Use
from tests.holding.histories import play


def test_the_cores_of_a_use_are_the_cores_of_its_busiest_run():
    use = Use((10.0, 2.0, 5, PROCESS), wall_s=6.0)
    use.add(Use((10.0, 0.0, 4, PROCESS), wall_s=10.0))
    assert (use.cores, use.cpu_s, use.wall_s, use.memory, use.runs) == (2.0, 22.0, 16.0, 5, 2)


def test_a_run_of_no_duration_keeps_no_core_busy():
    assert Use((1.0, 0.0, 0, "")).cores == 0.0


def test_the_duration_of_a_run_is_the_time_from_its_start_to_its_end():
    app, _ = play("a", "go; a/0; @2; a/0=0 use 3 1; quiet")
    assert (app.used["a"].wall_s, app.used["a"].cores) == (2.0, 2.0)
    assert app.replicas[0].use.cpu_s == 4.0


def test_a_run_below_a_second_has_its_own_duration_and_cores():
    use = Use((0.01, 0.0, 0, ""), wall_s=0.02)
    for _ in range(3):
        use.add(Use((0.0, 0.0, 0, "")))
    assert (use.wall_s, use.cores, use.has_cores) == (0.02, 0.5, True)
    app, _ = play("a", "go; a/0; a/0=0 use 3 1; quiet")
    assert app.used["a"].wall_s == 0.0


@pytest.mark.parametrize(
    ("highest", "floor", "peak", "measured"),
    [(2000, 1000, 0, (2000, PROCESS)), (1000, 1000, 0, (0, "")), (2000, 1000, 7, (7, "cgroup"))],
    ids=["a peak of its own", "no more than the process that forked it", "a peak of its cgroup"],
)
def test_the_memory_of_a_child_is_the_peak_of_its_cgroup_or_its_own(highest, floor, peak, measured):
    child = SimpleNamespace(ru_utime=1.25, ru_stime=0.5, ru_maxrss=highest)
    user_s, system_s, memory, source = uses.of_child(child, floor, peak)
    unit = 1 if peak else uses._UNIT
    assert (user_s, system_s, memory, source) == (1.25, 0.5, measured[0] * unit, measured[1])


def test_the_use_of_processes_that_outlived_their_replica_has_no_memory():
    assert uses.of_rest(0.25, 0.5) == [0.25, 0.5, 0, ""]
    assert uses.of_rest(0.0004, 0.0004) == []


def test_a_use_survives_its_round_trip_through_json():
    use = Use((1.5, 0.25, 2**30, "cgroup"), wall_s=2.0, runs=1)
    use.add(Use((0.5, 0.25, 0, ""), wall_s=8.0))
    found = uses.from_json(uses.to_json({"a": use, "": Use((0.1, 0.0, 0, ""))}))
    assert uses.to_json(found) == uses.to_json({"a": use, "": Use((0.1, 0.0, 0, ""))})
    assert uses.to_json(found)[""]["memory_bytes"] is None
    assert "cgroup" in repr(found["a"])


def test_the_memory_of_a_use_comes_from_its_best_source():
    use = Use()
    for source, memory in (("process", 9), ("samples", 8), ("accounting", 7), ("cgroup", 6)):
        before = use.source
        use.add(Use((0.0, 0.0, memory, source)))
        assert (use.source, use.memory) == (source, memory)
        use.add(Use((0.0, 0.0, 10, before)))
        assert (use.source, use.memory) == (source, memory)


def test_a_source_that_a_later_version_names_counts_least():
    use = Use((1.0, 0.0, 5, "ebpf"))
    use.add(Use((1.0, 0.0, 4, PROCESS)))
    assert (use.cpu_s, use.memory, use.source) == (2.0, 4, PROCESS)


@pytest.mark.parametrize(("cpu_s", "wall_s", "runs", "has_cores"), [
    (1.0, 0.009, 1, False), (0.0, 0.01, 1, True), (0.0, 0.02, 2, True), (0.0, 0.019, 2, False),
    (1.0, 0.5, 100, True),
])  # fmt: skip
def test_the_cores_of_runs_that_were_too_short_are_unknown(cpu_s, wall_s, runs, has_cores):
    assert Use((cpu_s, 0.0, 0, ""), wall_s, runs).has_cores is has_cores


@pytest.mark.parametrize("found", [{"a": {}}, {"a": None}, [1]])
def test_a_damaged_record_of_use_is_an_error(found):
    with pytest.raises(ValueError, match="no record of use"):
        uses.from_json(found)


def test_a_record_without_use_is_unknown():
    assert uses.from_json(None) == {}
    assert play("a", "go; a/0; a/0=0; quiet")[0].used == {}
