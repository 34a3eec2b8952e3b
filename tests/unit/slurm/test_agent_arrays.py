"""Many apps as tasks of one array: what the agent writes, releases and takes back. With a real cluster."""

from __future__ import annotations

import os
import resource
import shutil

import pytest

from launcher.schedulers.slurm.site.agent.slurm import OpError, Slurm, jobs_of, listed
from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login, commands
from tests.waiting import until

APPS = ("a-1", "b-1", "c-1")


@pytest.fixture
def login(slurm: SlurmCluster, tmp_path) -> Login:
    return Login(tmp_path)


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
    return sorted(
        job for job, _, folder in (each.partition(" ") for each in lines) if str(login.job_dir) in folder
    )


def is_held(slurm: SlurmCluster, job: str) -> bool:
    return slurm.run("squeue", "-h", "-r", "-j", job, "-o", "%Q").split() == ["0"]


def test_the_apps_of_an_array_are_held_until_all_are_released_and_run_once_each(login, slurm):
    job = created(login, *APPS)
    assert queue(login, slurm) == [f"{job}_{k}" for k in range(3)]
    assert all(is_held(slurm, each) for each in queue(login, slurm))
    assert {each["created"] is not None for each in login.facts(*APPS).values()} == {True}
    found = login.start("n1", *APPS)
    assert found == [{"state": "queued"}] * 3
    login.wait_for(*APPS)
    assert login.started() == sorted(APPS)
    assert login.start("n1", *APPS) == [{"state": "succeeded"}] * 3
    runs = dict(line.split() for line in login.runs.read_text().splitlines())
    assert runs == {each: f"{job}_{k}" for k, each in enumerate(APPS)}


def test_an_app_of_an_array_has_six_files_before_it_runs(login, slurm):
    created(login, *APPS)
    for each in APPS:
        assert login.names(each) == {"id", "attempt.json", "owner", "app.json", "submitting", "created"}
    login.abort("n1", *APPS)


def test_a_task_is_taken_back_before_the_others_are_released(login, slurm):
    job = created(login, *APPS)
    assert login.abort("n1", "b-1") == ["b-1"]
    until(lambda: queue(login, slurm) == [f"{job}_0", f"{job}_2"])
    assert all("error" not in each for each in login.start("n1", "a-1", "c-1"))
    login.wait_for("a-1", "c-1")
    assert login.started() == ["a-1", "c-1"]
    assert not login.folder("b-1").exists()


def test_a_part_of_an_array_can_be_released_alone(login, slurm):
    job = created(login, *APPS)
    assert login.start("n1", *APPS[:2]) == [{"state": "queued"}] * 2
    login.wait_for(*APPS[:2])
    assert is_held(slurm, f"{job}_2")
    assert login.abort("n1", "c-1") == ["c-1"]
    until(lambda: queue(login, slurm) == [])


def test_an_aborted_array_leaves_nothing(login, slurm):
    created(login, *APPS)
    assert login.abort("n1", *APPS) == [*APPS]
    until(lambda: queue(login, slurm) == [])
    assert os.listdir(login.job_dir / "apps") == []
    assert os.listdir(login.job_dir / "arrays") == []


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


def test_an_array_that_slurm_refuses_leaves_no_folder_of_its_own(login, slurm):
    for each in APPS:
        login.reserve(each, "n1")
    op = login.array("x", "n1", *APPS)
    found = login.do(**{**op, "argv": ["sbatch", "--partition=none"]})
    assert found["error"] == "refused"
    assert os.listdir(login.job_dir / "arrays") == []
    assert queue(login, slurm) == []


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
    until(lambda: login.do("sweep") and os.listdir(login.job_dir / "arrays") == [])


def test_an_array_that_was_removed_while_it_was_submitted_is_cancelled(login, slurm):
    created(login, *APPS)
    for name in ("apps", "arrays"):
        (login.job_dir / name).rename(login.job_dir / f"old-{name}")
    login.do("sweep")
    until(lambda: queue(login, slurm) == [])


def test_a_need_of_a_single_app_may_be_a_task(login, slurm):
    created(login, "a-1", "b-1")
    login.reserve("c-1", "n1")
    login.do(**login.creation("c-1", "n1", needs=[{"app_id": "a-1", "job": "a"}]))
    assert login.do("start", app_id="c-1", nonce="n1") == {"state": "waiting"}
    assert login.facts("c-1")["c-1"]["needs"] == {"a-1": ""}
    login.start("n1", "a-1", "b-1")
    login.wait_for("a-1", "b-1", "c-1")
    assert login.started()[-1] == "c-1"


