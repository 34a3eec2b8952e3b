"""The failures of a first day, explained on one screen by `launcher report` and by `launcher top`."""

import pytest

from tests.scenarios.test_top import on_screen, rows, until

LARGE = "python3 -c \"print('loading'); bytearray(1 << 40)\""
CAUSES = {
    "wrong-path": ("python3 trian.py", "", ("main/0 exited with 2", "trian.py", "No such file or directory")),
    "missing-module": ('python3 -c "import torhc"', "", ("main/0 exited with 1", "No module named 'torhc'")),
    "out-of-memory": (LARGE, "", ("main/0 exited with 1", "MemoryError")),
    "not-ready": ("sleep 1000", "ready: {file: ready, timeout: 2s}", ("main/0 was not ready after 2 s",)),
}


def explained(scenario, job, *words):
    """Assert that the report, and the screen of `launcher top`, have the words about the job."""
    report = scenario.launcher("report", job, "--markdown").out
    assert [word for word in words if word not in report] == [], report

    async def act(top, pilot):
        def shown():
            return "\n".join([*(reason for _, _, reason in rows(top)), top.text.text])

        await until(pilot, lambda: all(word in shown() for word in words))

    on_screen(act, job, size=(80, 24))


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
