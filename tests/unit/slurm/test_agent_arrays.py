"""Many apps as tasks of one array: what the agent writes, releases and takes back. With a real cluster."""

from __future__ import annotations

import os
import resource
import shutil

import pytest

from launcher.schedulers.slurm.site.agent.slurm import OpError, Slurm
from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login, commands
from tests.waiting import until

APPS = ("a-1", "b-1", "c-1")


def created(login: Login, *app_ids: str) -> str:
    """Reserve the apps, and create them as an array; its job."""
    for each in app_ids:
        assert login.reserve(each, "n1") == {"resumed": False}
    found = login.do(**login.array("x", "n1", *app_ids))
    assert found["lost"] == {}
    return str(found["jobs"][0])


def queue(login: Login, slurm: SlurmCluster) -> list[str]:
    """Return the tasks that Slurm has, as squeue -r writes them."""
    lines = slurm.run("squeue", "-h", "-r", "-o", "%i %Z").splitlines()
    rows = [each.partition(" ") for each in lines]
    return sorted(job for job, _, folder in rows if str(login.job_dir) in folder)


def is_held(slurm: SlurmCluster, job: str) -> bool:
    return slurm.run("squeue", "-h", "-r", "-j", job, "-o", "%Q").split() == ["0"]


def test_the_apps_of_an_array_are_held_until_all_are_released_and_run_once_each(login, slurm):
    job = created(login, *APPS)
    assert queue(login, slurm) == [f"{job}_{k}" for k in range(3)]
    assert all(is_held(slurm, each) for each in queue(login, slurm))
    for facts in login.facts(*APPS).values():
        assert (facts["created"] is None, facts["submitted"], facts["owner"]["nonce"]) == (False, None, "n1")
    assert {path.stat().st_mode & 0o077 for path in login.folder("a-1").iterdir()} == {0}
    assert login.do("wait", app_ids=["a-1"], seconds=0)["apps"] == {}
    assert login.do("wait", app_ids=["a-1", "z-1"], seconds=60)["missing"] == ["z-1"]
    found = login.start("n1", *APPS)
    assert found == [{"state": "queued"}] * 3
    login.wait_for(*APPS)
    assert login.started() == sorted(APPS)
    assert login.start("n1", *APPS) == [{"state": "succeeded"}] * 3
    assert login.do("withdraw", app_id="a-1") == {"withdrawn": False}
    assert "owner" not in login.names("a-1")
    runs = dict(line.split() for line in login.runs.read_text().splitlines())
    assert runs == {each: f"{job}_{k}" for k, each in enumerate(APPS)}


def test_jobs_write_their_output_below_a_folder_with_a_percent_sign_in_its_name(tmp_path, slurm):
    login = Login(tmp_path / "100%j")
    created(login, "a-1")
    login.start("n1", "a-1")
    login.submit("b-1", "n1")
    found = login.do("wait", app_ids=["a-1", "b-1"], seconds=60)["apps"]
    assert [facts["ended"] for facts in found.values()] == [None] * len(found)
    login.wait_for("a-1", "b-1")
    assert all("slurm.out" in login.names(each) for each in ("a-1", "b-1"))


def test_an_app_that_another_client_has_by_now_has_no_task(login, slurm):
    for each in APPS:
        login.reserve(each, "n1")
    login.reserve("b-1", "n2", "n1")  # of a client that takes n1 for dead
    found = login.do(**login.array("x", "n1", *APPS))
    assert list(found["lost"]) == ["b-1"]
    until(lambda: queue(login, slurm) == [f"{found['jobs'][0]}_{k}" for k in (0, 2)])
    assert all("error" not in each for each in login.start("n1", "a-1", "c-1"))
    login.wait_for("a-1", "c-1")
    assert login.started() == ["a-1", "c-1"]


def test_one_task_is_cancelled_before_it_starts_and_the_others_run(login, slurm):
    created(login, *APPS)
    assert login.do("cancel", app_id="b-1") == {"is": "pending"}
    assert login.outcome("b-1")["state"] == "cancelled"
    assert login.start("n1", *APPS)[1] == {"state": "cancelled"}
    login.wait_for("a-1", "c-1")
    assert login.started() == ["a-1", "c-1"]


def test_the_folder_of_an_array_stays_as_long_as_one_of_its_apps_has_not_ended(login, slurm):
    created(login, *APPS)
    login.start("n1", "a-1", "b-1")
    login.wait_for("a-1", "b-1")
    login.do("sweep")
    assert os.listdir(login.job_dir / "arrays") == ["x"]
    login.start("n1", "c-1")
    login.wait_for("c-1")
    until(lambda: not login.do("sweep") and os.listdir(login.job_dir / "arrays") == [])


