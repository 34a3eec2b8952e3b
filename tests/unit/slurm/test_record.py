"""The record of an app in its folder."""

import json
import subprocess
import sys
from pathlib import Path

from launcher.holding.app import App
from launcher.schedulers.slurm.site.record import Record, events_of

CREATED = {"e": "created", "roles": [["a", 1]], "retries": [[0, "REPLICA"]]}


def test_a_line_that_a_full_disk_has_cut_is_written_whole_later(tmp_path: Path) -> None:
    code = """
import json, resource, sys
from tests.unit.slurm.test_record import CREATED, record
made = record(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
found = []
for number in (1, 2, 3):
    made.append({"e": "warning", "message": "x" * 30, "t": number})
    found.append(made.is_written())
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(json.dumps([*found, made.is_written()]))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, False, False, True]
    assert [each["t"] for each in events_of(str(tmp_path))] == [1, 2, 3]


def record(folder: str) -> Record:
    return Record(folder, App(), {})


def test_a_line_that_a_killed_conductor_has_cut_is_replaced_by_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "events").write_text('{"e":"starting","t":1}\n{"e":"spa')
    made = record(str(tmp_path))
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
    made = record(str(tmp_path))
    made.append({"e": "ended", "state": "failed", "message": "", "code": 1})
    assert made.is_written()
    assert (tmp_path / "outcome").read_text() == '{"state": "lost"}'
