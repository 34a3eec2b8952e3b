"""The agent with a real cluster: jobs are submitted held, released once, observed and cancelled."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.schedulers.slurm.site.agent import observe, slurm as slurm_
from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login, commands, replace_sleep
from tests.waiting import until


@pytest.fixture
def login(slurm: SlurmCluster, tmp_path: Path) -> Login:
    return Login(tmp_path)


def in_queue(login: Login, slurm: SlurmCluster, state: str = "") -> list[str]:
    """Return the names of the queued jobs of this test."""
    jobs = slurm.jobs(below=str(login.job_dir))
    return sorted(job.name for job in jobs if state in ("", job.state))


def create(login: Login, app_id: str, nonce: str = "n1", work: str = "", **fields: object) -> dict:
    login.reserve(app_id, nonce)
    return login.do(**login.creation(app_id, nonce, work, **fields))


def gate(login: Login) -> tuple[str, Path]:
    """Return a line of a script that waits until a file is there, and the file."""
    path = login.job_dir.parent / "gate"
    return f'until [ -e "{path}" ]; do sleep 0.1; done', path


def test_an_app_is_held_until_its_start_and_runs_once(login, slurm):
    assert create(login, "a-1").keys() == {"job"}
    facts = login.facts()["a-1"]
    assert [(row["state"], row["held"]) for row in facts["queue"]] == [("PENDING", True)]
    assert (facts["submitted"], facts["owner"]["nonce"]) == (None, "n1")
    assert {path.stat().st_mode & 0o077 for path in login.folder("a-1").iterdir()} == {0}
    assert login.do("start", app_id="a-1", nonce="n1") == {"state": "queued"}
    found = login.do("wait", app_ids=["a-1"], seconds=60)
    assert found["apps"]["a-1"]["outcome"]["state"] == "succeeded"
    assert login.started() == ["a-1"]
    assert login.do("start", app_id="a-1", nonce="n1") == {"state": "succeeded"}
    assert "owner" not in login.names("a-1")


def test_a_wait_returns_at_the_end_of_its_time_or_for_an_unknown_app(login):
    work, path = gate(login)
    login.submit("a-1", "n1", work=work)
    found = login.do("wait", app_ids=["a-1"], seconds=0)
    assert (found["apps"], found["missing"], found["errors"]) == ({}, [], {})
    path.touch()
    login.wait_for("a-1")
    assert login.do("wait", app_ids=["a-1", "b-1"], seconds=60)["missing"] == ["b-1"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--partition=nosuch",
            "Invalid partition name specified (invalid partition specified: nosuch)",
        ),
        ("--reservation=nosuch", "Requested reservation is invalid"),
    ],
)
def test_a_refused_job_leaves_a_reservation_that_can_be_aborted(login, slurm, option, message):
    found = create(login, "a-1", argv=["sbatch", option])
    assert (found["error"], found["message"]) == ("refused", message)
    assert "created" not in login.names("a-1")
    assert login.do("abort", app_id="a-1", nonce="n1") == {"removed": True}
    assert os.listdir(login.job_dir / "apps") == []


@pytest.mark.parametrize("word", ["/etc/passwd", "rm"])
def test_only_options_are_passed_to_sbatch(login, word):
    assert create(login, "a-1", argv=["sbatch", word])["error"] == "state"
    assert create(login, "a-2", argv=[word])["error"] == "state"


def test_variables_of_the_client_change_no_job_and_get_into_none(login, monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "nosuch")
    monkeypatch.setenv("SQUEUE_STATES", "SUSPENDED")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SECRET_OF_CLIENT", "1")
    login.submit("a-1", "n1", work='env >"$PWD/env"')
    login.wait_for("a-1")
    env = (login.folder("a-1") / "env").read_text()
    assert "SECRET_OF_CLIENT" not in env
    assert f"HOME={os.environ['HOME']}\n" in env


def test_abort_cancels_the_held_job(login, slurm):
    create(login, "a-1")
    assert in_queue(login, slurm) == ["a-1"]
    assert login.do("abort", app_id="a-1", nonce="n1") == {"removed": True}
    assert in_queue(login, slurm) == []
    assert os.listdir(login.job_dir / "apps") == []


def test_a_submission_is_resumed_with_its_job(login, slurm):
    job = create(login, "a-1")["job"]
    assert login.reserve("a-1", "n2", "n1") == {"resumed": True}
    assert login.do("start", app_id="a-1", nonce="n1")["error"] == "reserved"
    assert login.do(**login.creation("a-1", "n2")) == {"job": job}
    login.do("start", app_id="a-1", nonce="n2")
    login.wait_for("a-1")
    assert login.started() == ["a-1"]


def test_a_held_job_that_is_cancelled_is_submitted_again_by_the_next_client(login, slurm):
    job = create(login, "a-1")["job"]
    subprocess.run(["scancel", job], check=True)
    found = login.do("start", app_id="a-1", nonce="n1")
    assert (found["error"], found["message"]) == (
        "state",
        f"job {job} of a-1 has gone: it was cancelled, or Slurm's controller lost it",
    )
    assert login.reserve("a-1", "n2", "n1") == {"resumed": False}
    work, path = gate(login)
    assert login.submit("a-1", "n2", work=work) in ("queued", "running")  # slurmctld may have begun it
    path.touch()
    login.wait_for("a-1")
    assert login.started() == ["a-1"]


def test_another_digest_cancels_the_held_job(login, slurm):
    create(login, "a-1")
    work, path = gate(login)
    assert login.submit("a-1", "n2", "n1", digest="two", work=work) in ("queued", "running")
    path.touch()
    login.wait_for("a-1")
    assert login.started() == ["a-1"]
    assert in_queue(login, slurm, "PENDING") == []


def test_a_second_client_cannot_remove_an_app_that_was_released(login, slurm):
    """The first client was killed between the release and its record."""
    work, path = gate(login)
    job = create(login, "a-1", work=work)["job"]
    subprocess.run(["scontrol", "release", job], check=True)
    until(lambda: "started" in login.names("a-1"))
    found = login.reserve("a-1", "n2", "n1", digest="two")
    assert (found["error"], found["detail"]["state"]) == ("reserved", "running")
    assert login.facts("a-1")["a-1"]["submitted"] is not None
    path.touch()
    login.wait_for("a-1")


def test_a_job_depends_on_its_need_only_until_the_need_has_ended(login, slurm):
    work, path = gate(login)
    login.submit("a-1", "n1", work=work)
    needs = [{"app_id": "a-1", "job": "a"}]
    assert login.submit("b-1", "n1", needs=needs) == "waiting"
    facts = login.facts("b-1")["b-1"]
    assert facts["needs"] == {"a-1": ""}
    assert facts["queue"][0]["dependency"].startswith("afterok:")
    path.touch()
    login.wait_for("a-1", "b-1")
    assert login.submit("c-1", "n1", needs=needs) == "queued"
    login.wait_for("c-1")
    assert login.started() == ["a-1", "b-1", "c-1"]


@pytest.mark.parametrize(
    ("outcome", "output"), [("failed", "a failed"), ("cancelled", "a was cancelled"), ("lost", "a was lost")]
)
def test_an_app_is_skipped_whose_need_has_not_succeeded(login, slurm, outcome, output):
    login.reserve("a-1", "n1")
    login.do("end", app_id="a-1", outcome={"state": outcome})
    found = create(login, "b-1", needs=[{"app_id": "a-1", "job": "a"}])
    assert found == {"skipped": "a-1", "message": output}
    assert (login.outcome("b-1")["state"], login.outcome("b-1")["message"]) == ("skipped", output)
    assert "secrets" not in login.names("b-1")
    assert create(login, "c-1", needs=[{"app_id": "gone-1", "job": "g"}])["message"] == "g was removed"
    assert in_queue(login, slurm) == []


def test_a_need_that_slurm_has_forgotten_starts_nothing(login, slurm):
    """Slurm accepts a dependency on a job that it does not know, and drops it."""
    login.reserve("a-1", "n1")
    (login.folder("a-1") / "job").write_text("999999")
    assert create(login, "b-1", needs=[{"app_id": "a-1", "job": "a"}]).keys() == {"job"}
    found = login.do("start", app_id="b-1", nonce="n1")
    assert found == {"state": "skipped", "skipped": "a-1", "message": "a was lost"}
    assert login.outcome("b-1")["message"] == "a was lost"
    assert in_queue(login, slurm) == []


def test_a_need_that_fails_before_the_start_skips_the_app(login, slurm):
    create(login, "a-1")
    create(login, "b-1", needs=[{"app_id": "a-1", "job": "a"}])
    assert login.do("cancel", app_id="a-1") == {"is": "pending"}
    until(lambda: in_queue(login, slurm) == [])
    assert login.do("start", app_id="b-1", nonce="n1")["message"] == "a was cancelled"
    assert login.outcome("b-1")["state"] == "skipped"


def test_a_pending_app_is_cancelled_for_good(login, slurm):
    create(login, "a-1")
    assert login.do("cancel", app_id="a-1", message="cancelled by ada") == {"is": "pending"}
    assert (login.outcome("a-1")["state"], login.outcome("a-1")["message"]) == (
        "cancelled",
        "cancelled by ada",
    )
    assert login.do("start", app_id="a-1", nonce="n1") == {"state": "cancelled"}
    assert login.do("cancel", app_id="a-1") == {"is": "ended"}
    assert login.do("cancel", app_id="b-1") == {"is": "unknown"}
    assert in_queue(login, slurm) == []


def test_a_running_app_gets_the_signal_and_the_reason(login, slurm):
    work = "trap 'cp cancel got; exec true' USR2; while :; do sleep 0.1; done"
    login.submit("a-1", "n1", work=work)
    until(lambda: "started" in login.names("a-1"))
    assert login.do("cancel", app_id="a-1", grace_s=2.5, message="m") == {"is": "running"}
    until(lambda: "got" in login.names("a-1"))
    got = json.loads((login.folder("a-1") / "got").read_text())
    assert (got["grace_s"], got["interrupt"], got["message"]) == (2.5, False, "m")
    found = login.do("wait", app_ids=["a-1"], seconds=60)["apps"]["a-1"]
    assert found["vanished"]
    assert found["ended"]["state"] in ("COMPLETED", "CANCELLED")
    assert login.do("cancel", app_id="a-1") == {"is": "ended"}


def test_the_apps_of_one_request_are_cancelled_with_one_look_and_a_call_for_each_kind(
    login, slurm, tmp_path, monkeypatch
):
    login.submit("runs-1", "n1", work="trap 'exit 1' USR2; while :; do sleep 0.1; done")
    until(lambda: "started" in login.names("runs-1"))
    for app_id in ("waits-1", "waits-2", "over-1"):
        create(login, app_id)
    login.do("cancel", app_id="over-1")
    real = {name: shutil.which(name) for name in ("scancel", "squeue")}
    made = commands(
        tmp_path / "bin", **{n: f'echo {n} $# >>{tmp_path}/calls\nexec {real[n]} "$@"' for n in real}
    )
    monkeypatch.setenv("PATH", f"{made}{os.pathsep}{os.environ['PATH']}")
    ids = ["runs-1", "waits-1", "waits-2", "over-1", "gone-1", ".."]
    found = login.ask(*({"op": "cancel", "app_id": each} for each in ids))
    assert found[:5] == [{"is": each} for each in ("running", "pending", "pending", "ended", "unknown")]
    assert found[5]["error"] == "state"
    called = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [words[0] for words in called] == ["squeue", "scancel", "scancel"]
    assert [words[1] for words in called[1:]] == ["2", "3"]  # the second one has --signal and --batch
    until(lambda: in_queue(login, slurm) == [])
    assert {login.outcome(each)["state"] for each in ("waits-1", "waits-2")} == {"cancelled"}
    assert login.started() == ["runs-1"]


def test_a_forced_cancel_needs_no_conductor(login, slurm):
    work, _ = gate(login)
    login.submit("a-1", "n1", work=f"trap '' USR2 TERM; {work}")
    until(lambda: "started" in login.names("a-1"))
    assert login.do("cancel", app_id="a-1", force=True) == {"is": "running"}
    found = login.do("wait", app_ids=["a-1"], seconds=60)["apps"]["a-1"]
    assert (found["vanished"], found["ended"]["state"]) == (True, "CANCELLED")
    assert found["cancel"]["force"] is True


def test_a_requeued_job_that_waits_is_cancelled(login, slurm):
    work, _ = gate(login)
    login.submit("a-1", "n1", work=work, argv=["sbatch", "--requeue"])
    login.may_be_requeued("a-1")
    until(lambda: "started" in login.names("a-1"))
    job = login.facts("a-1")["a-1"]["job"]
    subprocess.run(["scontrol", "requeuehold", job], check=True)
    until(lambda: in_queue(login, slurm, "PENDING") == ["a-1"])
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["started"]["job"]) == (False, job)
    assert login.do("cancel", app_id="a-1") == {"is": "pending"}
    assert login.outcome("a-1")["state"] == "cancelled"
    assert in_queue(login, slurm) == []


def test_an_app_that_has_not_started_can_be_withdrawn(login, slurm):
    create(login, "a-1")
    assert login.do("withdraw", app_id="a-1") == {"withdrawn": True}
    assert login.do("withdraw", app_id="a-1") == {"withdrawn": True}
    assert (login.outcome("a-1")["state"], login.outcome("a-1")["message"]) == ("skipped", "withdrawn")
    login.submit("b-1", "n1")
    login.wait_for("b-1")
    assert login.do("withdraw", app_id="b-1") == {"withdrawn": False}
    assert in_queue(login, slurm, "PENDING") == []


def test_a_job_that_dies_without_an_outcome_has_vanished(login, slurm):
    login.submit("a-1", "n1", work="kill -9 $$")
    found = login.do("wait", app_ids=["a-1"], seconds=60)["apps"]["a-1"]
    assert (found["vanished"], found["ended"]["state"], found["ended"]["exit"]) == (True, "FAILED", "0:9")
    assert found["ended"]["nodes"].startswith("n")


def test_a_job_that_slurm_has_forgotten_has_vanished_after_a_second_look(login, slurm, monkeypatch):
    create(login, "a-1")
    login.do("abort", app_id="a-1", nonce="n1")
    login.reserve("a-1", "n1")
    for name, text in {"job": "999999", "created": '{"at":1}', "submitted": '{"at":1}'}.items():
        (login.folder("a-1") / name).write_text(text)
    pauses: list[float] = []
    replace_sleep(monkeypatch, pauses.append)
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["ended"], pauses) == (True, None, [observe.SECOND_LOOK_S])


def test_apps_of_two_job_directories_share_a_name_and_no_job(login, slurm, tmp_path):
    other = Login(tmp_path / "other")
    create(login, "a-1")
    create(other, "a-1")
    assert len(login.facts("a-1")["a-1"]["queue"]) == 1
    assert login.do("abort", app_id="a-1", nonce="n1") == {"removed": True}
    assert in_queue(other, slurm) == ["a-1"]
    other.do("abort", app_id="a-1", nonce="n1")


def test_jobs_of_others_with_the_same_name_are_left_alone(login, slurm, tmp_path):
    mine = ["sbatch", "--parsable", "--hold", "--job-name=a-1", "-o", "/dev/null", "--wrap", "true"]
    other = subprocess.run(mine, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    create(login, "a-1")
    assert login.facts()["a-1"]["job"] != other
    login.do("cancel", app_id="a-1")
    login.do("sweep")
    assert [job.id for job in slurm.jobs(below=str(tmp_path))] == [other]
    subprocess.run(["scancel", other], check=True)


def test_sweep_cancels_jobs_of_removed_and_ended_apps(login, slurm):
    for app_id in ("gone-1", "ended-1", "kept-1"):
        create(login, app_id)
    os.rename(login.folder("gone-1"), login.job_dir / "apps" / ".gone-gone-1-x")
    login.do("end", app_id="ended-1", outcome={"state": "lost"})  # which cancels its job
    swept = login.do("sweep")["removed"]
    assert len(swept) == 2
    assert in_queue(login, slurm) == ["kept-1"]
    assert sorted(os.listdir(login.job_dir / "apps")) == ["ended-1", "kept-1"]
    assert login.do("sweep") == {"removed": []}
    login.do("abort", app_id="kept-1", nonce="n1")


def test_hello_returns_the_cluster_and_its_folders(login, slurm):
    found = login.do("hello")
    assert (found["job_dir"], found["home"]) == (str(login.job_dir), os.environ["HOME"])
    assert found["cluster"]
    assert found["slurm"].startswith("2")


def test_the_number_of_calls_does_not_grow_with_the_apps(login, slurm, monkeypatch):
    called: list[list[str]] = []
    real = slurm_.call
    for k in range(1, 31):
        login.reserve(f"a-{k}", "n1")
        (login.folder(f"a-{k}") / "job").write_text(str(900000 + k))
        (login.folder(f"a-{k}") / "created").write_text('{"at":1}')

    def call(argv: list[str], *args: object) -> object:
        called.append(list(argv))
        return real(argv, *args)

    monkeypatch.setattr(slurm_, "call", call)
    monkeypatch.setattr(observe, "SECOND_LOOK_S", 0)
    login.facts()
    assert [argv[0] for argv in called] == ["squeue", "sacct"] * 2  # two looks
    assert all({"-u", "-j"} & set(argv) for argv in called)  # none for the whole cluster


def rename(login: Login, app_id: str) -> str:
    """Give the job of an app another name; returns its id."""
    job = (login.folder(app_id) / "job").read_text()
    subprocess.run(["scontrol", "update", f"jobid={job}", "name=mine"], check=True)
    return job


def test_a_renamed_job_still_belongs_to_its_app(login, slurm):
    work, path = gate(login)
    login.submit("a-1", "n1", work=work)
    until(lambda: "started" in login.names("a-1"))
    job = rename(login, "a-1")
    facts = login.facts("a-1")["a-1"]
    assert [(row["job"], row["state"]) for row in facts["queue"]] == [(job, "RUNNING")]
    assert not facts["vanished"]
    assert login.submit("b-1", "n1", needs=[{"app_id": "a-1", "job": "a"}]) == "waiting"
    assert login.facts("b-1")["b-1"]["queue"][0]["dependency"].startswith(f"afterok:{job}")
    path.touch()
    login.wait_for("a-1", "b-1")


def test_a_renamed_held_job_is_resumed(login, slurm):
    create(login, "a-1")
    rename(login, "a-1")
    assert login.reserve("a-1", "n2", "n1") == {"resumed": True}
    assert login.do("start", app_id="a-1", nonce="n2") == {"state": "queued"}
    login.wait_for("a-1")
    assert login.started() == ["a-1"]


@pytest.mark.parametrize("op", ["abort", "cancel", "withdraw"])
def test_a_renamed_held_job_is_cancelled_with_its_app(login, slurm, op):
    create(login, "a-1")
    rename(login, "a-1")
    login.do(op, app_id="a-1", nonce="n1")
    until(lambda: in_queue(login, slurm) == [])


def test_sweep_cancels_renamed_jobs_of_apps_that_are_gone_and_no_others(login, slurm):
    for app_id in ("gone-1", "kept-1"):
        create(login, app_id)
        rename(login, app_id)
    os.rename(login.folder("gone-1"), login.job_dir / "apps" / ".gone-gone-1-x")
    assert len(login.do("sweep")["removed"]) == 2
    assert in_queue(login, slurm) == ["mine"]
    login.do("abort", app_id="kept-1", nonce="n1")
    assert in_queue(login, slurm) == []
