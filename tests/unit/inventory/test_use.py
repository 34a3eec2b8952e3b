"""Suggested amounts, and the attempts that a suggestion is based on."""

import math

import pytest

from launcher.holding.use import Use
from launcher.inventory.use import Sample, judge, uses
from tests.unit.cli.worlds import record
from tests.unit.state.attempts import attempt, key

GIB = 2**30


def samples(*values: float, source: str = "", is_whole: bool = True) -> list[Sample]:
    return [Sample(value, source, is_whole) for value in values]


@pytest.mark.parametrize(("name", "asked", "values", "suggested"), [
    # memory: a quarter more than the highest, where that is three quarters or less
    ("memory_bytes", 64 * GIB, (8 * GIB, 9 * GIB), 12 * GIB),
    ("memory_bytes", 16 * GIB, (9 * GIB, 9 * GIB), 12 * GIB),
    ("memory_bytes", 15 * GIB, (9 * GIB, 9 * GIB), None),
    ("memory_bytes", 64 * GIB, (60 * GIB, 1 * GIB), None),
    ("memory_bytes", GIB, (1, 1), 64 * 2**20),
    ("memory_bytes", 1000 * GIB, (101 * GIB, 100 * GIB), 128 * GIB),
    # … and more, where two attempts used more than they asked for
    ("memory_bytes", 4 * GIB, (5 * GIB, 6 * GIB), 8 * GIB),
    # cores
    ("cpu_millis", 8000, (1700, 1800), 3000), ("cpu_millis", 4000, (1700, 1800), None),
    ("cpu_millis", 2000, (1, 2), 1000), ("cpu_millis", 1000, (1, 2), None), ("cpu_millis", 500, (1, 2), None),
    ("cpu_millis", 2000, (3900, 4000), 6000), ("cpu_millis", 2000, (2100, 2150), None),
    # a time limit is lowered alone
    ("timeout_s", 86400, (3000, 3600), 7200),
    ("timeout_s", 86400, (1, 2), 600),
    ("timeout_s", 7200, (3000, 3600), None),
    ("timeout_s", 10, (20, 20), None),
    # nothing was asked for
    ("memory_bytes", None, (1, 1), None),
    ("memory_bytes", 64 * GIB, (), None),
])  # fmt: skip
def test_an_amount_is_suggested_with_headroom(name, asked, values, suggested):
    source = "cgroup" if name == "memory_bytes" else ""
    assert judge(name, asked, samples(*values, source=source)) == (suggested, "")


@pytest.mark.parametrize("source", ["process", "samples"])
def test_memory_that_may_have_been_more_makes_no_suggestion(source):
    suggested, reason = judge("memory_bytes", 64 * GIB, samples(GIB, GIB, source=source))
    assert (suggested, bool(reason)) == (None, True)
    assert judge("memory_bytes", GIB, samples(GIB, GIB, source=source)) == (None, "")


def test_a_suggestion_needs_two_attempts_that_agree():
    assert judge("cpu_millis", 8000, samples(1000)) == (None, "2 attempts have to agree, and 1 has succeeded")
    failed = samples(1000, 1000, 1000, is_whole=False)
    assert judge("cpu_millis", 8000, failed)[0] is None, "they may have ended too soon"
    assert judge("cpu_millis", 8000, [*failed, *samples(900, 1100)])[0] == 2000
    assert judge("cpu_millis", 8000, [*samples(900, 1100), *samples(9000, is_whole=False)])[0] is None


@pytest.mark.parametrize("asked", [*range(1, 130, 7)])
def test_a_suggestion_is_never_below_the_highest_use(asked):
    for used in (0.01, 0.5, 1, 3.9, 17, 31, 33, 120):
        for name, unit, source in (("memory_bytes", GIB, "cgroup"), ("cpu_millis", 1000, "")):
            found, _ = judge(name, asked * unit, samples(used * unit, used * unit, source=source))
            assert found is None or (found >= used * unit and math.isfinite(found))


def ran(number: int, gib: float, source: str = "cgroup", asked: int = 64, **more):
    document = {
        "scheduler": "local_cwd",
        "roles": [{"name": "main", "entrypoint": "a", "resource": {"memory_bytes": asked * GIB}}],
    }
    more = {"state": "succeeded", "started_at": 10.0, "ended_at": 20.0, "document": document, **more}
    used = {"main": Use((5.0, 0.0, int(gib * GIB), source), wall_s=10.0), "gone": Use()}
    return attempt(more.pop("job", "train"), number, used=used, digest=f"d{number}", **more)


def memory_of(found):
    (job,) = found
    return next(amount for amount in job.amounts if amount.name == "memory_bytes")


def test_the_newest_attempt_gives_the_requested_amounts(launcher_home):
    record(ran(1, 9, asked=32), ran(2, 8))
    memory = memory_of(uses(0.0)[0])
    assert (memory.asked, memory.highest, memory.suggested) == (64 * GIB, 9 * GIB, 12 * GIB)
    assert uses(0.0)[0][0].attempts == 2


def test_only_attempts_of_the_period_and_of_the_jobs_asked_for_count(launcher_home):
    record(ran(1, 30), ran(2, 8), ran(1, 5, job="other"), ran(1, 5, job=key(project="else")))
    assert memory_of(uses(1001.5)[0]).highest == 8 * GIB
    found, total = uses(0.0, [key("other")])
    assert ([each.name for each in found], total) == (["other"], 1)
    assert [each.project for each in uses(0.0, project="else")[0]] == ["else"]
    assert uses(0.0, target="gpu") == ([], 0)
    found, total = uses(0.0, limit=1)
    assert (found[0].name, len(found), total) == ("train", 1, 3)
    assert uses(5000.0) == ([], 0)


def test_attempts_with_a_worse_measurement_do_not_count(launcher_home):
    record(ran(1, 30, "process"), ran(2, 8), ran(3, 9, "accounting"))
    memory = memory_of(uses(0.0)[0])
    assert (memory.highest, len(memory.samples), memory.suggested) == (9 * GIB, 2, 12 * GIB)


def test_attempts_that_run_or_never_ran_count_for_nothing(launcher_home):
    record(
        ran(1, 9), ran(2, 30, state="running", ended_at=None), ran(3, 30, state="skipped", started_at=None)
    )
    (job,), _ = uses(0.0)
    assert (job.attempts, memory_of([job]).highest) == (1, 9 * GIB)


def test_a_role_that_the_job_no_longer_has_gets_no_line(launcher_home):
    record(ran(1, 9), ran(2, 9))
    (job,), _ = uses(0.0)
    assert {amount.role for amount in job.amounts} == {"main", ""}
