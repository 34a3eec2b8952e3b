"""A client's process dies by SIGKILL at each of its acts; the next one finishes, and nothing runs twice."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from launcher.schedulers.slurm.site.agent import observe, site
from tests.engines.slurm import SlurmCluster
from tests.lanes import acts, thinned
from tests.unit.slurm.agents import ROOT, Login
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quick_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look at the queue is for a controller that was restarted, which is not tried here."""
    for module in (observe, site):
        monkeypatch.setattr(module, "SECOND_LOOK_S", 0.1)


RELEASED = ("queued", "running", "succeeded")


def is_clean(login: Login, slurm: SlurmCluster) -> bool:
    """Return whether a sweep leaves no job queued and nothing of a removal."""
    login.do("sweep")
    hidden = [name for name in os.listdir(login.job_dir / "apps") if name.startswith(".gone")]
    return not hidden and slurm.jobs(below=str(login.job_dir)) == []


def arrays_left(login: Login) -> list[str]:
    """Return the folders of arrays, but for one that was being made."""
    names = [path.name for path in (login.job_dir / "arrays").glob("*")]
    return [name for name in names if not name.startswith(".new-")]


def killed(login: Login, ops_of: Any, first: int = 1, every: int = 1) -> tuple[list[str], str]:
    """Apps of requests whose process was killed, each before another act; and the app of the request that had
    no such act. Acts count from 1."""
    found: list[str] = []
    for act in acts(first, every):
        if login.kill(act, *ops_of(f"a-{act}")):
            return found, f"a-{act}"
        found.append(f"a-{act}")
    raise AssertionError


SOME_ACTS = pytest.mark.parametrize(("digest", "first"), [("one", 1), ("two", 2)])
"""The next client submits the same document, or another one. At the other acts, a cancel follows."""


@SOME_ACTS
def test_a_submission_killed_at_any_act_is_finished_by_the_next_client(login, slurm, digest, first):
    app_ids, whole = killed(login, lambda app_id: login.submission(app_id, "n1"), first, every=3)
    assert len(app_ids) > 8
    for app_id in app_ids:
        found = login.do(**login.reservation(app_id, "n2", "n1", digest=digest))
        if "error" in found:
            assert found["error"] == "reserved", (app_id, found)
            assert found["detail"]["state"] in RELEASED, (app_id, found)
            continue
        for op in login.submission(app_id, "n2", digest=digest)[1:]:
            found = login.do(**op)
            assert "error" not in found, (app_id, found)
    login.wait_for(*app_ids, whole)
    assert login.started() == sorted([*app_ids, whole])
    until(lambda: is_clean(login, slurm))
    assert all(login.outcome(app_id)["state"] == "succeeded" for app_id in app_ids)


@SOME_ACTS
def test_arrays_behind_another_one_killed_at_any_act_are_finished_by_the_next_client(
    login, slurm, digest, first
):
    """The next client goes on with the tasks that are in the queue, and submits the others as an array.

    Some of several arrays may be in the queue. Each task runs behind its need.
    """
    everything = []
    for act in acts(first, 14):
        needs = {f"{name}{act}": f"n{name}{act}-1" for name in "abc"}
        app_ids = [f"{job}-1" for job in needs]
        for each in needs.values():
            login.reserve(each, "n0")
        login.do(**login.array(f"n{act}", "n0", *needs.values()))
        ops = [login.reservation(each, "n1") for each in app_ids]
        ops += [{**login.array(f"x{act}", "n1", *app_ids, **needs), "aftercorr": 2}]
        everything += [*app_ids, *needs.values()]
        is_whole = login.kill(act, *ops, *login.each("start", "n1", *app_ids))
        login.start("n0", *needs.values())
        if is_whole:
            break
        found = {each: login.do(**login.reservation(each, "n2", "n1", digest=digest)) for each in app_ids}
        mine = [each for each in app_ids if "error" not in found[each]]
        new = [each for each in mine if not found[each]["resumed"]]
        if new:
            assert login.do(**login.array(f"y{act}", "n2", *new, **needs))["lost"] == {}
        if mine:
            answers = login.start("n2", *mine)
            assert [each for each in answers if "error" in each] == []
    assert act > 40
    login.wait_for(*everything)
    assert login.started() == sorted(everything)
    ran = [line.split()[0] for line in login.runs.read_text().splitlines()]
    assert all(ran.index(f"n{each}") < ran.index(each) for each in everything if not each.startswith("n"))
    until(lambda: is_clean(login, slurm))
    assert arrays_left(login) == []


def test_a_submission_killed_at_any_act_can_be_cancelled(login, slurm):
    """The client knows only the app id; a later reservation removes apps that were only reserved."""
    app_ids, whole = killed(login, lambda app_id: login.submission(app_id, "n1"), first=3, every=3)
    for app_id in app_ids:
        assert login.do("cancel", app_id=app_id)["is"] in ("unknown", "pending", "running", "ended")
    there = [app_id for app_id in app_ids if login.folder(app_id).exists()]
    until(lambda: all({"started", "outcome"} & login.names(app_id) for app_id in there))
    login.wait_for(whole)
    until(lambda: is_clean(login, slurm))