def test_an_array_that_was_removed_while_it_was_submitted_is_cancelled(login, slurm):
    created(login, *APPS)
    for name in ("apps", "arrays"):
        (login.job_dir / name).rename(login.job_dir / f"old-{name}")
    login.do("sweep")
    until(lambda: queue(login, slurm) == [])


def test_the_tasks_of_an_array_are_taken_back_and_released_one_by_one(login, slurm):
    job = created(login, *APPS)
    assert login.abort("n1", "b-1") == ["b-1"]
    until(lambda: queue(login, slurm) == [f"{job}_0", f"{job}_2"])
    assert not login.folder("b-1").exists()
    assert login.start("n1", "a-1") == [{"state": "queued"}]
    login.wait_for("a-1")
    assert is_held(slurm, f"{job}_2")
    assert login.abort("n1", "c-1") == ["c-1"]
    until(lambda: queue(login, slurm) == [])
    assert login.started() == ["a-1"]


def test_an_app_whose_need_has_failed_by_now_has_no_task(login, slurm):
    needs, later = {"x": "a-1", "y": "b-1", "z": "c-1"}, ("x-1", "y-1", "z-1")
    slurm.run("scancel", created(login, *APPS) + "_1")
    login.do("end", app_id="b-1", outcome={"state": "failed"})
    for each in later:
        login.reserve(each, "n1")
    (job,) = login.do(**login.array("y", "n1", *later, **needs))["jobs"]
    assert [each for each in queue(login, slurm) if each.startswith(job)] == [f"{job}_0", f"{job}_2"]
    assert login.outcome("y-1")["message"] == "b failed"
    answers = login.start("n1", *later)
    assert [each["state"] for each in answers] == ["waiting", "skipped", "waiting"]
    for each in ("a-1", "c-1", "x-1", "z-1"):
        login.do("cancel", app_id=each)


def test_no_array_is_left_when_slurm_refuses_one_of_several(login, slurm, monkeypatch):
    for each in APPS:
        login.reserve(each, "n1")
    login.reserve("d-1", "n1")
    login.do(**login.creation("d-1", "n1"))
    submit, calls = Slurm.submit, []

    def refuses_the_second(self: Slurm, argv: list[str], cwd: str) -> str:
        calls.append(argv)
        if len(calls) == 2:
            raise OpError("refused", "Requested node configuration is not available")
        return submit(self, argv, cwd)

    monkeypatch.setattr(Slurm, "submit", refuses_the_second)
    found = login.do(**login.array("x", "n1", *APPS, b="d-1"))
    assert (found["error"], len(calls)) == ("refused", 2)
    assert found["message"] == "Requested node configuration is not available"
    assert os.listdir(login.job_dir / "arrays") == []
    login.abort("n1", *APPS, "d-1")
    until(lambda: queue(login, slurm) == [])
    assert os.listdir(login.job_dir / "apps") == []


@pytest.mark.parametrize("op", ["cancel", "abort"])
def test_all_tasks_of_an_array_end_with_two_calls_of_slurm_and_few_open_files(
    login, slurm, tmp_path, monkeypatch, op
):
    app_ids = [f"a-{k}" for k in range(1, 132)]
    login.ask(*(login.reservation(each, "n1") for each in app_ids))
    job = login.do(**login.array("x", "n1", *app_ids))["jobs"][0]
    real = {name: shutil.which(name) for name in ("scancel", "squeue")}
    made = commands(
        tmp_path / "bin", **{n: f'echo {n} $* >>{tmp_path}/calls\nexec {real[n]} "$@"' for n in real}
    )
    monkeypatch.setenv("PATH", f"{made}{os.pathsep}{os.environ['PATH']}")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
    try:
        found = login.ask(*login.each(op, "n1", *app_ids[:130]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found == [{"cancel": {"is": "pending"}, "abort": {"removed": True}}[op]] * 130
    called = [line.split(" ") for line in (tmp_path / "calls").read_text().rstrip("\n").split("\n")]
    assert [words[0] for words in called] == ["squeue", "scancel"]
    assert called[1][1:] == [f"{job}_[0-129]"]
    until(lambda: queue(login, slurm) == [f"{job}_130"])
    assert login.abort("n1", app_ids[130]) == [app_ids[130]]
