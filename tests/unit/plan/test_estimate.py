"""Estimates of the time and resources of jobs, their sums, and budgets that the sums exceed."""

import json
from dataclasses import replace

import pytest

from launcher.apply.approval import check_approved
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.plan_text import plan_text
from launcher.errors import BlockedError
from launcher.holding.use import Use
from launcher.plan.codec import PlanFileError, decode, dumps, encode, loads
from launcher.plan.estimate import Past, estimate, with_estimates
from launcher.plan.model import overruns, plan_exit_code, total_of
from launcher.plan.step import in_hours
from launcher.specs.app import AppDef, Resource, Role
from launcher.specs.launch import Budget, Launch
from tests.benchmarks.estimates import GOAL, Kind, generated
from tests.unit.plan.world import attempt, job, plan

HOUR = 3600.0


def asking(
    name: str = "train", *, gpu: int = 0, cpu: float = 0, replicas: int = 1, **fields: object
) -> Launch:
    launch = job(name)
    role = Role(
        name="trainer", image="", entrypoint="python", num_replicas=replicas,
        resource=Resource(cpu=cpu, gpu=gpu, memMB=0),
    )  # fmt: skip
    return replace(launch, app=AppDef(name=name, roles=[role]), **fields)


def past(*hours: float, digest: str = "d", cpu_s: float = 0.0, runs: int = 1) -> list[Past]:
    used = {"trainer": Use((cpu_s, 0.0, 0, ""), 1.0, runs)} if cpu_s else {}
    return [Past(digest, each * HOUR, used) for each in hours]


def starting(*launches: Launch, hours: float = 2.0):
    """Return a plan that runs the jobs again, with estimates by two successes each."""
    made = plan(list(launches), *(attempt(each, "failed", 3) for each in launches), retry_failed=True)
    digests = {step.key: step.digest for step in made.steps}
    return with_estimates(made, {key: past(hours, hours, digest=each) for key, each in digests.items()})


class TestTheEstimate:
    def test_one_success_gives_no_estimate(self):
        assert estimate(job(), "d", past(1)) is None

    def test_an_estimate_has_the_median_and_a_range_around_it(self):
        found = estimate(job(), "d", past(1, 2, 3))
        assert found.attempts == 3
        assert found.duration_s.median == pytest.approx(2 * HOUR)
        assert HOUR > found.duration_s.low > 0
        assert found.duration_s.high > 3 * HOUR

    def test_an_estimate_from_equal_durations_has_a_range(self):
        low, high = estimate(job(), "d", past(1, 1))[2][1:]
        assert 0.6 * HOUR < low < 0.9 * HOUR < 1.1 * HOUR < high < 1.6 * HOUR

    def test_the_newest_attempts_move_the_range_most(self):
        rising, falling = (estimate(job(), "d", past(*each)).duration_s for each in ([3, 2, 1], [1, 2, 3]))
        assert rising.low > falling.low
        assert rising.high > falling.high

    def test_only_successes_of_the_same_document_count_where_there_are_two(self):
        found = estimate(job(), "new", [*past(1, 1, digest="new"), *past(9, 9, 9, digest="old")])
        assert (found.attempts, found.same_document) == (2, True)
        assert found.duration_s.high < 2 * HOUR
        mixed = estimate(job(), "new", [*past(1, digest="new"), *past(9, 9, digest="old")])
        assert (mixed.attempts, mixed.same_document) == (3, False)

    def test_no_attempt_is_expected_to_outlast_the_time_limit(self):
        found = estimate(replace(job(), timeout_s=int(HOUR)), "d", past(0.9, 0.99))
        assert found.duration_s.high == HOUR

    def test_hours_are_computed_from_the_resources_of_the_current_document(self):
        found = estimate(asking(gpu=4, cpu=8, replicas=2), "d", past(2, 2))
        assert found.gpu_hours.median == pytest.approx(16)
        assert found.core_hours.median == pytest.approx(32)
        assert estimate(asking(), "d", past(2, 2)).gpu_hours is None

    def test_a_role_that_asks_for_no_cores_counts_the_cores_that_it_has_used(self):
        used = past(1, 1, cpu_s=2 * HOUR)
        assert estimate(asking(), "d", used).core_hours.median == pytest.approx(2)
        assert estimate(asking(), "d", past(1, 1)).core_hours is None

    def test_use_under_another_document_counts_for_each_replica(self):
        used = past(1, 1, cpu_s=2 * HOUR, runs=2)
        assert estimate(asking(replicas=4), "other", used).core_hours.median == pytest.approx(4)

    @pytest.mark.parametrize("took", [0.0, 1e-9, 1e9])
    def test_an_estimate_exists_for_durations_of_any_length(self, took):
        low, median, high = sorted(estimate(job(), "d", past(took, took)).duration_s)
        assert 0 < low <= median <= high

    def test_about_four_of_five_attempts_end_within_the_range(self):
        found = generated(120, seed=2)
        assert GOAL - 0.05 <= found.within <= GOAL + 0.08
        assert found.width < 2
        assert generated(30, seed=3, kind=Kind(0.05)).width < 1.5


