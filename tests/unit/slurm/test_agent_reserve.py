"""The owner of an app id: reservation, take-over and removal in app directories, without Slurm."""

import base64
import json
import os
import time
from itertools import product
from pathlib import Path

import pytest

from launcher.schedulers.slurm.site.agent import read, submit
from launcher.schedulers.slurm.site.agent.observe import add_replicas
from launcher.schedulers.slurm.site.agent.site import SECOND_LOOK_S, Folder
from tests.unit.slurm.agents import Login, commands, replace_sleep


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    monkeypatch.setenv("PATH", str(tmp_path / "missing"))  # a call of Slurm would be an error
    return Login(tmp_path)


ROW = "\\0367\\037PENDING\\0370\\037N/A\\037N/A\\037N/A\\037(null)\\037JobHeldUser\\037\\037%s"


@pytest.fixture
def has_jobs(login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A squeue that lists the held job 7 of each app."""
    listed = f"""
for folder in "{login.job_dir}"/apps/*; do
  read -r id <"$folder/id"
  printf '{ROW}' "$folder/script-$id.sh"
done"""
    monkeypatch.setenv("PATH", str(commands(tmp_path / "bin", squeue=listed)))


def test_an_app_directory_is_private_and_appears_with_all_it_needs(login):
    for _ in range(2):  # the connection of the client may have broken before the answer
        assert login.reserve("a-1", "n1") == {"resumed": False}
    assert login.names("a-1") == {"id", "owner", "attempt.json"}
    assert login.folder("a-1").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in login.folder("a-1").iterdir())
    assert os.listdir(login.job_dir / "apps") == ["a-1"]


def test_a_submission_shows_for_how_long_its_client_has_been_idle(login):
    login.reserve("a-1", "n1")
    assert 0 <= login.facts("a-1", look=False)["a-1"]["owner"]["quiet_s"] < 60
    for file in login.folder("a-1").iterdir():
        os.utime(file, (time.time() - 1000,) * 2)
    assert 1000 <= login.facts("a-1", look=False)["a-1"]["owner"]["quiet_s"] < 1060
    assert login.reserve("a-1", "n2")["detail"]["quiet_s"] >= 1000


@pytest.mark.parametrize(
    ("outcome", "message"),
    [("failed", "a failed"), ("cancelled", "a was cancelled"), ("lost", "a was lost"), ("", "a was removed")],
)
def test_an_app_whose_need_has_not_succeeded_is_skipped_instead_of_created(login, outcome, message):
    if outcome:
        login.reserve("a-1", "n1")
        login.do("end", app_id="a-1", outcome={"state": outcome})
    login.reserve("b-1", "n1")
    found = login.do(**login.creation("b-1", "n1", needs=[{"app_id": "a-1", "job": "a"}]))
    assert found == {"state": "skipped", "message": message}
    assert (login.outcome("b-1")["state"], login.outcome("b-1")["message"]) == ("skipped", message)
    assert "secrets" not in login.names("b-1")
    assert login.do("withdraw", app_id="b-1") == {"withdrawn": False}


def test_an_app_that_starts_while_a_client_looks_at_it_is_refused(login, monkeypatch):
    login.reserve("a-1", "n1")
    refuse = submit._refuse_started

    def start_after(folder: Folder) -> None:
        refuse(folder)
        folder.link("started", json.dumps({"job": "7", "at": 1.0}))

    monkeypatch.setattr(submit, "_refuse_started", start_after)
    found = login.reserve("a-1", "n2", "n1")
    assert (found["error"], found["detail"]["state"]) == ("reserved", "running")


def created(login: Login, app_id: str = "a-1", nonce: str = "n1") -> None:
    """Reserve and create, as a client does that dies before `start`."""
    login.reserve(app_id, nonce)
    (login.folder(app_id) / "job").write_text("7")
    (login.folder(app_id) / "created").write_text(json.dumps({"at": 1.0}))


def test_a_complete_submission_with_the_same_digest_is_resumed_by_one_client_only(login, has_jobs):
    created(login)
    assert login.reserve("a-1", "n2", "n1") == {"resumed": True}
    found = login.reserve("a-1", "n3", "n1")
    assert (found["error"], found["detail"]["owner"]["nonce"]) == ("reserved", "n2")
    assert login.reserve("a-1", "n3", "n1", "n2") == {"resumed": True}
    assert login.do("abort", app_id="a-1", nonce="n2") == {"removed": False}
    assert login.do("abort", app_id="a-1", nonce="n3") == {"removed": True}
    assert login.do("abort", app_id="a-1", nonce="n3") == {"removed": False}
    assert os.listdir(login.job_dir / "apps") == []


@pytest.mark.parametrize(("name", "data", "state"), [
    ("submitted", {"at": 1.0}, "queued"), ("started", {"job": "7", "at": 1.0}, "running"),
    ("started", {"cancelled": True, "at": 1.0}, "cancelled"),
    ("started", {"withdrawn": True, "at": 1.0}, "skipped"), ("outcome", {"state": "failed"}, "failed"),
])  # fmt: skip
def test_a_started_app_is_never_taken_over(login, name, data, state):
    created(login)
    (login.folder("a-1") / name).write_text(json.dumps(data))
    found = login.reserve("a-1", "n2", "n1", digest="two")
    assert (found["error"], found["detail"]["state"], found["detail"]["owner"]) == ("reserved", state, None)
    assert login.do("abort", app_id="a-1", nonce="n2") == {"removed": False}
    assert name in login.names("a-1")


def test_a_submission_whose_held_job_is_gone_is_made_anew(login, tmp_path, monkeypatch):
    """A user cancelled the held job, or the controller lost it: there is no job to release."""
    monkeypatch.setenv("PATH", str(commands(tmp_path / "bin", squeue="")))
    pauses: list[float] = []
    replace_sleep(monkeypatch, pauses.append)
    created(login)
    assert login.reserve("a-1", "n2", "n1") == {"resumed": False}
    assert login.names("a-1") == {"id", "owner", "attempt.json"}
    assert (login.folder("a-1") / "id").read_text().startswith("n2.")
    assert pauses == [SECOND_LOOK_S]


@pytest.mark.parametrize("by", ["reserve", "abort"])
def test_an_interrupted_removal_is_completed_by_the_next_client(login, by):
    created(login)
    os.link(login.folder("a-1") / "owner", login.folder("a-1") / "started")
    found = login.reserve("a-1", "n2")
    assert (found["error"], found["detail"]["owner"]["nonce"]) == ("reserved", "n1")
    facts = login.facts("a-1", look=False)["a-1"]
    fields = [facts["owner"]["nonce"], facts["submitted"], facts["started"], facts["job"]]
    assert fields == ["n1", *[None] * 3]
    assert login.do("wait", app_ids=["a-1"], seconds=0, queue=[60, 60])["missing"] == []
    if by == "abort":  # a client that cancels or lists the app acts for the dead one
        assert login.abort("n1", "a-1") == ["a-1"]
        assert os.listdir(login.job_dir / "apps") == []
    else:
        assert login.reserve("a-1", "n2", "n1") == {"resumed": False}
        assert login.names("a-1") == {"id", "owner", "attempt.json"}


@pytest.mark.parametrize("op", ["end", "remove"])
def test_a_cancellation_that_was_cut_off_is_completed_once_slurm_answers(login, tmp_path, monkeypatch, op):
    created(login)
    folder = login.folder("a-1")
    (folder / "submitting").write_text("{}")
    assert login.do("cancel", app_id="a-1", message="cancelled by ada")["error"] == "no-slurm"
    assert login.do(op, app_id="a-1", outcome={"state": "cancelled"})["error"] == "no-slurm"
    assert "outcome" not in login.names("a-1")
    squeue = f"printf '{ROW}' \"{folder}/script-$(cat {folder}/id).sh\""
    made = commands(tmp_path / "bin", squeue=squeue, scancel='echo "$@" >>"$0.log"')
    monkeypatch.setenv("PATH", f"{made}:/bin:/usr/bin")
    assert "error" not in login.do(op, app_id="a-1", outcome={"state": "cancelled"})
    assert (made / "scancel.log").read_text() == "7\n"
    assert login.outcome("a-1")["message"] == "cancelled by ada"


def test_an_app_without_a_job_is_not_resumed(login):
    login.do(**{**login.reservation("a-1", "n1"), "record": {"key": None, "name": "a", "session": "s"}})
    (login.folder("a-1") / "created").write_text("{}")
    again = {**login.reservation("a-1", "n2", "n1"), "record": {"key": None, "name": "a", "session": "s"}}
    assert login.do(**again) == {"resumed": False}
    assert "created" not in login.names("a-1")


def test_an_owner_whose_app_was_removed_writes_nothing_into_the_new_app(login):
    login.reserve("a-1", "n1")
    with Folder(str(login.folder("a-1"))) as old:
        login.reserve("a-1", "n2", "n1")
        with pytest.raises(FileNotFoundError):
            old.write("script.sh", "late")
    found = login.do(**login.creation("a-1", "n1"))
    assert (found["error"], found["detail"]["owner"]["nonce"]) == ("reserved", "n2")
    assert login.names("a-1") == {"id", "owner", "attempt.json"}


def test_a_file_that_another_client_links_meanwhile_is_not_damaged(login, monkeypatch):
    login.reserve("a-1", "n1")
    found = [None, b'{"nonce": "n2"}']
    with Folder(str(login.folder("a-1"))) as folder:
        monkeypatch.setattr(Folder, "read", lambda _folder, _name: found.pop(0))
        assert folder.json("owner.n1") is None
        assert folder.json("owner.n1") == {"nonce": "n2"}


def test_damage_in_one_app_hides_no_other(login):
    login.reserve("a-1", "n1")
    login.reserve("b-1", "n1")
    for app_id in ("a-1", "b-1"):
        (login.folder(app_id) / "outcome").write_text('{"state": "failed"}')
    (login.folder("a-1") / "attempt.json").write_text("{")
    found = login.do("observe", ended=True)
    assert found["apps"].keys() == {"b-1"}
    assert login.do("wait", app_ids=["a-1"], seconds=60)["missing"] == ["a-1"]


def test_the_latest_attempts_of_jobs_come_without_settled_ones(login):
    for app_id in ("a-1", "a-2", "a-10", "b-1", "b-2"):
        login.reserve(app_id, "n1")
        login.do("end", app_id=app_id, outcome={"state": "failed"})
    keys = [["p", "default", "a"], ["p", "default", "b"], ["q", "default", "a"]]
    assert login.do("observe", latest_of=keys)["apps"].keys() == {"a-10", "b-2"}
    assert login.do("observe", latest_of=keys, settled=["a-10"])["apps"].keys() == {"b-2"}
    assert login.do("observe")["apps"] == {}
    assert login.do("observe", ended=True, settled=["b-1"])["apps"].keys() == {"a-1", "a-2", "a-10", "b-2"}


def test_a_damaged_or_old_index_changes_no_answer(login):
    ids = [f"a-{k}" for k in range(1, 21)]
    for app_id in ids:
        login.reserve(app_id, "n1")
        login.do("end", app_id=app_id, outcome={"state": "failed", "message": "one"})
    assert login.facts(ended=True).keys() == set(ids)
    index = login.job_dir / "index"
    assert len(index.read_text().splitlines()) == 20
    (login.folder("a-1") / "attempt.json").unlink()  # what the index has is not read again
    assert login.facts(ended=True).keys() == set(ids)
    login.do("remove", app_id="a-2", forget=True)
    login.reserve("a-2", "n2")
    login.do("end", app_id="a-2", outcome={"state": "succeeded"})
    assert login.facts("a-2")["a-2"]["outcome"] == {"state": "succeeded"}
    for damage in ("", "[]\t{}\nx\n", "\x00\xff", index.read_text().replace("a-3", "../a-3")):
        index.write_text(damage)
        assert login.facts("a-3", "a-2").keys() == {"a-3", "a-2"}


def test_the_first_outcome_stays_and_secrets_go(login):
    login.reserve("a-1", "n1")
    (login.folder("a-1") / "secrets").write_text("{}")
    assert login.do("end", app_id="a-1", outcome={"state": "failed"}) == {"won": True}
    assert login.do("end", app_id="a-1", outcome={"state": "lost"}) == {"won": False}
    assert login.outcome("a-1") == {"state": "failed"}
    assert "secrets" not in login.names("a-1")


def attempt(login, number, state):
    """Return an attempt of the job `a`; a live one without a state."""
    app_id = f"a-{number}-x"
    record = {"key": ["p", "default", "a"], "number": number, "app_id": app_id, "digest": "one"}
    login.do(**{**login.reservation(f"b-{number}", "n1"), "app_id": app_id, "record": record})
    if state:
        login.do("end", app_id=app_id, outcome={"state": state})
    return app_id


@pytest.mark.parametrize(
    ("later", "kept"),
    [([], True), ([""], True), (["skipped"], True), (["failed"], False), (["failed", "skipped"], False)],
)
def test_the_outcome_that_plans_judge_a_job_by_outlives_its_app(login, later, kept):
    first = attempt(login, 9, "succeeded")
    for number, state in enumerate(later, 10):
        attempt(login, number, state)
    assert login.do("remove", app_id=first) == {"removed": True}
    assert login.folder(first).exists() == kept
    if kept:
        assert login.names(first) == {"attempt.json", "id", "outcome"}
        assert login.outcome(first)["removed"]
        assert login.do("remove", app_id=first, forget=True) == {"removed": True}
        assert not login.folder(first).exists()


def test_a_kept_outcome_replaces_the_outcomes_of_earlier_attempts(login):
    for number in (1, 2, 3):
        login.do("remove", app_id=attempt(login, number, "skipped" if number == 3 else "failed"))
    login.do(**{**login.reservation("b-1", "n1"), "record": {"key": None, "app_id": "b-1"}})
    login.do("end", app_id="b-1", outcome={"state": "failed"})
    login.do("remove", app_id="b-1")  # an app without a job
    assert sorted(os.listdir(login.job_dir / "apps")) == ["a-2-x", "a-3-x"]


def test_only_ended_apps_are_removed(login):
    login.reserve("a-1", "n1")
    assert login.do("remove", app_id="a-1")["error"] == "live"
    locked = login.folder("a-1") / "workspace" / "locked"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0o500)
    login.do("end", app_id="a-1", outcome={"state": "failed"})
    assert login.do("remove", app_id="a-1", forget=True) == {"removed": True}
    assert login.do("remove", app_id="a-1", forget=True) == {"removed": False}
    assert os.listdir(login.job_dir / "apps") == []


def test_later_operations_of_a_request_run_after_a_failed_operation(login):
    found = login.ask({"op": "events", "app_id": "none"}, {"op": "outputs"})
    assert [each.get("error") for each in found] == ["unknown-app", None]


def test_an_output_folder_is_removed_unless_a_live_app_uses_it(login):
    folder = login.do("make_output", name="a-1-x")["folder"]
    assert folder == str(login.job_dir / "outputs" / "a-1-x")
    login.do("make_output", name="a-1-xy")
    assert login.do("outputs") == {"outputs": ["a-1-x", "a-1-xy"]}
    login.reserve("a-1", "n1")
    (login.folder("a-1") / "app.json").write_text(json.dumps({"env": {"LAUNCHER_OUTPUT_DIR": folder}}))
    assert login.do("remove_output", name="a-1-x")["error"] == "live"
    assert login.do("remove_output", name="a-1-xy") == {"removed": True}
    login.do("end", app_id="a-1", outcome={"state": "failed"})
    assert login.do("remove_output", name="a-1-x") == {"removed": True}
    assert os.listdir(login.job_dir / "outputs") == []


def log(login, data, index=""):
    """Reserve an app, and write the log of its replica main/0."""
    login.reserve("a-1", "n1")
    logs = login.folder("a-1") / "logs" / "main"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(data)
    if index:
        (logs / "0.index").write_text(index)


def test_logs_are_read_as_far_as_their_index_reaches(login, monkeypatch):
    log(login, b"one\ntwo\nthree\n", "0 10 stdout\n4 11 stderr\n8 12 st")
    ask = {"app_id": "a-1", "parts": [["main", 0, 4, 0], ["main", 1, 0, 0]]}
    found = login.do("read", **ask)
    parts = [["dHdvCnRocmVlCg==", "0 10 stdout\n4 11 stderr\n"], ["", ""]]
    assert found == {"parts": parts, "live": True, "whole": False}
    assert login.do("read", **ask, limit=2)["parts"][0][0] == "dHc="
    monkeypatch.setattr(read, "TAIL", 25)
    assert login.do("read", app_id="a-1", parts=[["main", 0, 0, 0]])["parts"] == [
        ["b25lCg==", "0 10 stdout\n4 11 stderr\n"]
    ]
    assert login.do("read", app_id="a-1", parts=[["..", 0, 0, 0]])["error"] == "state"


def test_an_answer_says_whether_it_has_all_that_an_ended_app_has_printed(login):
    log(login, b"one\ntwo\n")
    login.do("end", app_id="a-1", outcome={"state": "failed"})
    ask = {"app_id": "a-1", "parts": [["main", 0, 0, 0], ["main", 1, 0, 0]]}
    assert [login.do("read", **ask, limit=limit)["whole"] for limit in (4, 8, 20)] == [False, False, True]


def test_the_logs_of_an_ended_app_are_removed_and_its_outcome_says_so(login):
    log(login, b"one\n")
    assert login.do("remove_logs", app_id="a-1")["error"] == "live"
    login.do("end", app_id="a-1", outcome={"state": "failed", "message": "why"})
    for _ in range(2):
        assert login.do("remove_logs", app_id="a-1") == {"removed": True}
        assert "logs" not in login.names("a-1")
        assert (login.outcome("a-1")["message"], "logs_removed" in login.outcome("a-1")) == ("why", True)
    assert login.do("remove_logs", app_id="a-2") == {"removed": False}


@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\n", b"one\ntwo\nthree", b"one\n\n\r\nfour is long\n"])
def test_the_last_lines_of_a_log_are_read_from_its_end(login, monkeypatch, text):
    log(login, text)
    lines = text.splitlines(keepends=True)
    for count, block in product([0, 1, 2, 3, 9], [1, 4, 100]):
        monkeypatch.setattr(read, "BLOCK", block)
        found = login.do("tail", app_id="a-1", parts=[["main", 0], ["main", 1]], lines=count, limit=1000)
        wanted = b"".join(lines[-count:] if count else [])
        assert [base64.b64decode(part) for part in found["parts"]] == [wanted, b""]


def test_last_lines_that_are_too_long_for_an_answer_are_not_sent(login, monkeypatch):
    log(login, b"x" * 100)
    monkeypatch.setattr(read, "BLOCK", 4)
    ask = {"app_id": "a-1", "parts": [["main", 0]], "lines": 1}
    assert login.do("tail", **ask, limit=16) == {"parts": [None]}
    assert login.do("tail", app_id="a-1", parts=[["..", 0]], lines=1, limit=9)["error"] == "state"


EVENTS = '{"e":"spawn","t":1}\n{"e":"re\n{"e":"restart","t":3}\n{"e":"exi'
"""With a line that a full disk has cut, and one that is being written."""


def test_only_whole_events_of_an_app_are_sent(login):
    login.reserve("a-1", "n1")
    assert login.do("events", app_id="a-1") == {"events": []}
    (login.folder("a-1") / "events").write_text(EVENTS)
    assert [each["e"] for each in login.do("events", app_id="a-1")["events"]] == ["spawn", "restart"]


@pytest.mark.parametrize("outcome", ["", '{"state": "lost", "replicas": []}'])
def test_an_app_without_an_outcome_of_its_replicas_has_its_events_and_what_wrappers_recorded(login, outcome):
    login.reserve("a-1", "n1")
    folder = login.folder("a-1")
    (folder / "replicas" / "main").mkdir(parents=True)
    (folder / "replicas" / "main" / "0.json").write_text('{"k": 0}')
    (folder / "events").write_text(EVENTS)
    if outcome:
        (folder / "outcome").write_text(outcome)
    ask = {"app_ids": ["a-1"], "ended": True, "look": False}
    found = login.do("observe", **ask, replicas=True)["apps"]["a-1"]
    assert ([each["e"] for each in found["events"]], found["replicas"]) == (["spawn", "restart"], [{"k": 0}])
    assert "events" not in login.do("observe", **ask)["apps"]["a-1"]


def test_an_app_whose_outcome_has_its_replicas_has_no_events(login):
    login.reserve("a-1", "n1")
    (login.folder("a-1") / "outcome").write_text('{"state": "failed", "replicas": [{"k": 0}]}')
    found = login.do("observe", app_ids=["a-1"], ended=True, look=False, replicas=True)["apps"]["a-1"]
    assert "events" not in found


def test_a_machine_without_slurm_says_so(login):
    found = login.do("hello")
    text = f"there is no scontrol on {os.uname().nodename}"
    assert (found["error"], found["message"]) == ("no-slurm", text)


def test_only_replicas_with_an_error_file_are_read_of_a_live_app(login):
    login.reserve("a-1", "n1")
    records = login.folder("a-1") / "replicas" / "main"
    records.mkdir(parents=True)
    for k in range(12):
        (records / f"{k}.json").write_text(json.dumps({"k": k}))
    (records / "11.error").write_text("{}")
    (records / "2.error").write_text("{}")
    for queue, found in (([{"state": "RUNNING"}], [2, 11]), ([], list(range(12)))):
        facts = {"queue": queue, "outcome": None}
        with Folder(str(login.folder("a-1"))) as folder:
            add_replicas(folder, facts)
        assert [each["k"] for each in facts["replicas"]] == found