# -- behind the tasks of another array -----------------------------------------------------------------------

NEEDS = {"x": "a-1", "y": "b-1", "z": "c-1"}
LATER = ("x-1", "y-1", "z-1")


def created_behind(login: Login) -> list[str]:
    """Create an array of apps that each wait for one of APPS, which are not released: its jobs."""
    created(login, *APPS)
    for each in LATER:
        login.reserve(each, "n1")
    found = login.do(**login.array("y", "n1", *LATER, **NEEDS))
    assert found["lost"] == {}
    return list(found["jobs"])


def test_each_task_runs_behind_the_task_that_it_waits_for(login, slurm):
    assert len(created_behind(login)) == 1
    assert login.start("n1", *LATER) == [{"state": "waiting"}] * 3
    assert {app_id: each["needs"] for app_id, each in login.facts(*LATER).items()} == {
        f"{job}-1": {need: ""} for job, need in NEEDS.items()
    }
    login.start("n1", *APPS)
    login.wait_for(*LATER)
    ran = [line.split()[0] for line in login.runs.read_text().splitlines()]
    assert sorted(ran) == sorted((*APPS, *LATER))
    assert all(ran.index(need) < ran.index(f"{job}-1") for job, need in NEEDS.items())


def test_a_task_behind_a_cancelled_one_is_over_and_the_other_tasks_run(login, slurm):
    created_behind(login)
    login.start("n1", *LATER)
    assert login.do("cancel", app_id="b-1") == {"is": "pending"}
    facts = login.facts(*LATER)
    assert {app_id: each["vanished"] for app_id, each in facts.items()} == {
        "x-1": False,
        "y-1": True,
        "z-1": False,
    }
    assert login.do("end", app_id="y-1", outcome={"state": "skipped"}) == {"won": True}
    login.start("n1", *APPS)
    login.wait_for("x-1", "z-1")
    until(lambda: queue(login, slurm) == [])
    assert login.started() == ["a-1", "c-1", "x-1", "z-1"]


def test_an_app_whose_need_has_failed_by_now_has_no_task(login, slurm):
    slurm.run("scancel", created(login, *APPS) + "_1")
    login.do("end", app_id="b-1", outcome={"state": "failed"})
    for each in LATER:
        login.reserve(each, "n1")
    (job,) = login.do(**login.array("y", "n1", *LATER, **NEEDS))["jobs"]
    assert [each for each in queue(login, slurm) if each.startswith(job)] == [f"{job}_0", f"{job}_2"]
    assert login.outcome("y-1")["message"] == "b failed"
    answers = login.start("n1", *LATER)
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
            raise OpError("refused", "Job violates accounting/QOS policy")
        return submit(self, argv, cwd)

    monkeypatch.setattr(Slurm, "submit", refuses_the_second)
    found = login.do(**login.array("x", "n1", *APPS, b="d-1"))
    assert (found["error"], len(calls)) == ("refused", 2)
    assert os.listdir(login.job_dir / "arrays") == []
    login.abort("n1", *APPS, "d-1")
    until(lambda: queue(login, slurm) == [])
    assert os.listdir(login.job_dir / "apps") == []


@pytest.mark.parametrize("op", ["cancel", "withdraw", "abort"])
def test_all_tasks_of_an_array_end_with_two_calls_of_slurm_and_few_open_files(
    login, slurm, tmp_path, monkeypatch, op
):
    app_ids = [f"a-{k}" for k in range(1, 302)]
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
        found = login.ask(*login.each(op, "n1", *app_ids[:300]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    answer = {"cancel": {"is": "pending"}, "withdraw": {"withdrawn": True}, "abort": {"removed": True}}[op]
    assert found == [answer] * 300
    called = [line.split(" ") for line in (tmp_path / "calls").read_text().rstrip("\n").split("\n")]
    assert [words[0] for words in called] == ["squeue", "scancel"]
    assert called[1][1:] == [f"{job}_[0-299]"]
    until(lambda: queue(login, slurm) == [f"{job}_300"])
    assert login.abort("n1", app_ids[300]) == [app_ids[300]]


def test_the_words_for_jobs_name_each_job_once():
    jobs = ["7_3", "40", "7_0", "9_5", "7_1", "41+1", "7_10"]
    words = listed(jobs)
    assert words == ["40", "41+1", "7_[0-1,3,10]", "9_5"]
    assert sorted(job for word in words for job in jobs_of(word)) == sorted(jobs)
    many = [f"7_{k}" for k in range(0, 40_000, 2)]
    assert [job for word in listed(many) for job in jobs_of(word)] == many
    assert max(map(len, listed(many))) < 128 * 1024
