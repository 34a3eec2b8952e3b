"""A state folder that release 0.1.0 wrote: opened, brought up to date, and nothing lost.

`home_0_1_0.json` holds its files, its databases as SQL, and what the commands of that release printed.
"""

import json
import sqlite3
from typing import Any

import pytest

from launcher.state.rows import VERSION
from tests.unit.state.homes import load, placed, unpack

HOME: dict[str, Any] = load("home_0_1_0.json")
APPS = 7


@pytest.fixture
def first_release(scenario):
    """The scenario's state folder and job files, as release 0.1.0 left them."""
    return unpack(HOME, scenario)


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
        for command, printed in HOME["outputs"].items():
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
