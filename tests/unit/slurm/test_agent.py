"""The agent with a real cluster: jobs are submitted held, released once, observed and cancelled."""

import os
import shutil
import subprocess
from pathlib import Path

from launcher.schedulers.slurm.site.agent import observe, slurm as slurm_
from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login, commands
from tests.waiting import until


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


def test_the_start_of_an_app_whose_held_job_was_cancelled_names_the_job(login):
    job = create(login, "a-1")["job"]
    subprocess.run(["scancel", job], check=True)
    found = login.do("start", app_id="a-1", nonce="n1")
    why = f"job {job} of a-1 has gone: it was cancelled, or Slurm's controller lost it"
    assert (found["error"], found["message"]) == ("state", why)


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


def test_a_need_that_slurm_has_forgotten_starts_nothing(login, slurm):
    """Slurm accepts a dependency on a job that it does not know, and drops it."""
    login.reserve("a-1", "n1")
    (login.folder("a-1") / "job").write_text("999999")
    assert create(login, "b-1", needs=[{"app_id": "a-1", "job": "a"}]).keys() == {"job"}
    found = login.do("start", app_id="b-1", nonce="n1")
    assert found == {"state": "skipped", "message": "a was lost"}
    assert login.outcome("b-1")["message"] == "a was lost"
    assert in_queue(login, slurm) == []


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
    found = login.ask(*({"op": "cancel", "app_id": each, "message": "cancelled by ada"} for each in ids))
    assert found[:5] == [{"is": each} for each in ("running", "pending", "pending", "ended", "unknown")]
    assert found[5]["error"] == "state"
    called = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [words[0] for words in called] == ["squeue", "scancel", "scancel"]
    assert [words[1] for words in called[1:]] == ["2", "3"]  # the second one has --signal and --batch
    until(lambda: in_queue(login, slurm) == [])
    assert {login.outcome(each)["message"] for each in ("waits-1", "waits-2")} == {"cancelled by ada"}
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
    script = login.creation("a-1", "n1", work)["script"].replace("#SBATCH ", "#SBATCH --requeue ")
    login.submit("a-1", "n1", script=script)
    login.may_be_requeued("a-1")
    until(lambda: "started" in login.names("a-1"))
    job = login.facts("a-1")["a-1"]["job"]
    subprocess.run(["scontrol", "requeuehold", job], check=True)
    until(lambda: in_queue(login, slurm, "PENDING") == ["a-1"])
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["started"]["job"]) == (False, job)
    assert login.do("cancel", app_id="a-1") == {"is": "pending"}
    assert in_queue(login, slurm) == []
    facts = login.facts("a-1")["a-1"]
    assert (facts["vanished"], facts["cancel"]["message"], facts["outcome"]) == (True, "cancelled", None)


def test_a_job_that_dies_without_an_outcome_has_vanished(login, slurm):
    login.submit("a-1", "n1", work="kill -9 $$")
    found = login.do("wait", app_ids=["a-1"], seconds=60)["apps"]["a-1"]
    assert (found["vanished"], found["ended"]["state"], found["ended"]["exit"]) == (True, "FAILED", "0:9")
    assert found["ended"]["nodes"].startswith("n")


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


def test_jobs_with_the_name_of_an_app_that_are_not_its_own_are_left_alone(login, slurm, tmp_path):
    """A job of a user, and that of an app in another job directory."""
    mine = ["sbatch", "--parsable", "--hold", "--job-name=a-1", "-o", "/dev/null", "--wrap", "true"]
    other = subprocess.run(mine, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    elsewhere = create(Login(tmp_path / "other"), "a-1")["job"]
    job = create(login, "a-1")["job"]
    assert [row["job"] for row in login.facts()["a-1"]["queue"]] == [job]
    login.do("abort", app_id="a-1", nonce="n1")
    login.do("sweep")
    assert {job.id for job in slurm.jobs(below=str(tmp_path))} == {elsewhere, other}
    subprocess.run(["scancel", elsewhere, other], check=True)


def test_sweep_cancels_the_jobs_of_apps_that_are_gone_or_have_ended_whatever_their_names(login, slurm):
    for app_id in ("gone-1", "ended-1", "kept-1"):
        create(login, app_id)
        rename(login, app_id)
    os.rename(login.folder("gone-1"), login.job_dir / "apps" / ".gone-gone-1-x")
    login.do("end", app_id="ended-1", outcome={"state": "lost"})  # which cancels its job
    for _ in range(2):
        login.do("sweep")
        assert in_queue(login, slurm) == ["mine"]
        assert sorted(os.listdir(login.job_dir / "apps")) == ["ended-1", "kept-1"]
    login.do("abort", app_id="kept-1", nonce="n1")
    assert in_queue(login, slurm) == []