@pytest.mark.parametrize(
    ("before", "first", "every", "least"), [("reserved", 1, 2, 4), ("created", 2, 2, 4), ("array", 2, 3, 6)]
)
def test_the_next_client_finishes_an_abort_killed_at_any_act(login, slurm, before, first, every, least):
    ran = []
    for act in acts(first, every):
        app_ids = [f"{name}{act}-1" for name in ("ab" if before == "array" else "a")]
        for each in app_ids:
            login.reserve(each, "n1")
        if before == "created":
            login.do(**login.creation(app_ids[0], "n1"))
        elif before == "array":
            login.do(**login.array(f"x{act}", "n1", *app_ids))
        if login.kill(act, *login.each("abort", "n1", *app_ids)):
            break
        for each in app_ids:
            assert login.submit(each, "n2", "n1", digest="two") in RELEASED
        ran += app_ids
    assert act > least
    login.wait_for(*ran)
    assert login.started() == sorted(ran)
    until(lambda: is_clean(login, slurm))
    assert arrays_left(login) == []


@pytest.mark.parametrize(
    ("op", "submitted", "first"),
    [("cancel", False, 0), ("cancel", True, 1), ("withdraw", False, 1), ("withdraw", True, 0)],
)
def test_an_end_killed_at_any_act_is_recorded_whole_or_not_at_all(login, slurm, op, submitted, first):
    """An app that the killed client had claimed never runs, and any other app runs."""
    every_act = range(1, 15)  # as many acts as these have, or one or two more
    app_ids = [f"a-{act}" for act in thinned(every_act, first=first, every=2)]
    for app_id in app_ids:
        login.reserve(app_id, "n1")
        login.do(**login.creation(app_id, "n1"))
        if submitted:
            login.do("start", app_id=app_id, nonce="n1")
        act = int(app_id.partition("-")[2])
        assert login.kill(act, {"op": op, "app_id": app_id}) < len(every_act)
    for app_id in app_ids:
        login.do("start", app_id=app_id, nonce="n1")
    until(lambda: all({"started", "outcome"} & login.names(app_id) for app_id in app_ids))
    until(lambda: is_clean(login, slurm))
    started = login.started()
    assert len(started) == len(set(started))
    for app_id in app_ids:
        facts = login.facts(app_id)[app_id]
        ran = "job" in facts["started"]
        assert ran == (app_id in started), (app_id, facts)
        assert not ran or facts["outcome"]["state"] == "succeeded"


def test_a_removal_killed_at_any_act_is_finished(login, slurm):
    for act in acts():
        app_id = f"a-{act}"
        login.reserve(app_id, "n1")
        login.do("end", app_id=app_id, outcome={"state": "failed"})
        if login.kill(act, {"op": "remove", "app_id": app_id, "forget": True}):
            break
        facts = login.facts(app_id)
        assert app_id not in facts or facts[app_id]["outcome"] == {"state": "failed"}
        login.do("remove", app_id=app_id, forget=True)
    assert is_clean(login, slurm)
    assert os.listdir(login.job_dir / "apps") == []


def test_eight_clients_race_for_apps_while_half_of_them_are_killed(login, slurm):
    """Each client tries until all apps are started; a client that was killed counts as dead by its pid."""
    app_ids = [f"a-{k}" for k in range(1, 13)]
    code = f"""
import os, sys, time
from pathlib import Path
from tests.unit.slurm import acts, agents
login = agents.Login(Path({str(login.job_dir.parent)!r}))
acts.count_acts(int(sys.argv[2]))
nonce, left = sys.argv[1] + "." + str(os.getpid()), {app_ids!r}
def alive(nonce):
    try:
        with open("/proc/%s/stat" % nonce.split(".")[1]) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
end = time.monotonic() + 150
while left and time.monotonic() < end:
    for app_id in list(left):
        found = login.reserve(app_id, nonce, digest=sys.argv[3])
        owner = found.get("detail", {{}}).get("owner")
        if owner and not alive(owner["nonce"]):
            found = login.reserve(app_id, nonce, owner["nonce"], digest=sys.argv[3])
        if "error" in found:
            assert found["error"] == "reserved", found
            if found["detail"]["state"] not in ("reserved", "created"):
                left.remove(app_id)
            continue
        for op in login.submission(app_id, nonce, digest=sys.argv[3])[1:]:
            found = login.do(**op)
            if "error" in found:
                assert found["error"] == "reserved", (op["op"], found)
                break
        time.sleep(0.01)
assert not left, left
"""
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"n{k}", str(20 + 17 * k if k % 2 else 0),
                "one" if k < 5 else "two"],
            cwd=ROOT, stderr=subprocess.PIPE, text=True,
        )
        for k in range(8)
    ]  # fmt: skip
    output = [client.communicate(timeout=120)[1] for client in clients]
    codes = [client.returncode for client in clients]
    assert set(codes) <= {0, -signal.SIGKILL}, output
    assert codes[::2] == [0] * 4, output
    login.wait_for(*app_ids)
    assert login.started() == sorted(app_ids)
    until(lambda: is_clean(login, slurm))
    there = [name for name in os.listdir(login.job_dir / "apps") if not name.startswith(".new-")]
    assert sorted(there) == sorted(app_ids)
