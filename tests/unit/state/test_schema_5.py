"""A state folder of the version before attempts recorded what they stand on: opened, and gone on with.

`home_schema_5.json` holds its files, its database as SQL, and its job files. When it was saved, `slow` ran,
`after` waited for it, `holds` had the only GPU and `inline` was in line for that. One cell had been added to
the matrix `part` since `total` succeeded, and a need to `loose`; that version called both unchanged.
"""

import json
import sqlite3
from typing import Any

import pytest

from launcher.state.rows import VERSION
from tests.unit.state.homes import load, unpack

HOME = load("home_schema_5.json")


@pytest.fixture
def older(scenario, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "1")
    return unpack(HOME, scenario)


def steps(scenario, *more: str) -> dict[str, tuple[str, str]]:
    """Job → its action, and the deciding reason."""
    plan: dict[str, Any] = json.loads(scenario.launcher("plan", ".", "--format", "json", *more).out)
    reasons = {each["key"]["job"]: each["reasons"][0] for each in plan["jobs"]}
    actions = {each["key"]["job"]: each["action"] for each in plan["jobs"]}
    return {
        job: (actions[job], " ".join(filter(None, (why["code"], why.get("detail", "")))))
        for job, why in reasons.items()
    }


def test_only_jobs_that_were_wrongly_called_current_run_again(older):
    planned = steps(older)
    again = {job: planned.pop(job) for job in ("total", "loose")}
    assert again == {
        "total": ("rerun", "needs_changed now also needs part-2"),
        "loose": ("rerun", "needs_changed now also needs prepare"),
    }
    unchanged = {"order", "part-0", "part-1", "part-2", "prepare", "train"}
    assert {job for job, (action, _) in planned.items() if action == "keep"} == unchanged


def test_attempts_of_an_earlier_boot_are_lost_or_go_on(older):
    planned = steps(older)
    assert [planned[job][0] for job in ("slow", "holds", "inline")] == ["hold", "hold", "resume"]
    assert planned["after"] == ("hold", "needs_failed slow: lost")


@pytest.mark.slow
def test_apply_brings_the_ledger_up_to_date_once(older):
    older.launcher("apply", ".", "--yes", "--wait", code=5)
    ledger = sqlite3.connect(older.home / "ledger.db")
    assert ledger.execute("PRAGMA user_version").fetchone() == (VERSION,)
    [(stands_on,)] = ledger.execute("SELECT needs FROM attempts WHERE job = 'total' AND number = 2")
    assert [each[0] for each in json.loads(stands_on)] == ["part-0", "part-1", "part-2"]
    assert ledger.execute("SELECT state FROM attempts WHERE job = 'inline'").fetchall() == [("succeeded",)]
    ledger.close()
    assert {action for action, _ in steps(older).values()} == {"keep", "hold"}
