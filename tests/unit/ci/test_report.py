"""The comment that `ci report` writes."""

import re
from typing import Any

import pytest

from launcher.ci.forge import MOST_CHARACTERS
from launcher.ci.report import EndedJob, comment_text
from launcher.cli.ci_report import all_ended
from launcher.inventory.outputs import ResultRow


def ended(job: str, state: str = "failed", **more: Any) -> EndedJob:
    return EndedJob(job, 1, state, has_ended=True, **more)


@pytest.mark.parametrize("count", [1, 30, 1000, 5000])
def test_a_comment_is_cut_by_whole_jobs(count):
    jobs = [ended(f"job-{n}", message="no such file\n" * 40, output="line ```\n" * 100) for n in range(count)]
    text = comment_text("<!-- mark -->", "a" * 40, jobs)
    assert len(text) <= MOST_CHARACTERS
    assert text.startswith(f"<!-- mark -->\n### {count:,} failed\n")
    rows = [line for line in text.splitlines() if line.startswith("| job")]
    left = re.search(r"([\d,]+) more jobs", text)
    assert len(rows) + (int(left[1].replace(",", "")) if left else 0) == count
    fences = [line for line in text.splitlines() if line.startswith("````")]
    assert fences == ["````text", "````"] * (len(fences) // 2)
    assert len(fences) // 2 == text.count("<details>") == text.count("</details>") > 0


@pytest.mark.parametrize(("scheduler", "has_ended"), [("local_docker", False), ("local_cwd", True)])
def test_a_job_whose_engine_does_not_answer_has_not_ended(scheduler, has_ended, launcher_home, monkeypatch):
    """Nothing is on record: the ledger is that of a runner that is new."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    warnings: list[str] = []
    entry = {"job": "train", "attempt": 1, "handle": f"{scheduler}://default/train-1-k3fwx"}
    (found,) = all_ended([entry], warnings.append, hides_output=True)
    assert (found.state, found.has_ended) == ("unknown", has_ended)
    assert len(warnings) == (not has_ended)


def test_failed_jobs_come_first_and_only_they_show_output():
    jobs = [ended("a", "succeeded"), ended("b", "failed", output="no data")]
    text = comment_text("<!-- mark -->", "a" * 40, jobs)
    assert text.index("| b@1") < text.index("| a@1")
    assert text.count("<details>") == 1


def test_output_stays_within_its_fence():
    text = comment_text("<!-- mark -->", "a" * 40, [ended("a<b", output="```\n</details> @team")])
    assert "````text\n```\n</details> @team\n````" in text
    assert "Last lines of a&lt;b@1" in text


def test_results_are_shown_beside_the_results_of_the_previous_success():
    results = [ResultRow("loss", 0.5, 0.25), ResultRow("new", None, 3.0)]
    text = comment_text("<!-- mark -->", "a" * 40, [ended("train", "succeeded", results=results)])
    assert "**Results of train@1**" in text
    assert "| loss | 0.5 | 0.25 | -0.25 (-50 %) |\n| new | - | 3 |  |\n" in text


def test_results_are_bounded_and_their_names_are_data():
    hostile = [ResultRow("a|b <img> @team `x`\n#1", 1.0, 2.0)]
    hostile += [ResultRow(f"m{n}", None, 1.0) for n in range(500)]
    jobs = [ended(f"job-{n}", "succeeded", results=hostile, output="line\n" * 100) for n in range(300)]
    text = comment_text("<!-- mark -->", "a" * 40, jobs)
    assert len(text) <= MOST_CHARACTERS
    assert "| a\\|b \\<img\\> \\@<!-- -->team \\`x\\` \\#<!-- -->1 | 1 | 2 |" in text
    assert "| m18 |" in text
    assert "| m19 |" not in text
    assert text.count("\n481 more") == text.count("**Results of ")


def test_many_jobs_of_a_matrix_share_rows_but_for_the_first_bad_ones():
    good = {"matrix": "sweep", "asked": "1 core"}
    jobs = [ended(f"sweep-{n}", "succeeded", took=f"{n}s", **good) for n in range(9000)]
    bad = {"matrix": "sweep", "output": "no data"}
    jobs += [ended(f"sweep-{n}", message=f"no {n}", **bad) for n in range(9000, 10000)]
    text = comment_text("<!-- mark -->", "a" * 40, jobs)
    rows = [line for line in text.splitlines() if line.startswith("| sweep")]
    assert len(text) <= MOST_CHARACTERS
    assert "more job" not in text
    assert rows[0] == "| sweep-9000@1 | failed | - | - | no 9000 |"
    assert rows[9:] == [
        "| sweep-9009@1 | failed | - | - | no 9009 |",
        "| sweep-9010@1 and 989 more | failed | - | - |  |",
        "| sweep-0@1 and 8,999 more | succeeded | - | 1 core |  |",
    ]
    assert text.count("<details>") == 11
