"""`launcher top` shows apps as they are, and changes nothing before a question is answered."""

import asyncio
import os
import signal
import sys
import time

import pytest
from textual.app import App

from launcher.cli.top.app import Top
from launcher.cli.top.dialogs import Dialog
from launcher.cli.top.feed import Asked, answer
from launcher.cli.top.widgets import TextPane
from launcher.inventory.recorded import newest
from tests.terminals import OnTerminal, launcher

LATE_S = 30.0


def on_screen(act, *words, size=(100, 30)):
    """Call `act` with a screen and its pilot."""

    async def main():
        top = Top(words)
        async with top.run_test(size=size) as pilot:
            await act(top, pilot)

    asyncio.run(main())


async def until(pilot, seen):
    """Wait until `seen()` is true; return its value."""
    late = time.monotonic() + LATE_S
    while not (found := seen()):
        assert time.monotonic() < late, pilot.app.text.text + pilot.app.lines["keys"].text
        await pilot.pause(0.02)
    return found


async def asked(top, pilot):
    """The text of the question that is on the screen."""
    await until(pilot, lambda: isinstance(top.screen, Dialog))
    await pilot.pause()
    return top.screen.query_one(TextPane).text


def rows(top):
    """Return (name, state, reason) of each loaded row."""
    known = [top.jobs.jobs.row(number) for number in range(len(top.jobs.jobs))]
    return [(apps[0].job, apps[0].state, apps[0].message) for apps in known if apps]


def states(top):
    return {job: state for job, state, _ in rows(top)}


def test_top_cancels_a_job_only_after_the_answer_yes(scenario):
    scenario.running()
    [app] = scenario.attempts()

    async def act(top, pilot):
        await pilot.press("c")
        assert app.handle in await asked(top, pilot)
        await pilot.press("n")
        await until(pilot, lambda: not top._doing)
        assert scenario.processes_of(app.app_id) != []
        await pilot.press("c")
        await asked(top, pilot)
        await pilot.press("y")
        await until(pilot, lambda: states(top) == {"job": "cancelled"})

    on_screen(act)
    assert scenario.processes_of(app.app_id) == []
    assert [each.state for each in scenario.attempts()] == ["cancelled"]


@pytest.mark.slow
def test_top_cancels_marked_jobs_together_and_no_others(scenario):
    for name in ("a", "b", "c"):
        scenario.apply(scenario.job("exec sleep 1000", name=name))

    async def act(top, pilot):
        await pilot.press("space", "space", "c")
        text = await asked(top, pilot)
        assert "/a-1-" in text
        assert "/b-1-" in text
        assert "/c-1-" not in text
        await pilot.press("y")
        await until(pilot, lambda: states(top) == {"a": "cancelled", "b": "cancelled", "c": "running"})

    on_screen(act)
    scenario.cancel("c")


def test_top_shows_the_last_lines_of_a_failed_job_and_the_plan_of_its_re_run(scenario):
    job = scenario.job("echo reading; echo $API_TOKEN >&2; exit 3", role="env: {API_TOKEN: canary-canary}")
    scenario.run_to_end(job, code=5)

    async def act(top, pilot):
        await until(pilot, lambda: states(top) == {"job": "failed"})
        await until(pilot, lambda: "the last lines of main/0" in top.text.text)
        assert {"  reading", "  ***"} <= {*top.text.text.splitlines()}
        await pilot.press("r")
        text = await asked(top, pilot)
        assert "job" in text
        assert "Plan: 1 to re-run" in text
        await pilot.press("y")
        await until(pilot, lambda: len(scenario.attempts()) == 2)
        await until(pilot, lambda: [row[1] for row in rows(top)] == ["failed", "failed"])

    on_screen(act)


@pytest.mark.slow
def test_a_re_run_without_its_job_file_is_refused_with_the_reason(scenario):
    file = scenario.job("true")
    scenario.run_to_end(file)
    file.unlink()

    async def act(top, pilot):
        await until(pilot, lambda: rows(top))
        await pilot.press("r")
        await until(pilot, lambda: "is not there any more" in top.lines["keys"].text)

    on_screen(act)


def test_the_answer_for_a_pane_leaves_the_record_of_the_list_unchanged(scenario):
    """The feed's thread may have recorded the end meanwhile, which an older answer would overwrite."""
    scenario.running()
    [app] = newest(1)
    app.state = "reserved"
    assert "RUNNING" in answer(Asked(pane="status", app=app, color=False)).lines[0]
    assert app.state == "reserved"
    scenario.cancel("job")


@pytest.mark.parametrize("pane", ["status", "log", "use"])
def test_an_app_whose_submission_has_only_begun_is_shown_in_each_pane(scenario, pane):
    words = [sys.executable, "-m", "tests.kill_at", "step", "reserved", "1", "--", "apply"]
    scenario.spawn([*words, str(scenario.job("true")), "--yes"]).communicate()
    [app] = newest(None)
    assert answer(Asked(pane=pane, app=app, color=False)).lines


@pytest.mark.slow
def test_a_job_in_line_starts_at_once(scenario):
    scenario.write("launcher.toml", "[queue]\ncpu = 1\n")
    for name in ("first", "second"):
        scenario.apply(scenario.job("exec sleep 1000", name=name, role="resource: {cpu: 1}"))

    async def act(top, pilot):
        await until(pilot, lambda: [row for row in rows(top) if row[2].startswith("1st in line for 1 core")])
        await pilot.press("down", "s")
        assert "1st in line" in await asked(top, pilot)
        await pilot.press("y")
        await until(pilot, lambda: states(top) == {"first": "running", "second": "running"})

    on_screen(act)
    scenario.cancel("first")
    scenario.cancel("second")


