"""The rows of `launcher top`: their order, their cells, and which pages are read."""

import time
from array import array

from launcher.cli.top.model import PAGE, Filter, Jobs, Layout, cells, restart_limit
from launcher.state.records import AppRecord
from launcher.text import FEW, width


def app(job, state="running", *, project="vision", target="default", at=1.0, message="", number=1):
    return AppRecord(
        "local_cwd", project if target == "default" else f"{project}.{target}", f"{job}-{number}-abcde",
        key=(project, target, job), number=number, state=state, created_at=at,
        started_at=at if state == "running" else None, message=message,
    )  # fmt: skip


def shown(jobs):
    return [jobs.row(number)[0].job for number in range(len(jobs)) if jobs.row(number)]


def test_live_apps_are_in_order_of_project_target_state_and_age():
    jobs = Jobs()
    live = [
        app("f", "waiting"), app("e", "queued", at=3.0), app("d", "queued", at=2.0), app("c"),
        app("b", target="cluster"), app("a", project="audio"),
    ]  # fmt: skip
    jobs.show(live, [], Filter(), in_full=False)
    assert shown(jobs) == ["a", "b", "c", "d", "e", "f"]


def test_apps_that_have_just_ended_come_before_the_pages_of_older_ones():
    jobs = Jobs()
    jobs.show([app("live")], [app("new", "failed")], Filter(), in_full=False)
    jobs.find(array("q", range(PAGE + 1)))
    assert len(jobs) == 2 + PAGE + 1
    assert [page for page, _ in jobs.unknown(0, 10)] == [0]
    assert [page for page, _ in jobs.unknown(PAGE, PAGE + 2)] == [0, 1]
    jobs.fill(0, [app(f"old-{n}", "succeeded") for n in range(PAGE)])
    assert shown(jobs)[:3] == ["live", "new", "old-0"]
    assert list(jobs.unknown(0, 10)) == []
    assert jobs.index(app("old-7", "succeeded").handle) == 9


def test_the_screen_keeps_few_pages_of_ended_apps():
    jobs = Jobs()
    jobs.find(array("q", range(100 * PAGE)))
    for page in range(100):
        jobs.fill(page, [app("x", "succeeded")] * PAGE)
    assert len(list(jobs.loaded())) < 30 * PAGE
    assert len(jobs) == 100 * PAGE


def test_a_filter_takes_apps_that_have_every_word_and_a_state_of_the_view():
    failed = app("train", "failed", message="main/0 exited with 1: No module named 'torch'")
    assert Filter(words=("TORCH", "vision", "fail")).takes(failed)
    assert not Filter(words=("torch", "audio")).takes(failed)
    assert Filter(view="failed").takes(failed)
    assert not Filter(view="live").takes(failed)


def test_many_apps_of_one_file_in_one_state_share_a_row():
    many = [app(f"sweep-{n}", "queued", at=float(n)) for n in range(FEW + 1)]
    for each in many:
        each.job_file = "origin", "sweep.launcher.yaml"
    jobs = Jobs()
    jobs.show([*many, app("sweep-99")], [], Filter(), in_full=False)
    assert [len(apps) for apps in jobs.live] == [1, FEW + 1]
    [_, name, state, *_] = cells(jobs.live[1], {}, 100.0)
    assert (name[0], state[0]) == (f"sweep-0@1 and {FEW} more", "QUEUED")
    assert jobs.index(many[5].handle) == 1


def test_a_restarted_app_says_how_many_restarts_are_left():
    seen = app("train")
    seen.num_restarts = 2
    assert cells([seen], {seen.app_id: 3}, 9.0)[-1][0] == "restart 2 of 3"
    assert cells([seen], {}, 9.0)[-1][0] == "restart 2"
    role = {"name": "main", "max_retries": 3}
    assert restart_limit({"roles": [role]}) == 3
    assert restart_limit({"roles": [{**role, "num_replicas": 2, "retry_policy": "REPLICA"}]}) == 0


def test_reasons_get_the_width_of_less_important_columns():
    message = "1st in line for 2 cores held by train-large-1-abcde"
    rows = [cells([app("evaluate", "queued", message=message, at=time.time())], {}, time.time())]
    wide, narrow = Layout(117), Layout(77)
    for layout in (wide, narrow):
        layout.fit(iter(rows))
    assert message in "".join(text for text, _ in wide.line(rows[0]))
    assert [column for column, _ in narrow.shown()] == [1, 2, 3, 5]  # neither project nor age
    for layout in (wide, narrow):
        assert sum(width(text) for text, _ in layout.line(rows[0])) == layout.columns


def test_the_project_is_a_column_where_there_are_several():
    layout = Layout(117)
    layout.fit(iter([cells([app("a")], {}, 1.0)]))
    assert layout.only_project == "vision"
    assert 0 not in dict(layout.shown())
    layout.fit(iter([cells([app("b", target="cluster")], {}, 1.0)]))
    assert layout.only_project == ""
    assert 0 in dict(layout.shown())


def test_names_and_messages_cannot_drive_the_terminal():
    hostile = app("train", "failed", message="\x1b[2J\nroot\x07")
    assert all(text.isprintable() for text, _ in cells([hostile], {}, 1.0))
