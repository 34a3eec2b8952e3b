"""Reading an app whose watcher records the end, and leaves, between two looks of the reader."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.dataclass import replace
from launcher.schedulers.docker import apps, record
from tests.unit.docker.states import container

START: dict[str, Any] = {"role": "main", "id": "id0", "start": 10.0}


@pytest.mark.parametrize("has_journal", [True, False])
@pytest.mark.parametrize("is_last_moment", [True, False])
@pytest.mark.parametrize("code", [0, 3])
def test_no_end_is_seen_before_its_watcher_has_recorded_it(
    launcher_home, monkeypatch, is_last_moment, has_journal, code
):
    """The watcher holds its lock until then: it alone knows of kills, and compares input files."""
    app_dir = record.folder("app")
    os.makedirs(app_dir)
    record.append(app_dir, "starting")
    for k in range(2):
        record.append(app_dir, "spawn", k=k, **{**START, "id": f"id{k}", "start": 10.0 + k})

    def leave() -> None:
        record.append(app_dir, "inputs", changed="train.py was changed")
        record.append(app_dir, "ended", state="lost", message="", code=None)

    def is_locked(_: str) -> bool:
        if is_last_moment:
            leave()
        return not is_last_moment

    monkeypatch.setattr(record, "is_locked", is_locked)
    found = [container(k, f"exited {code}") for k in range(2)]
    engine: Any = SimpleNamespace(answer_anew=lambda: None, started_at=lambda: 1.0)
    journal = record.journal(app_dir) if has_journal else None
    seen = apps._app(engine, "app", found, journal, None, look=engine)
    if is_last_moment:
        assert (seen.view.state, seen.view.inputs_changed) == ("lost", "train.py was changed")
    else:
        assert (seen.view.state, seen.view.exit_code, seen.is_ending) == ("running", None, True)


def test_a_listed_run_after_the_recorded_end_is_inspected_before_it_counts(launcher_home):
    """An engine with a full disk goes on listing a container as it was before its end."""
    app_dir = record.folder("app")
    os.makedirs(app_dir)
    record.append(app_dir, "starting")
    record.append(app_dir, "spawn", k=0, **START)
    record.append(app_dir, "exit", k=0, code=0, **START)
    record.append(app_dir, "ended", state="succeeded", message="", code=0)
    listed = replace(container(0), inspected=False, started_at=None)
    engine: Any = SimpleNamespace(answer_anew=lambda: None, started_at=lambda: 1.0)
    seen = apps._app(engine, "app", [listed], record.journal(app_dir), None, look=engine)
    assert seen.view.drift == "main/0 was started by hand"
    assert apps.needs_confirmation(seen)
    again = apps._app(engine, "app", [container(0, "exited 0")], seen.journal, None, look=engine)
    assert (again.view.drift, apps.needs_confirmation(again)) == ("", False)
