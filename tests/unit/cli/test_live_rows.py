"""The rows of the live table: at any height, running jobs first and the counts last."""

import random

import pytest

from launcher.cli.render.progress import counted, rows


def shown(states: dict[str, str], recent: tuple[str, ...] = (), height: int = 40) -> list[str]:
    made = rows(states, recent, height)
    return [f"{row.text} {row.state} {row.count}" if row.kind == "group" else row.text for row in made]


def sweep(count: int, state: str, start: int = 0) -> dict[str, str]:
    return {f"sweep-lr-{n}": state for n in range(start, start + count)}


def test_running_jobs_come_first_then_ended_jobs_then_a_line_for_each_group() -> None:
    states = {
        **sweep(200, "queued", start=3),
        **sweep(2, "running"),
        "sweep-lr-2": "failed",
        "report": "waiting",
    }
    assert shown(states, ("sweep-lr-2",)) == [
        "sweep-lr-*",
        "  0",
        "  1",
        "  2",
        "report waiting 1",
        "sweep-lr-* queued 200",
        "204 jobs: 2 running, 1 failed, 1 waiting, 200 queued",
    ]


def test_jobs_that_do_not_fit_are_counted_by_state() -> None:
    states = {**sweep(500, "queued", start=500), **sweep(500, "running")}
    lines = shown(states, height=23)
    assert len(lines) == 23
    assert lines[:2] == ["sweep-lr-*", "  0"]
    assert lines[-3:] == [
        "… and 481 more jobs",
        "sweep-lr-* queued 500",
        "1,000 jobs: 500 running, 500 queued",
    ]


def test_the_newest_of_many_ended_jobs_are_shown() -> None:
    states = {**sweep(100, "failed"), "sweep-lr-100": "running"}
    recent = tuple(f"sweep-lr-{n}" for n in (7, 99, *range(50)))
    lines = shown(states, recent, height=9)
    assert lines == ["sweep-lr-*", "  100", *lines[2:6], "… and 48 more jobs", lines[-1]]
    assert {"  7", "  99"} < {*lines}


def test_jobs_of_no_matrix_keep_their_names_and_numbers_of_a_family_their_order() -> None:
    assert shown({"train-resnet": "running", "report": "running"})[:2] == ["report", "train-resnet"]
    assert shown({"train": "running"}) == ["train"]
    names = [row.strip() for row in shown({f"a-{n}": "running" for n in (10, 9, 100)})]
    assert names == ["a-*", "9", "10", "100", "3 jobs: 3 running"]


@pytest.mark.parametrize("height", [3, 4, 10, 24, 40])
def test_any_jobs_fit_into_any_height_and_all_are_counted(height: int) -> None:
    rng = random.Random(height)
    for _ in range(200):
        words = ["a", "sweep", "b", "1", "0p1", "x" * 30]
        names = {"-".join(rng.choices(words, k=rng.randrange(1, 5))) for _ in range(rng.choice([1, 5, 80]))}
        states = {name: rng.choice(["running", "queued", "waiting", "failed", "succeeded"]) for name in names}
        recent = [name for name in names if states[name] in ("failed", "succeeded") and rng.random() < 0.3]
        made = rows(states, recent, height)
        assert len(made) <= height
        assert len(names) == 1 or made[-1].text == counted(states)
        jobs = [row.job for row in made if row.kind == "job"]
        assert len(set(jobs)) == len(jobs)
        assert set(jobs) <= {name for name in names if states[name] == "running"} | set(recent)
