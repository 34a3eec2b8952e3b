"""The failures of a first day, explained on one screen by `launcher report` and by `launcher top`."""

import asyncio
import time

import pytest

from launcher.cli.screen.app import Top

LATE_S = 150.0
LARGE = "python3 -c \"print('loading'); bytearray(1 << 40)\""
CAUSES = {
    "wrong-path": ("python3 trian.py", "", ("main/0 exited with 2", "trian.py", "No such file or directory")),
    "missing-module": ('python3 -c "import torhc"', "", ("main/0 exited with 1", "No module named 'torhc'")),
    "out-of-memory": (LARGE, "", ("main/0 exited with 1", "MemoryError")),
    "not-ready": ("sleep 1000", "ready: {file: ready, timeout: 2s}", ("main/0 was not ready after 2 s",)),
}


def shown_by_top(job, seen):
    """The screen of `launcher top` once `seen(text)` is true of it."""

    async def main():
        top = Top([job])
        async with top.run_test(size=(80, 24)) as pilot:
            late = time.monotonic() + LATE_S
            while not seen(text := screen(top)):
                assert time.monotonic() < late, text
                await pilot.pause(0.05)
            return text

    return asyncio.run(main())


def screen(top):
    """The reasons in the list of jobs, and the text below it."""
    known = (top.jobs.jobs.row(number) for number in range(len(top.jobs.jobs)))
    return "\n".join([*(apps[0].message for apps in known if apps), top.text.text])


def explained(scenario, job, *words):
    """Assert that the report, and the screen, have the words about the job."""
    report = scenario.launcher("report", job, "--markdown").out
    assert [word for word in words if word not in report] == [], report
    shown_by_top(job, lambda text: all(word in text for word in words))


@pytest.fixture
def image():
    """Further arguments of `Scenario.job`, for a job that needs Python."""
    return {}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_failed_job_is_explained_with_its_last_lines(scenario, image, cause):
    script, role, words = CAUSES[cause]
    scenario.run_to_end(scenario.job(script, name=cause, role=role, **image), code=5)
    explained(scenario, cause, *words)


def test_a_job_that_waits_for_ever_names_the_jobs_that_it_waits_for(scenario, image):
    first, _ = scenario.running(name="first")
    scenario.apply(first, scenario.job("true", name="second", top="needs: [first]"))
    explained(scenario, "second", "waits for first")
    scenario.cancel("first", "--grace", "0s", code=None)