class TestThePlan:
    def test_only_jobs_that_start_have_an_estimate(self):
        kept = plan(job(), attempt(job(), "succeeded", 2))
        digest = kept.steps[0].digest
        assert with_estimates(kept, {job().key: past(1, 1, digest=digest)}).steps[0].estimate is None

    def test_estimates_are_outside_of_digest_effects_and_comparison(self):
        made = starting(asking(gpu=1))
        bare = replace(made, steps=tuple(replace(step, estimate=None) for step in made.steps))
        assert made == bare
        assert (made.plan_digest, made.effects) == (bare.plan_digest, bare.effects)

    def test_a_saved_plan_keeps_estimates_and_budgets(self):
        made = starting(
            *(asking(name, gpu=2, cpu=0.7, budget=Budget(gpu_hours=3)) for name in "abc"), hours=1.234567
        ).stamped(plan_id="p", created_at=1e9)
        text = dumps(made)
        assert dumps(loads(text)) == text
        assert json.loads(text)["estimate"]["gpu_hours"]["median"] == pytest.approx(7.4, rel=0.01)
        assert json.loads(text)["over_budget"][0]["budget"] == 3
        assert loads(text).steps[0].launch.budget == Budget(gpu_hours=3)

    @pytest.mark.parametrize("wrong", ["x", -1, float("nan"), float("inf"), True, None, 10**400])
    def test_a_malformed_range_is_a_fault_of_a_saved_plan(self, wrong):
        data = encode(starting(asking()).stamped(plan_id="p", created_at=1e9))
        data["jobs"][0]["estimate"]["duration_s"]["low"] = wrong
        with pytest.raises(PlanFileError, match=r"duration_s\.low: want a number"):
            decode(data)

    def test_deviations_of_several_jobs_partly_cancel_out(self):
        one = total_of(starting(asking(gpu=1)).steps)
        four = total_of(starting(*(asking(f"train-{n}", gpu=1) for n in range(4))).steps)
        assert four.gpu_hours.median == pytest.approx(4 * one.gpu_hours.median)
        assert four.gpu_hours.high - four.gpu_hours.median == pytest.approx(
            2 * (one.gpu_hours.high - one.gpu_hours.median)
        )

    def test_text_and_comment_show_estimates_within_80_columns(self):
        made = starting(asking(gpu=8, cpu=4), asking("eval", cpu=2))
        lines = plan_text(made, columns=80).splitlines()
        assert "      about 2h00m (1h33m to 2h33m), 16 GPU-hours (13 to 20) by 2 attempts" in lines
        assert "Takes about 16 GPU-hours (13 to 20), 12 core-hours (10 to 15)" in lines
        assert all(len(line) <= 80 for line in lines)
        comment = plan_markdown(made)
        assert "### Plan: 2 to re-run; about 16 GPU-hours (13 to 20), 12 core-hours (10 to 15)\n" in comment
        assert "| 4 cores, 8 GPUs | about 2h00m (1h33m to 2h33m), 16 GPU-hours (13 to 20) |" in comment

    def test_the_total_names_the_number_of_jobs_without_an_estimate(self):
        made = starting(asking(gpu=8), asking("eval"))
        steps = (replace(made.steps[0], estimate=None), made.steps[1])
        assert "without 1 job of which too little is known" in plan_text(replace(made, steps=steps))

    def test_the_shared_line_of_matrix_jobs_has_the_sum_of_their_estimates(self):
        made = starting(*(asking(f"sweep-{n}", gpu=1, matrix="sweep") for n in range(12)))
        text = plan_text(made)
        assert "sweep (12 jobs): 12 rerun, about 24 GPU-hours" in text
        assert "by 2 attempts" not in text
        rows = [line for line in plan_markdown(made).splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


class TestBudgets:
    def test_a_plan_whose_median_exceeds_its_budget_is_blocked(self):
        made = starting(asking(gpu=2, budget=Budget(gpu_hours=3.9)))
        assert plan_exit_code(made) == 3
        with pytest.raises(BlockedError, match=r"exceeds its budget") as blocked:
            check_approved(made, allow_destructive=True, holds_alone=True)
        assert "default: about 4 GPU-hours, 0.1 more than its budget of 3.9" in str(blocked.value)
        assert "raise `gpu_hours` in [budget] of launcher.toml" in (blocked.value.hint or "")
        for shown in (plan_text(made), plan_markdown(made)):
            assert "locked" in shown
            assert "more than its budget" in shown

    def test_a_budget_that_is_met_blocks_nothing(self):
        made = starting(asking(gpu=2, budget=Budget(gpu_hours=4.1)))
        assert plan_exit_code(made) == 0
        check_approved(made, allow_destructive=True)

    def test_the_jobs_that_take_most_are_named(self):
        budget = Budget(core_hours=1)
        made = starting(*(asking(f"job-{n}", cpu=n, budget=budget) for n in range(1, 7)))
        (over,) = overruns(made.steps)
        assert [name for name, _ in over.costly] == ["job-6", "job-5", "job-4"]
        assert over.hours == pytest.approx(42)

    def test_each_target_has_a_budget_of_its_own(self):
        budget = Budget(gpu_hours=3)
        dev, prod = (asking(gpu=1, budget=budget, key=job(target=name).key) for name in ("dev", "prod"))
        assert overruns(starting(dev, prod).steps) == []
        both = starting(dev, replace(prod, budget=Budget(gpu_hours=1)))
        assert [each.target for each in overruns(both.steps)] == ["prod"]
        assert "[budget.prod]" in overruns(both.steps)[0].remedy

    def test_the_smallest_budget_of_several_files_counts(self):
        made = starting(asking(gpu=1, budget=Budget(gpu_hours=9)), asking("eval", budget=Budget(gpu_hours=1)))
        assert [each.budget for each in overruns(made.steps)] == [1]

    def test_a_budget_of_nothing_allows_no_job_that_takes_any(self):
        assert overruns(starting(asking(gpu=1, budget=Budget(gpu_hours=0))).steps)
        assert not overruns(starting(asking(budget=Budget(gpu_hours=0))).steps)


@pytest.mark.parametrize(
    ("value", "text"), [(0.012, "0.012"), (4.52, "4.5"), (9.96, "10"), (15.6, "16"), (12345.6, "12,346")]
)
def test_hours_have_two_digits_or_are_whole(value, text):
    assert in_hours(value) == text
