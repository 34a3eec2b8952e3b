"""State folders that older versions wrote: opened, brought up to date, and gone on with; nothing is lost."""

import json
import sqlite3
from typing import Any

import pytest

from launcher.state.rows import VERSION
from tests.unit.state.homes import load, placed, unpack

FIRST_RELEASE: dict[str, Any] = load("home_0_1_0.json")
APPS = 7


@pytest.fixture
def first_release(scenario):
    """The scenario's state folder and job files, as release 0.1.0 left them."""
    return unpack(FIRST_RELEASE, scenario)


def output(scenario, command: str) -> str:
    return str(scenario.launcher(*command.split(), code=None).out)


def kept(then: Any, now: Any) -> Any:
    """Return JSON of this version without the fields and the values that its release did not have."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {name: kept(then[name], value) for name, value in now.items() if name in then}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [kept(*pair) for pair in zip(then, now, strict=True)]
    return now if then is not None else None


@pytest.mark.slow
def test_every_command_shows_what_the_first_release_showed(first_release):
    for _ in range(2):  # before it is brought up to date, and after
        for command, printed in FIRST_RELEASE["outputs"].items():
            now = placed(printed, first_release).replace("was cancelled: cancelled by", "was cancelled by")
            shown = output(first_release, command)
            if command.endswith("--json"):
                assert kept(json.loads(now), json.loads(shown)) == json.loads(now), command
            else:
                assert shown == now, command
        first_release.launcher("apply", "good.launcher.yaml", "--yes")
    ledger = sqlite3.connect(first_release.home / "ledger.db")
    assert ledger.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert ledger.execute("SELECT count(*) FROM attempts").fetchone() == (5,)
    assert ledger.execute("SELECT count(*) FROM apps").fetchone() == (APPS,)
    ledger.close()


def test_an_upgrade_leaves_the_files_of_the_first_release_unchanged(first_release):
    index = first_release.home / "local" / "index.db"
    before = index.read_bytes()
    first_release.launcher("apply", "good.launcher.yaml", "--yes")
    first_release.launcher("list")
    assert index.read_bytes() == before
    backup = sqlite3.connect(first_release.home / "ledger.db.v2.bak")
    assert backup.execute("SELECT count(*) FROM attempts").fetchone() == (5,)
    backup.close()


def test_gc_removes_the_apps_of_the_first_release(first_release):
    first_release.launcher("gc", "--older-than", "0", "--scheduler", "local_cwd")
    assert list((first_release.home / "local" / "apps").iterdir()) == []
    listed = json.loads(first_release.launcher("list", "--json").out)
    assert {app["name"] for app in listed if app["scheduler"] == "local_cwd"} == {"good", "bad", "stopped"}


SCHEMA_5 = load("home_schema_5.json")
"""A state folder of the version before attempts recorded what they stand on: opened, and gone on with.

`home_schema_5.json` holds its files, its database as SQL, and its job files. When it was saved, `slow` ran,
`after` waited for it, `holds` had the only GPU and `inline` was in line for that. One cell had been added to
the matrix `part` since `total` succeeded, and a need to `loose`; that version called both unchanged.
"""


@pytest.fixture
def older(scenario, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAUNCHER_GPUS", "1")
    return unpack(SCHEMA_5, scenario)


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
