"""The record of an app in its folder."""

import json
from pathlib import Path

from launcher.holding.app import App
from launcher.schedulers.slurm.site.record import Record

CREATED = {"e": "created", "roles": [["a", 1]], "retries": [[0, "REPLICA"]]}


def test_a_line_that_a_killed_conductor_has_cut_is_replaced_by_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"e":"starting","t":1}\n{"e":"spa')
    made = Record(str(tmp_path), App(), {})
    made.append({"e": "quiet", "t": 2})
    assert made.is_written()
    assert (tmp_path / "events").read_text() == '{"e":"starting","t":1}\n{"e":"quiet","t":2}\n'


def test_an_end_is_recorded_with_its_outcome_also_where_no_event_can_be_written(tmp_path: Path) -> None:
    app = App()
    app.take(CREATED)
    made = Record(str(tmp_path), app, {"a": "a"})
    made.append({"e": "ended", "state": "lost", "message": "gone", "code": None, "t": 3_000_000_000})
    (tmp_path / "events").mkdir()  # nothing can be written there
    assert made.is_written()
    outcome = json.loads((tmp_path / "outcome").read_text())
    assert (outcome["state"], outcome["message"], outcome["ended_at"]) == ("lost", "gone", 3.0)
    assert [(each["state"], each["code"]) for each in outcome["replicas"]] == [("lost", None)]


def test_an_outcome_on_record_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "outcome").write_text('{"state": "lost"}')
    made = Record(str(tmp_path), App(), {})
    made.append({"e": "ended", "state": "failed", "message": "", "code": 1})
    assert made.is_written()
    assert (tmp_path / "outcome").read_text() == '{"state": "lost"}'
