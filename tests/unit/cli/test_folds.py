"""Large matrices in plans and tables: equal jobs share a line, and nothing that matters is hidden."""

import re
from dataclasses import replace

import pytest

from launcher.apply.events import Outcome
from launcher.cli.arguments import attempts
from launcher.cli.render.apps import apps_table
from launcher.cli.render.markdown import plan_markdown
from launcher.cli.render.outcomes import outcomes_text
from launcher.cli.render.plan_text import plan_text
from launcher.specs import Launch
from launcher.specs.launch import JobKey
from launcher.state.records import AppRecord
from launcher.text import FEW
from tests.unit.cli.worlds import attempt, launch, plan

MANY = 30


def member(number: int, **fields: object) -> Launch:
    return replace(launch(f"sweep-{number:02}", **fields), matrix="sweep")


def family(count: int = MANY) -> list[Launch]:
    return [member(number) for number in range(count)]


def test_the_new_jobs_of_a_large_matrix_share_one_line_with_the_command_of_the_first() -> None:
    text = plan_text(plan(family()))
    assert text.splitlines()[:2] == [
        "+   sweep (30 jobs): 30 create",
        "+     sweep-00 and 29 more  create: no attempt of this job is on record",
    ]
    assert "sweep-07" not in text
    assert text.endswith(plan(family()).plan_digest)


def test_the_heading_of_a_comment_keeps_its_title_above_the_rows_of_a_large_matrix() -> None:
    text = plan_markdown(plan(family()), title="vision.prod · ")
    assert text.splitlines()[1].startswith("### vision.prod · ")
    assert "\n| | sweep (30 jobs) |" in text


def test_a_small_matrix_and_a_plan_in_full_are_not_folded() -> None:
    few = plan(family(FEW))
    assert plan_text(few) == plan_text(few, in_full=True)
    shown = plan_text(plan(family()), in_full=True)
    assert all(f"sweep-{number:02}  create" in shown for number in range(MANY))


def test_thousands_of_jobs_are_counted_with_separators_in_every_line() -> None:
    done = [attempt(each, "succeeded") for each in family(1200)]
    created, unchanged = plan(family(1200)), plan(family(1200), done)
    assert plan_text(created).splitlines()[0] == "+   sweep (1,200 jobs): 1,200 create"
    assert created.summary() == "Plan: 1,200 to create"
    assert plan_text(unchanged).splitlines()[0] == "=   1,200 jobs unchanged, already succeeded: sweep"
    assert [text for text in map(plan_text, (created, unchanged)) if "1200 " in text] == []


def test_unchanged_members_are_counted_with_the_others() -> None:
    done = [attempt(each, "succeeded") for each in family(MANY - 12)]
    text = plan_text(plan(family(), done))
    assert "sweep (30 jobs): 12 create, 18 unchanged" in text
    assert "18 jobs unchanged" not in text


def test_unchanged_jobs_of_a_large_matrix_are_named_by_the_matrix() -> None:
    def lines(launches: list[Launch]) -> list[str]:
        return plan_text(plan(launches, [attempt(each, "succeeded") for each in launches])).splitlines()

    assert lines(family())[0] == "=   30 jobs unchanged, already succeeded: sweep"
    mixed = lines([*family(), launch("other")])
    assert mixed[0] == "=   31 jobs unchanged, already succeeded: other, sweep (30)"
    assert lines(family(2))[0] == "=   2 jobs unchanged, already succeeded: sweep-00, sweep-01"


def test_each_job_that_stops_something_or_is_held_is_shown_whatever_is_folded() -> None:
    live = [attempt(member(3), "running"), attempt(member(4), "failed")]
    changed = [member(number, args=("2",), on_change="replace") for number in range(MANY)]
    text = plan_text(plan(changed, live))
    assert f"stops {live[0].app_id} (running)" in text
    assert "sweep-04" in text
    assert "sweep-05" not in text
    markdown = plan_markdown(plan(changed, live))
    assert f"stops {live[0].app_id} (running)" in markdown
    assert "sweep-04" in markdown
    assert "sweep-05" not in markdown


