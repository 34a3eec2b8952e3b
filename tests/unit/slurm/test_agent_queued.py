"""Apps that a client knows to be queued: those of which there is nothing new are answered in short."""

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.slurm.site.agent.site import Folder
from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login, commands

CREATED_AT = 1795811239.4352643
FIELDS = ("{job}", "{state}", "{priority}", "N/A", "N/A", "N/A", "{dependency}", "Priority", "", "{script}")
ROW = "\\036" + "\\037".join(FIELDS)


class Queue:
    """Apps of a job directory, and what squeue says of them: at first that job 7 of each is held."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.login = Login(folder)
        self.rows = folder / "rows"
        self.log = folder / "calls"
        squeue = f'echo "$@" >>{self.log}; printf "$(cat {self.rows})"'
        made = commands(folder / "bin", squeue=squeue, scontrol="", sacct="exit 1", scancel="")
        monkeypatch.setenv("PATH", f"{made}{os.pathsep}{os.environ['PATH']}")

    def lists(self, app_id: str = "a-1", **fields: str) -> None:
        script = str(self.login.folder(app_id) / f"script-{self.generation(app_id)}.sh")
        usual = {"job": "7", "state": "PENDING", "priority": "9", "dependency": "(null)", "script": script}
        self.rows.write_text(ROW.format(**{**usual, **fields}))

    def generation(self, app_id: str = "a-1") -> str:
        return (self.login.folder(app_id) / "id").read_text()

    def submit(self, app_id: str = "a-1") -> None:
        reservation = self.login.reservation(app_id, "n1")
        reservation["record"].update(created_at=CREATED_AT, state="reserved")
        assert self.login.do(**reservation) == {"resumed": False}
        (self.login.folder(app_id) / "job").write_text("7")
        (self.login.folder(app_id) / "created").write_text('{"at": 1.0}')
        self.lists(app_id, priority="0")
        assert self.login.do("start", app_id=app_id, nonce="n1") == {"state": "queued"}
        self.lists(app_id)

    def write(self, name: str, text: str = "{}", app_id: str = "a-1") -> None:
        (self.login.folder(app_id) / name).write_text(text)

    def observe(self, **fields: Any) -> dict[str, Any]:
        return self.login.do("observe", **{"queued": {"a-1": CREATED_AT}, **fields})

    def is_answered_in_short(self) -> bool:
        """Return whether the only app is answered in short; otherwise it is answered in full."""
        found = self.observe()
        short = [app_id for group in found["queued"] for app_id in group["jobs"]]
        assert sorted([*short, *found["apps"]]) == ["a-1"]
        return bool(short)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue(tmp_path, monkeypatch)
    made.submit()
    return made


def test_a_queued_app_is_answered_with_its_job_and_its_row_of_squeue_alone(queue):
    found = queue.observe()
    assert found["apps"] == {}
    (group,) = found["queued"]
    assert group["jobs"] == {"a-1": "7"}
    full = queue.login.facts("a-1")["a-1"]["queue"]
    assert [group["row"]] == full


def test_a_decision_before_the_end_of_the_submission_is_noticed(queue, monkeypatch):
    """The job may start, or another client may cancel it, as soon as it is released."""
    monkeypatch.setattr("launcher.schedulers.slurm.site.agent.observe.SECOND_LOOK_S", 0.0)
    path, names = queue.login.folder("b-1"), Folder.names

    def decided(folder):
        if folder.app_id == "b-1" and (path / "submitted").exists():
            (path / "cancel").write_text("{}")
        return names(folder)

    monkeypatch.setattr(Folder, "names", decided)
    queue.submit("b-1")
    assert queue.observe(queued={"b-1": CREATED_AT})["apps"].keys() == {"a-1", "b-1"}


def test_a_submission_succeeds_where_the_time_of_a_folder_cannot_be_set(queue, monkeypatch):
    utime = os.utime

    def refused(path, *args):
        if os.fspath(path).endswith("b-1"):
            raise PermissionError(path)
        utime(path, *args)

    monkeypatch.setattr(os, "utime", refused)
    queue.submit("b-1")
    assert queue.observe(app_ids=["b-1"], queued={"b-1": CREATED_AT})["apps"].keys() == {"b-1"}


@pytest.mark.parametrize("change", [
    pytest.param(lambda queue: os.utime(queue.login.folder("a-1")), id="submitted by an older version"),
    pytest.param(lambda queue: queue.lists(state="RUNNING"), id="runs"),
    pytest.param(lambda queue: queue.lists(state="COMPLETED"), id="has ended"),
    pytest.param(lambda queue: queue.lists(priority="0"), id="is held"),
    pytest.param(lambda queue: queue.lists(dependency="afterok:8(unfulfilled)"), id="waits for a job"),
    pytest.param(lambda queue: queue.lists(script="/j/apps/a-1/script-n1.sh"), id="of another folder"),
    pytest.param(lambda queue: queue.lists(script="/j/apps/b-1/script-n1.sh"), id="of another app"),
    pytest.param(lambda queue: queue.rows.write_text(queue.rows.read_text() * 2), id="two jobs"),
    pytest.param(lambda queue: queue.write("started", '{"job": "7", "at": 1.0}'), id="started"),
    pytest.param(lambda queue: queue.write("started", '{"cancelled": true, "at": 1.0}'), id="given up"),
    pytest.param(lambda queue: queue.write("cancel"), id="to be cancelled"),
])  # fmt: skip
def test_an_app_whose_job_does_not_merely_wait_is_answered_in_full(queue, change, monkeypatch):
    monkeypatch.setattr("launcher.schedulers.slurm.site.agent.observe.SECOND_LOOK_S", 0.0)
    assert queue.is_answered_in_short()
    change(queue)
    assert not queue.is_answered_in_short()


def test_an_app_with_an_outcome_is_answered_in_full(queue):
    queue.write("outcome", '{"state": "failed"}')
    found = queue.observe(ended=True)
    assert (found["queued"], found["apps"].keys()) == ([], {"a-1"})


def test_ended_jobs_of_former_apps_with_the_id_do_not_count(queue):
    own = queue.rows.read_text()
    queue.lists(job="6", state="COMPLETED", script="/j/apps/a-1/script-n0.sh")
    queue.rows.write_text(queue.rows.read_text() + own)
    (group,) = queue.observe()["queued"]
    assert group["jobs"] == {"a-1": "7"}


def test_another_attempt_with_the_id_is_answered_in_full(queue):
    assert queue.observe(queued={"a-1": CREATED_AT + 1})["apps"].keys() == {"a-1"}


def test_unknown_and_hostile_ids_are_no_apps(queue):
    wrong = dict.fromkeys(["b-1", "..", "../apps/a-1", "", "/etc"], CREATED_AT)
    found = queue.observe(queued={**wrong, "a-1": CREATED_AT})
    assert [group["jobs"] for group in found["queued"]] == [{"a-1": "7"}]


def test_one_look_at_the_queue_serves_apps_in_short_and_in_full(queue):
    queue.login.do(**queue.login.reservation("b-1", "n2"))
    queue.log.write_text("")
    found = queue.observe()
    assert (len(found["queued"]), found["apps"].keys()) == (1, {"b-1"})
    assert queue.log.read_text().count("\n") == 1


def test_without_slurm_every_app_is_answered_from_its_folder(queue, tmp_path):
    down = "echo 'squeue: error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    commands(tmp_path / "bin", squeue=down)
    found = queue.observe()
    assert found["error"] == "unreachable"
    assert found["detail"]["apps"].keys() == {"a-1"}


def test_a_cut_list_of_tasks_is_asked_for_line_by_line(queue, tmp_path):
    folder = tmp_path / "slurm" / "arrays" / "x"
    folder.mkdir(parents=True)
    (folder / "tasks").write_text(f"a-1 {queue.generation()}\n")
    cut, whole = (ROW.format(job=job, state="PENDING", priority="9", dependency="(null)",
                             script=folder / "array.sh") for job in ("7_[0-3,...]", "7_0"))  # fmt: skip
    commands(tmp_path / "bin", squeue=f"""case "$*" in *-r*) printf '{whole}';; *) printf '{cut}';; esac""")
    (group,) = queue.observe()["queued"]
    assert group["jobs"] == {"a-1": "7_0"}


def test_every_other_task_of_an_array_is_seen(slurm: SlurmCluster, tmp_path):
    """`squeue -r` leaves out the last task of a list with a step, as 22.05 writes it: `7_[0-48:2]`."""
    login = Login(tmp_path)
    ids = [f"step{k}-1" for k in range(50)]
    for app_id in ids:
        login.reserve(app_id, "n1")
    op = login.array("x", "n1", *ids)
    later = op["script"].replace("\n#SBATCH --array", "\n#SBATCH --begin=now+1hour\n#SBATCH --array")
    assert "error" not in login.do(**{**op, "script": later})
    login.start("n1", *ids)
    for app_id in ids[1::2]:
        login.do("cancel", app_id=app_id)
    found = login.facts()
    assert {app_id: len(facts["queue"]) for app_id, facts in found.items()} == dict.fromkeys(ids[::2], 1)
    for app_id in ids[::2]:
        login.do("cancel", app_id=app_id)