def test_top_shows_a_job_that_another_client_starts_and_ends(scenario):
    async def act(top, pilot):
        _, gate = await asyncio.to_thread(scenario.running, "echo lost >&2; exit 4")
        await until(pilot, lambda: states(top) == {"job": "running"})
        gate.open()
        await until(pilot, lambda: rows(top) == [("job", "failed", "main/0 exited with 4: lost")])

    on_screen(act)


@pytest.mark.slow
def test_top_filters_jobs_by_words_and_shows_all_after_escape(scenario):
    scenario.run_to_end(scenario.job("exit 1", name="train"), code=5)
    scenario.run_to_end(scenario.job("true", name="eval"))

    async def act(top, pilot):
        await until(pilot, lambda: states(top).keys() == {"train"})
        await pilot.press("escape")
        await until(pilot, lambda: states(top).keys() == {"train", "eval"})
        await pilot.press("slash", *"eval")
        await until(pilot, lambda: states(top).keys() == {"eval"})
        await pilot.press("enter", "escape", "f", "f")
        await until(pilot, lambda: states(top).keys() == {"train"})

    on_screen(act, "failed")


def test_text_that_grows_stays_at_its_end_while_the_size_of_the_terminal_changes():
    class Screen(App):
        CSS = Top.CSS

        def compose(self):
            yield TextPane(id="pane")

    async def main():
        screen = Screen()
        async with screen.run_test(size=(80, 30)) as pilot:
            text = screen.query_one(TextPane)

            async def resized(rows):
                await pilot.resize_terminal(80, rows)
                await pilot.pause()
                assert text.size.height == rows

            for count, rows in ((100, 30), (101, 12), (102, 12), (103, 24), (104, 24)):
                await resized(rows)
                text.show([str(n) for n in range(count)], is_new=count == 100, is_tail=True)
                await pilot.pause()
                assert text.scroll_offset.y == count - rows
            text.action_page(-1)
            await pilot.pause()
            seen = text.scroll_offset.y
            assert seen < 104 - 24
            await resized(12)
            text.show([str(n) for n in range(105)], is_new=False, is_tail=True)
            await pilot.pause()
            assert text.scroll_offset.y == seen

    asyncio.run(main())


@pytest.mark.slow
def test_top_shows_output_by_stream_and_searches_it(scenario):
    scenario.run_to_end(scenario.job("echo to out; echo to err >&2; printf '\\033[2Jx\\n'"))

    async def act(top, pilot):
        await until(pilot, lambda: rows(top))
        await pilot.press("2")
        await until(pilot, lambda: "to out" in top.text.text and "to err" in top.text.text)
        assert "\\x1b[2Jx" in top.text.text
        await pilot.press("o", "o")
        await until(pilot, lambda: top.text.text == "to err")
        await pilot.press("tab", "slash", *"ERR")
        await pilot.press("enter")
        assert top.lines["keys"].text.startswith("0 lines match")
        await pilot.press("slash", *"er+", "enter")
        assert top.lines["keys"].text.startswith("1 line matches")
        await pilot.press("slash", *"(", "enter")
        assert "no regular expression" in top.lines["keys"].text

    on_screen(act)


@pytest.mark.slow
def test_the_panes_show_status_use_and_turns(scenario):
    scenario.run_to_end(scenario.job("exit 3", replicas=2, role="resource: {cpu: 1, memory: 1GiB}"), code=5)

    async def act(top, pilot):
        await until(pilot, lambda: "main/1" in top.text.text)
        assert "exited with 3" in top.text.text
        await pilot.press("3")
        await until(pilot, lambda: "1 GiB" in top.text.text)
        await pilot.press("4")
        await until(pilot, lambda: "THIS MACHINE" in top.text.text)
        await pilot.press("enter")
        assert not top.jobs.display or top.screen.has_class("large")
        await pilot.press("question_mark")
        assert "re-run" in await asked(top, pilot)

    on_screen(act)


@pytest.mark.slow
def test_top_shows_an_unreadable_ledger_as_a_line_on_the_screen(scenario, launcher_home):
    scenario.run_to_end(scenario.job("true"))

    async def act(top, pilot):
        await until(pilot, lambda: rows(top))
        os.rename(launcher_home / "ledger.db", launcher_home / "kept")
        (launcher_home / "ledger.db").mkdir()
        await until(pilot, lambda: "ledger.db" in top.lines["keys"].text)
        (launcher_home / "ledger.db").rmdir()
        os.rename(launcher_home / "kept", launcher_home / "ledger.db")

    on_screen(act)


def test_top_without_a_terminal_names_the_command_that_prints_the_jobs(scenario):
    done = scenario.launcher("top", code=1)
    assert "top needs a terminal" in done.err
    assert "launcher list" in done.err


@pytest.mark.slow
def test_top_without_its_library_runs_status_watch(scenario):
    script = "import sys; sys.modules['textual'] = None; from launcher.__main__ import main; main()"
    words = [sys.executable, "-c", script.replace("from", "sys.argv[1:] = ['top']; from", 1)]
    shown = OnTerminal(scenario, words).end()
    assert "pip install 'launcher-jobs[top]'" in shown
    assert "no apps are running" in shown


@pytest.mark.slow
def test_top_restores_the_terminal_when_it_is_terminated(scenario):
    session = launcher(scenario, "top")
    session.until(b"no live apps")
    session.process.send_signal(signal.SIGTERM)
    shown = session.end(143)
    assert shown.rindex("\x1b[?1049l") > shown.rindex("\x1b[?1049h")
