"""Each history of the table gives its decisions, and each prefix of its record leads to the same end."""

import ast
import copy
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.holding.app import App
from launcher.holding.hold import decide
from tests.holding.histories import (
    DECISIONS,
    HISTORIES,
    START_S,
    USES,
    Record,
    created,
    fact,
    play,
    step,
    used_by,
)

ROOT = Path(__file__).resolve().parents[2]
HOLDING = sorted((ROOT / "launcher/holding").glob("*.py"))


@pytest.mark.parametrize(("roles", "facts", "decisions"), HISTORIES)
def test_each_history_leads_to_its_listed_decisions(roles, facts, decisions):
    assert play(roles, facts)[1].decisions == decisions


@pytest.mark.parametrize(("roles", "facts", "used"), USES)
def test_the_use_of_an_app_is_the_sum_over_its_runs(roles, facts, used):
    assert used_by(play(roles, facts)[0]) == used


def shown(app: App) -> list[object]:
    """Return everything that a view of the app shows."""
    replicas = [(r.name, *app.shown(r), r.code, r.restarts, r.ended_at) for r in app.replicas]
    return [
        app.state, app.message, app.code, app.needs, app.num_restarts, app.stop_reason, used_by(app),
        *replicas,
    ]  # fmt: skip


@pytest.mark.parametrize(("roles", "facts"), [each[:2] for each in (*HISTORIES, *USES)])
def test_a_reader_of_the_record_sees_the_same_app_as_its_holder(roles, facts):
    app, record = play(roles, facts)
    reader = App()
    for event in record.events:
        reader.take(copy.deepcopy(event))
    assert shown(reader) == shown(app)


@pytest.mark.parametrize(("roles", "facts"), [each[:2] for each in (*HISTORIES, *USES)])
def test_a_role_counts_the_replicas_that_are_ready_and_those_that_have_succeeded(roles, facts):
    _, record = play(roles, facts)
    app = App()
    for event in record.events:
        app.take(copy.deepcopy(event))
        for role in app.roles.values():
            assert role.reached["ready"] == sum(each.is_ready for each in role.replicas), event
            assert role.reached["succeeded"] == sum(each.has_succeeded for each in role.replicas), event


@pytest.mark.parametrize(("roles", "facts"), [each[:2] for each in (*HISTORIES, *USES)])
def test_another_holder_continues_from_any_event_of_the_record(roles, facts):
    """After a fact whose decision was not recorded, the next holder takes the same decision."""
    _, whole = play(roles, facts)
    texts = facts.split("; ")
    for cut in range(1, len(whole.events) + 1):
        app, record = App(), Record()
        record.events = copy.deepcopy(whole.events[:cut])
        for event in record.events:
            app.take(event)
        given = sum(event["e"] not in DECISIONS or "fact" in event for event in record.events[1:])
        rest = skip(texts, given)
        record.now = max(START_S, app.last_at)
        decide(app, record, record.now)
        for text in rest:
            step(app, record, fact(text))
        assert [e for e in record.events if e["e"] != "tick"] == whole.events, cut


def skip(texts: list[str], given: int) -> list[str]:
    """Return the facts after the first `given` ones; facts that are only a time are not counted."""
    rest = list(texts)
    while given:
        if not rest.pop(0).startswith("@"):
            given -= 1
    return rest


@pytest.mark.parametrize("path", HOLDING, ids=lambda path: path.stem)
def test_the_source_of_the_state_machine_parses_as_python_3_6(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 6))


def test_histories_have_the_same_result_on_python_3_6(tmp_path):
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    found = [shutil.which("python3.6"), *home.glob(".pyenv/versions/3.6.*/bin/python")]
    pythons = [
        each for each in found if each and subprocess.run([each, "-c", ""], check=False).returncode == 0
    ]
    if not pythons:
        pytest.skip("this machine has no Python 3.6")
    package = tmp_path / "launcher"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "launcher/holding", package / "holding", ignore=ignored)
    (package / "__init__.py").touch()
    argv = [pythons[0], "-B", str(ROOT / "tests/holding/histories.py"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"played {len(HISTORIES)} histories\n"


def test_a_record_that_lacks_the_roles_still_names_its_replicas():
    app = App()
    app.take({"e": "spawn", "t": 1, "role": "a", "k": 1, "pid": 7, "start": 8})
    assert [(r.name, app.shown(r)[0]) for r in app.replicas] == [("a/0", "pending"), ("a/1", "running")]


def test_an_unknown_kind_of_event_is_ignored():
    app = App()
    app.take(created("a"))
    before = shown(app)
    app.take({"e": "of a later version", "t": 5})
    app.take({"t": 6})
    assert shown(app) == before


def test_a_start_that_fails_on_another_machine_names_that_machine():
    app = play("a", "go")[0]
    app.take({"e": "exit", "role": "a", "k": 0, "code": 127, "why": "no such file", "host": "n1"})
    assert app.decide(START_S)["message"] == "a/0 could not be started on n1: no such file"


def test_a_failed_start_may_have_an_exit_code():
    app = play("a", "go")[0]
    app.take({"e": "broken", "why": "setup failed", "code": 3})
    decision = app.decide(START_S)
    assert (decision["message"], decision["code"]) == ("setup failed", 3)