def test_many_held_jobs_are_shown_up_to_a_bound_and_then_counted() -> None:
    text = plan_text(plan(family(), [attempt(each, "failed") for each in family()]))
    assert sum(line.startswith("!     sweep-") for line in text.splitlines()) == FEW
    assert "and more: 20 held" in text
    assert "sweep (30 jobs): 30 held" in text


def test_jobs_that_change_in_different_fields_have_separate_lines() -> None:
    before = [attempt(each, "succeeded") for each in family()]
    after = [member(n, args=("2",)) if n % 2 else member(n, env={"A": "1"}) for n in range(MANY)]
    text = plan_text(plan(after, before))
    assert "sweep-00 and 14 more" in text
    assert "sweep-01 and 14 more" in text


def test_the_other_jobs_of_a_plan_keep_their_lines() -> None:
    text = plan_text(plan([*family(), launch("train")]))
    assert "+   train" in text


def outcome(number: int, state: str = "queued", error: str = "") -> Outcome:
    name = f"sweep-{number:02}"
    app = AppRecord("local_cwd", "p", f"{name}-1-k3fwx", name=name, number=1, state=state)
    return Outcome(key=JobKey("p", "default", name), kind="create", app=app, error=error)


@pytest.mark.parametrize("columns", [None, 80])
def test_a_result_names_each_failure_and_counts_equal_outcomes(columns: int | None) -> None:
    found = [outcome(n, "failed" if n == 5 else "queued", "no" if n == 6 else "") for n in range(MANY)]
    matrices = {each.key: "sweep" for each in found}
    lines = outcomes_text(found, matrices=matrices, columns=columns).splitlines()
    assert len(lines) == 4
    assert sum("and 27 more" in line for line in lines) == 1
    assert any("sweep-05" in line and "FAILED" in line for line in lines)
    assert any("sweep-06" in line for line in lines)
    assert len(outcomes_text(found).splitlines()) == MANY + 1


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        (range(1, 29), "1..28"),
        ([*range(1, 9), 10, *range(15, 29)], "1..8,10,15..28"),
        (range(1, 57, 2), "28 in all"),
    ],
)
def test_many_attempts_of_one_job_share_a_line_with_their_numbers(numbers, shown) -> None:
    apps = [
        AppRecord("local_cwd", "p", f"a-{n}-k3fwx", name="a", number=n, state="succeeded") for n in numbers
    ]
    for app in apps:
        app.job_file = "origin", "a.launcher.yaml"
    [_, line] = apps_table(apps, color=False).splitlines()
    assert re.split(" {2,}", line)[:3] == ["a", shown, "SUCCEEDED"]
    if ".." in shown:
        assert sum(last - first + 1 for first, last in attempts(shown)) == len(apps)


def test_several_attempts_of_several_jobs_are_counted_by_name_and_in_all() -> None:
    apps = [
        AppRecord("local_cwd", "p", f"sweep-{n}-{k}", name=f"sweep-{n}", number=k, state="succeeded")
        for n in range(12)
        for k in (1, 2)
    ]
    for app in apps:
        app.job_file = "origin", "sweep.launcher.yaml"
    [_, line] = apps_table(apps, color=False).splitlines()
    assert re.split(" {2,}", line)[:3] == ["sweep-0 and 11 more", "24 in all", "SUCCEEDED"]


@pytest.mark.parametrize("columns", [None, 80])
def test_a_table_of_apps_shows_the_first_failures_of_a_family_and_one_line_for_its_queued_apps(columns):
    states = ["failed"] * (FEW + 5) + ["queued"] * 100 + ["running"] * 2
    apps = [
        AppRecord("local_cwd", "p", f"sweep-{n}-1-k3fwx", name=f"sweep-{n}", number=1, state=state)
        for n, state in enumerate(states)
    ]
    for app in apps:
        app.job_file = "origin", "sweep.launcher.yaml"
    lines = apps_table(apps, color=False, columns=columns).splitlines()
    assert sum("FAILED" in line for line in lines) == FEW + 1
    assert sum("QUEUED" in line and "and 99 more" in line for line in lines) == 1
    assert sum("RUNNING" in line for line in lines) == 2
    assert len(apps_table(apps, in_full=True, color=False, columns=columns).splitlines()) == len(apps) + 1
