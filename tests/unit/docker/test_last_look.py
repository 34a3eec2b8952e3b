"""Reading an app whose watcher records the end, and leaves, between two looks of the reader."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.dataclass import replace
from launcher.schedulers.docker import apps, record
from launcher.schedulers.docker.labels import INPUTS
from tests.unit.docker.test_status import container

START: dict[str, Any] = {"role": "main", "id": "id0", "start": 10.0}


@pytest.mark.parametrize("is_last_moment", [True, False])
def test_a_success_is_never_seen_without_the_comparison_of_its_inputs(
    launcher_home, monkeypatch, is_last_moment
):
    """The watcher holds its lock until the result of the comparison is on record."""
    app_dir = record.folder("app")
    os.makedirs(app_dir)
    record.append(app_dir, "starting")
    for k in range(2):
        record.append(app_dir, "spawn", k=k, **{**START, "id": f"id{k}", "start": 10.0 + k})

    def leave() -> None:
        record.append(app_dir, "inputs", changed="train.py was changed")
        record.append(app_dir, "ended", state="succeeded", message="", code=0)

    def is_locked(_: str) -> bool:
        if is_last_moment:
            leave()
        return not is_last_moment

    monkeypatch.setattr(record, "is_locked", is_locked)
    found = [container(k, "exited 0") for k in range(2)]
    for each in found:
        each.labels[INPUTS] = "in1:x"
    engine: Any = SimpleNamespace(answer_anew=lambda: None, started_at=lambda: 1.0)
    seen = apps._app(engine, "app", found, record.journal(app_dir), None, look=engine)
    if is_last_moment:
        assert (seen.view.state, seen.view.inputs_changed) == ("succeeded", "train.py was changed")
    else:
        assert (seen.view.state, seen.is_ending) == ("running", True)


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
