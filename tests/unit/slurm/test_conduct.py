"""The conductor of an app inside its Slurm job, with an srun that starts the replicas on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.slurm.site.job import over_limit
from launcher.schedulers.slurm.site.shared import NO_ROOM
from launcher.schedulers.slurm.site.steps import UNMADE
from tests.engines.slurm import END_S
from tests.lanes import sampled
from tests.processes import describe, parent
from tests.unit.slurm.agents import on_small_disk
from tests.unit.slurm.site import Site, role, states
from tests.waiting import until

STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
RAN = {"started": {"job": "11"}}
NEEDS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "it failed": ({**RAN, "outcome": {"state": "failed"}}, "train failed"),
    "it was cancelled": ({"outcome": {"state": "cancelled"}}, "train was cancelled"),
    "it is there alone": ({}, "train did not run"),
    "it has succeeded": ({**RAN, "outcome": {"state": "succeeded"}}, ""),
    "NFS hides its outcome, and Slurm knows that it succeeded": (RAN, ""),
    "it was removed": (None, ""),
}


@pytest.mark.parametrize("need", sampled(NEEDS, *list(NEEDS)[:3]))
def test_an_app_runs_only_where_its_need_has_succeeded_as_far_as_the_node_sees(site: Site, need: str) -> None:
    files, message = NEEDS[need]
    site.patch("conduct", "READ_AGAIN_S = 5, 1.0", "READ_AGAIN_S = 2, 0.01")
    site.app(role("main", "echo ran"))
    (site.dir / "created").write_text(json.dumps({"waits": {"train-1": "train"}}))
    if files is not None:
        (site.dir.parent / "train-1").mkdir()
        for name, text in files.items():
            (site.dir.parent / "train-1" / name).write_text(json.dumps(text))
    found = site.run()
    state = "skipped" if message else "succeeded"
    assert (found["state"], found["message"], found["code"]) == (state, message, int(bool(message)))
    assert (site.dir / "logs").exists() is not bool(message)


@pytest.mark.slow
def test_a_replica_that_waits_for_the_host_of_a_role_can_be_cancelled(site: Site) -> None:
    site.app(
        role("client", "", argv=["echo", "\x01host:server\x01"]),
        role("server", "true"),
        order={"server": {"depends_on": {"client": "succeeded"}}},
    )
    process = site.start()
    until(lambda: len(site.pids("replica")) == 2)
    site.cancel(process)
    assert process.wait(END_S) == 1
    assert states(site.outcome()) == ["client/0 cancelled 143 cancelled", "server/0 cancelled None cancelled"]
    assert "Error" not in site.output()


# -- the end from outside ----------------------------------------------------------------------------------


OURS = "JobId=12 JobName=renamed Command=/apps/app/script-n1.sh"
"""The first fields that Slurm reports of the job of an app, to which a user gave another name."""


@pytest.mark.parametrize(("limit", "words"), [
    ("02:00:00", " after 2 h"), ("1-00:00:00", " after 1 d"), ("01:30:00", " after 90 min"),
    ("00:01:00", " after 1 min"), ("", ""),
])  # fmt: skip
def test_a_time_limit_of_slurm_is_put_into_words(limit: str, words: str) -> None:
    assert over_limit({"TimeLimit": limit}) == f"timed out{words}"


def array_of(site: Site, *tasks: str) -> dict[str, str]:
    """Return the environment of the last task of an array of these."""
    folder = site.shared / "q7"
    folder.mkdir()
    (folder / "tasks").write_text("".join(f"{each}\n" for each in tasks))
    array = {"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": str(len(tasks) - 1)}
    return {**array, "LAUNCHER_ARRAY_DIR": str(folder)}


JOBS = {
    "it is another job than that on record": ("13", "12", "", False),
    "none is on record yet, and it has the script of an earlier folder": ("12", "", "script-n0.sh", False),
    "none is on record yet, and it has the script of this folder": ("12", "", "script-n1.sh", True),
    "it is the task of an earlier folder": ("9_0", "", "array.sh", False),
}


@pytest.mark.slow
@pytest.mark.parametrize("why", JOBS)
def test_a_job_runs_only_the_app_of_the_folder_that_it_was_submitted_for(site: Site, why: str) -> None:
    """Another client may have replaced the folder while the conductor loaded, and have a job of its own."""
    job, recorded, script, runs = JOBS[why]
    site.app(role("main", "echo once"))
    (site.dir / "job").write_text(recorded) if recorded else (site.dir / "job").unlink()
    site.scontrol(f"JobId=12 Command=/apps/app/{script} JobState=RUNNING")
    task = array_of(site, "app n0") if script == "array.sh" else {}
    assert site.start(job=job, **task).wait(END_S) == 0
    assert ((site.dir / "started").exists(), (site.dir / "outcome").exists()) == (runs, runs)


def test_an_app_that_slurm_runs_again_although_it_must_not_is_lost(site: Site) -> None:
    """A controller that was killed has forgotten that the job ran."""
    site.app(role("main", "echo once"))
    site.link("started", job="12")
    assert (site.run()["state"], (site.dir / "logs").exists()) == ("lost", False)


@pytest.mark.slow
def test_the_task_of_an_array_is_asked_for_and_recorded_by_its_own_name(site: Site) -> None:
    task = array_of(site, "-", "-", "-", "app n1")
    answer = "JobId=12 Command=/j/arrays/q7/array.sh JobState=RUNNING TimeLimit=02:00:00 EndTime=Unknown"
    site.program("scontrol", f"#!/bin/sh\n[ \"$*\" != 'show job -o 9_3' ] || echo '{answer}'\n")
    site.app(role("main", "echo up; exec sleep 1000"))
    process = site.started(**task)
    process.send_signal(signal.SIGURG)
    assert process.wait(END_S) == 1
    assert site.outcome()["message"] == "timed out after 2 h"
    assert json.loads((site.dir / "started").read_text())["job"] == "9_3"


@pytest.mark.slow
def test_a_time_limit_whose_signal_came_before_the_conductor_is_kept(site: Site) -> None:
    """Slurm sends the signal once, and may send it while `setup` runs."""
    site.scontrol(f"{OURS} JobState=RUNNING TimeLimit=00:01:00 EndTime=Unknown")
    site.app(role("main", "echo up; exec sleep 1000"))
    assert site.start(SLURM_JOB_END_TIME=str(int(time.time()) + 50)).wait(END_S) == 1
    assert site.outcome()["message"] == "timed out after 1 min"


@pytest.mark.slow
def test_a_time_limit_that_is_not_near_yet_ends_nothing(site: Site) -> None:
    """Slurm sends its signal up to a minute early, and a limit may be extended."""
    later = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3600))
    go, asked = site.shared / "go", site.shared / "asked"
    answer = f"{OURS} JobState=RUNNING TimeLimit=01:00:00 EndTime={later}"
    site.program("scontrol", f"#!/bin/sh\ntouch {asked}\necho '{answer}'\n")
    site.app(role("main", f"echo up; until [ -e {go} ]; do sleep 0.05; done"))
    process = site.started()
    process.send_signal(signal.SIGURG)
    until(asked.exists)
    go.touch()
    assert process.wait(END_S) == 0
    assert site.outcome()["state"] == "succeeded"


LIMIT = "JobState=COMPLETING Reason=TimeLimit TimeLimit=02:00:00"
ONCE = '[ -e "$0.asked" ] || { touch "$0.asked"; exit 1; }'
JOB_ENDS = {
    "for another reason": ("", f"{OURS} JobState=COMPLETING Reason=None", "cancelled: cancelled"),
    "and its id names another one": ("", f"{OURS.replace('/app/', '/other/')} {LIMIT}",
        "cancelled: cancelled"),
    "at its limit, as it says when asked again": (ONCE, f"{OURS} {LIMIT}", "failed: timed out after 2 h"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("why", JOB_ENDS)
def test_an_app_whose_job_slurm_ends_ends_at_once_with_the_reason_of_slurm(site: Site, why: str) -> None:
    first, answer, end = JOB_ENDS[why]
    site.program("scontrol", f"#!/bin/sh\n{first}\necho '{answer} Restarts=0'\n")
    site.app(role("main", STUBBORN), grace_s=100.0, requeue=True)
    process = site.started()
    process.terminate()
    assert process.wait(END_S) == 1
    assert "{state}: {message}".format(**site.outcome()) == end
    # Killed as the conductor ends: its code may just have been reported.
    assert states(site.outcome())[0].split()[:3:2] in (["main/0", "None"], ["main/0", "137"])
    until(lambda: site.processes() == [])


@pytest.mark.slow
def test_a_replica_that_slurm_ended_first_is_cancelled_with_its_job(site: Site) -> None:
    """Slurm sends TERM to the wrappers and to the conductor, in any order: the step may be over by then."""
    site.scontrol(f"{OURS} JobState=COMPLETING Reason=None Restarts=0")
    site.app(role("main", "echo up; exec sleep 1000", retries=3))
    process = site.started()
    os.kill(site.pids("replica")[0], signal.SIGTERM)
    until(lambda: not site.pids_of_srun())
    process.terminate()
    process.wait(END_S)
    assert states(site.outcome()) == ["main/0 cancelled 143 cancelled"]
    assert site.outcome()["state"] == "cancelled"


SUCCESSES = {
    "runs": ("JobState=RUNNING", "succeeded", ""),
    "is cancelled": ("JobState=COMPLETING Reason=None", "cancelled", "cancelled"),
    "is over its limit": (LIMIT, "failed", "timed out after 2 h"),
}


@pytest.mark.parametrize("job", SUCCESSES)
def test_an_app_whose_replicas_end_with_0_has_succeeded_only_while_slurm_does_not_end_its_job(
    site: Site, job: str
) -> None:
    """A replica may handle the TERM of Slurm, and end before its wrapper and the conductor get theirs."""
    fields, state, message = SUCCESSES[job]
    site.program("scontrol", f"#!/bin/sh\necho >>{site.shared}/asked\necho '{OURS} {fields} Restarts=0'\n")
    site.app(role("main", "true", replicas=3), role("side", "sleep 1000"), order={"side": {"service": True}})
    found = site.run()
    assert (found["state"], found["message"]) == (state, message)
    assert (site.shared / "asked").read_text() == "\n"


@pytest.mark.parametrize("requeue", [True, False])
def test_a_job_that_may_be_requeued_may_not_be_once_its_app_has_ended(site: Site, requeue: bool) -> None:
    site.program("scontrol", f"#!/bin/sh\necho $@ >>{site.shared}/asked\n[ -e {site.dir}/outcome ]\n")
    site.app(role("main", "exit 3"), requeue=requeue)
    assert site.run()["code"] == 3
    asked = site.shared / "asked"
    assert asked.exists() is requeue
    assert not requeue or asked.read_text() == "update JobId=12 Requeue=0\n"


def cut_off(site: Site, *events: dict[str, Any]) -> dict[str, Any]:
    """Return the outcome of an app whose first run was cut off after these events."""
    site.app(role("main", "echo up", retries=1, policy="APPLICATION"))
    (site.dir / "started").write_text('{"job": "12"}')
    begin = {"e": "created", "roles": [["main", 1]], "retries": [[1, "APPLICATION"]]}
    lines = [begin, {"e": "starting"}, *events]
    text = "".join(json.dumps({"t": at, **each}) + "\n" for at, each in enumerate(lines, 1))
    (site.dir / "events").write_text(text + '{"e": "ex')
    return site.run(SLURM_RESTART_COUNT="1")


SPAWN: dict[str, Any] = {"e": "spawn", "role": "main", "k": 0}
EXIT: dict[str, Any] = {"e": "exit", "role": "main", "k": 0}


STOPPING = {"e": "stopping", "why": "peer", "state": "failed", "message": "main/0 failed", "code": 3}


RESTARTING = [{**EXIT, "code": 3}, {**EXIT, "e": "restart", "scope": "app", "n": 1}]


def test_an_end_that_was_decided_before_the_job_was_requeued_counts(site: Site) -> None:
    found = cut_off(site, SPAWN, STOPPING)
    assert (found["state"], found["message"], found["code"]) == ("failed", "main/0 failed", 3)
    assert not (site.dir / "logs/main/0.log").exists()


@pytest.mark.slow
def test_a_run_that_was_cut_off_begins_anew_with_all_its_retries(site: Site) -> None:
    found = cut_off(site, SPAWN, *RESTARTING)
    assert (found["state"], found["restarts"], site.log("main")) == ("succeeded", 2, b"up\n")


@pytest.mark.slow
def test_a_setup_that_fails_in_the_second_run_is_the_end_of_the_app(site: Site) -> None:
    cut_off(site, SPAWN)
    (site.dir / "outcome").unlink()
    (site.dir / "events").write_text("".join(json.dumps(each) + "\n" for each in site.events()[:3]))
    argv = [sys.executable, str(site.zip), "conduct", str(site.dir), "9", "false"]
    env = {**os.environ, "SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "1"}
    assert subprocess.run(argv, check=False, env=env, timeout=END_S).returncode == 9
    assert site.outcome()["message"] == "setup failed with 9: false"


def preempted(site: Site, *, requeue: bool, end: str = "exit 0") -> subprocess.Popen[bytes]:
    """Start an app whose job Slurm preempts, with time to stop, 20 s before it ends the job."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 20))
    found = f"{OURS} JobState=RUNNING Reason=None Restarts=0 TimeLimit=02:00:00 EndTime={at} PreemptTime={at}"
    site.program("scontrol", f"#!/bin/sh\necho $@ >>{site.shared}/asked\necho '{found}'\n")
    until = f"until [ -e go ]; do sleep 0.05; done; {end}"
    site.app(role("main", f"echo up; {until}", replicas=2), requeue=requeue)
    return site.started()


ENDS_OF_REPLICAS = {"replica alone": "kill $$", "child of the replica alone": "exit 143"}
AT_THE_END = 'self.record.update(state="ended", code=code, signal=number, lost=self.lost)\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    "signalled",
    ["wrapper", "wrapper, after the replica", "replica alone", "child of the replica alone", "script"],
)
def test_a_job_that_is_preempted_with_time_to_stop_is_requeued(site: Site, signalled: str) -> None:
    """Slurm sends TERM to the steps alone or, on some sites, the signal before the limit to the script.

    It signals the processes of a step one after the other: a replica may end before its wrapper gets TERM.
    """
    if signalled == "wrapper, after the replica":
        site.patch("site/replica", AT_THE_END, f"{AT_THE_END}        os.kill(os.getpid(), signal.SIGTERM)\n")
    process = preempted(site, requeue=True, end=ENDS_OF_REPLICAS.get(signalled, "exit 0"))
    if signalled == "script":
        process.send_signal(signal.SIGURG)
    elif signalled == "wrapper":
        os.kill(site.pids("replica")[0], signal.SIGTERM)
    else:
        (site.dir / "workspace/go").touch()
    asked = site.shared / "asked"
    until(lambda: asked.exists() and "requeue 12\n" in asked.read_text())
    process.kill()
    until(lambda: site.processes() == [])
    assert not (site.dir / "outcome").exists()


@pytest.mark.slow
def test_an_app_whose_job_is_preempted_before_its_limit_has_not_timed_out(site: Site) -> None:
    process = preempted(site, requeue=False)
    process.send_signal(signal.SIGURG)
    assert process.wait(END_S) == 1
    assert site.outcome()["message"] == "was preempted"


ABORTED = "srun: Job step aborted: Waiting up to 7 seconds for job step to finish."
NODE = "srun: error: Node failure on n2"
TERM = "slurmstepd: error: *** STEP 12.0 ON n2 CANCELLED AT 2026-11-23T01:55:31 ***"
KILLED = "srun: error: n3: task 1: Killed"
ENDS = {
    "node": ("failed", "node n2 failed", "JobState=NODE_FAIL Reason=NodeDown", NODE, ABORTED),
    "node, in the other order": (
        "failed", "node n2 failed", "JobState=NODE_FAIL Reason=NodeDown", ABORTED, NODE
    ),
    "node that srun does not name": (
        "failed", "node n2 failed", "JobState=COMPLETING Reason=NodeDown NodeList=n[1-2]", ABORTED
    ),
    "node, and Slurm does not answer": ("failed", f"main/0 was lost: {NODE}", "", NODE, ABORTED),
    "time": (
        "failed", "timed out after 2 h", "JobState=TIMEOUT Reason=TimeLimit TimeLimit=02:00:00", ABORTED, TERM
    ),
    "cancel": ("cancelled", "cancelled", "JobState=CANCELLED Reason=None", TERM, ABORTED),
    "preempt": ("failed", "was preempted", "JobState=PREEMPTED PreemptTime=2026-11-23T01:55:31", ABORTED),
    "preempt with time": (
        "failed", "was preempted", "JobState=RUNNING PreemptTime=2026-11-23T01:55:31", ABORTED
    ),
    "memory of the job": (
        "failed", "killed: out of memory", "JobState=OUT_OF_MEMORY Reason=OutOfMemory", ABORTED
    ),
    "memory": ("failed", "main/0 was killed: out of memory", "JobState=RUNNING",
        "slurmstepd: error: StepId=12.0 exceeded memory limit (2 > 1), being killed", ABORTED),
    "step": ("failed", f"main/0 was lost: {TERM}", "JobState=RUNNING", "", TERM, ABORTED, KILLED),
    "nothing said": ("failed", "main/0 was lost: its step ended", "JobState=RUNNING", ABORTED),
}  # fmt: skip


@pytest.mark.parametrize("end", sampled(ENDS, "node", "node that srun does not name", "time"))
def test_a_step_that_slurm_ends_before_replicas_report_has_the_end_of_its_job(site: Site, end: str) -> None:
    state, message, job, *output = ENDS[end]
    spawn = {"e": "spawn", "role": "main", "k": 0, "id": "0", "t": 1, "host": "n2", "restart": 0}
    (site.shared / "said").write_text("\n".join(output) + "\n")
    site.program("srun", f"#!/bin/sh\necho '{json.dumps(spawn)}'\ncat {site.shared}/said >&2\nexit 1\n")
    site.program("sinfo", "#!/bin/sh\necho n2\necho n2\n")
    site.scontrol(f"{OURS} {job} Restarts=0" if job else "")
    site.app(role("main", "true"))
    found = site.run()
    assert (found["state"], found["message"]) == (state, message)


@pytest.mark.slow
@pytest.mark.parametrize(("on_term", "own_s", "given", "code"), [
    pytest.param("", 1000.0, (None, 0.1), 137, id="a second one shortens it"),
    pytest.param("sleep 0.5; exit 7", 0.0, (60.0,), 7, id="the first one may lengthen it"),
])  # fmt: skip
def test_a_cancellation_sets_the_grace_period_of_its_app(site, on_term, own_s, given, code):
    site.app(role("main", STUBBORN.replace("''", f"'{on_term}'")), grace_s=own_s)
    process = site.started()
    for grace_s in given:
        site.cancel(process, grace_s)
        until(lambda: site.events("stopping"))
    assert process.wait(END_S) == 1
    assert states(site.outcome()) == [f"main/0 cancelled {code} cancelled"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fields", "state"), [
    pytest.param("cancel", {"grace_s": None, "interrupt": False}, "cancelled", id="a cancellation"),
    pytest.param("outcome", {"state": "lost"}, "lost", id="an end that a client has recorded"),
])  # fmt: skip
def test_a_running_app_finds_without_a_signal(site: Site, name: str, fields: Any, state: str) -> None:
    """A controller that was killed may have forgotten the job: nothing else ends what runs."""
    site.patch("conduct", "LOOK_S = 30.0", "LOOK_S = 1.0")
    site.app(role("main", "echo up; exec sleep 1000"))
    process = site.started()
    site.link(name, **fields)
    assert process.wait(END_S) == 1
    assert site.outcome()["state"] == state
    assert name != "outcome" or site.outcome() == fields
    assert site.processes() == []


# -- killed processes --------------------------------------------------------------------------------------

TREE = "sh -c 'trap \"\" TERM; setsid sleep 1000 & sleep 1000' & echo up; exec sleep 1000"


@pytest.mark.slow
@pytest.mark.parametrize("program", ["conductor", "srun"])
def test_nothing_is_left_of_an_app_whose_conductor_or_step_is_killed(site: Site, program: str) -> None:
    site.app(role("main", TREE, replicas=2), grace_s=0.1)
    process = site.started()
    pids = [process.pid] if program == "conductor" else site.pids_of_srun()
    os.kill(pids[0], signal.SIGKILL)
    assert process.wait(END_S) != 0
    until(lambda: site.processes() == [])
    assert (site.dir / "outcome").exists() == (program == "srun")


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1], ids=["guardian", "worker"])
def test_a_replica_whose_wrapper_is_killed_has_failed(site: Site, at: int) -> None:
    site.app(role("main", TREE), grace_s=0.2)
    process = site.started()
    os.kill(site.pids("replica")[at], signal.SIGKILL)
    assert process.wait(END_S) in (137, 143)
    message = [r"main/0 was lost: its (wrapper|step) was killed", "main/0 was killed by signal 9"][at]
    assert site.outcome()["state"] == "failed"
    assert re.fullmatch(message, site.outcome()["message"])
    assert site.processes() == []


@pytest.mark.slow
def test_the_wrapper_of_a_replica_that_is_not_started_again_ends(site: Site) -> None:
    site.app(role("main", "test $K = 0 || exec sleep 1000", replicas=2, retries=3))
    site.start()
    until(lambda: site.events("exit"))
    until(lambda: len(site.pids("replica")) == 2)  # guardian and worker of the other one


def environ(pid: int) -> bytes:
    """Return the environment of a process; b"" for one that has just ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_wrapper_that_is_killed_while_it_waits_is_replaced(site: Site, replicas: int) -> None:
    fails = "test $K = 1 || test $LAUNCHER_RESTART = 1 || exit 3"
    script = f"{fails}; touch go$K; until test -e go0; do sleep 0.1; done"
    site.app(role("main", script, retries=1, replicas=replicas), order={"main": {"retry_delay": 5}})
    process = site.start()
    until(lambda: site.events("restart"))

    def waiting() -> list[int]:
        """Return the wrapper of replica 0 that waits, a child of the one that has ended its run."""
        first = [pid for pid in site.pids("replica") if b"SLURM_PROCID=0\0" in environ(pid)]
        return [pid for pid in first if parent(pid) in first]

    until(waiting)
    os.kill(waiting()[0], signal.SIGKILL)
    assert process.wait(END_S) == 0
    assert [each["n"] for each in site.events("restart")] == [1]


@pytest.mark.slow
def test_a_wrapper_that_waits_for_another_start_leaves_with_its_conductor(site: Site) -> None:
    site.app(role("main", "exit 3", retries=1), order={"main": {"retry_delay": 300}})
    process = site.start()
    until(lambda: site.events("restart"))
    assert len(site.pids("replica")) == 2
    process.kill()
    until(lambda: site.processes() == [])


@pytest.mark.slow
def test_a_replica_whose_step_is_killed_before_it_has_reported_the_start_is_started_again(site: Site) -> None:
    srun, used = (site.bin / "srun").read_text(), site.shared / "used"
    site.program("real", srun)
    muted = srun.replace("stdin=subprocess.PIPE,", "stdin=subprocess.PIPE, stdout=-3, stderr=-3,")
    site.program("mute", muted)
    first = f'[ -e {used} ] || {{ touch {used}; exec {site.bin}/mute "$@"; }}'
    site.program("srun", f'#!/bin/sh\n{first}\nexec {site.bin}/real "$@"\n')
    stays = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    site.app(role("main", f"test $LAUNCHER_RESTART = 1 || {{ {stays}; }}", retries=1))
    process = site.started()
    [mute] = [pid for pid in site.processes() if f"{site.bin}/mute" in describe(pid).split()]
    os.kill(mute, signal.SIGKILL)
    assert process.wait(END_S) == 0
    assert [each["n"] for each in site.events("restart")] == [1]
    assert "main/0 was lost: srun was killed by signal 9; restart 1 of 1\n" in site.output()


def test_a_step_that_slurm_refuses_fails_the_app(site: Site) -> None:
    lines = ["error: Unable to create step: no nodes", "Check SLURM_JOB_ID environment variable."]
    said = "\n".join(f"echo 'srun: {line}' >&2" for line in lines)
    site.program("srun", f"#!/bin/sh\n{said}\nexit 1\n")
    site.app(role("main", "true", replicas=2))
    found = site.run()
    assert found["message"] == "main/0 could not be started: srun: error: Unable to create step: no nodes"
    assert (found["state"], found["code"]) == ("failed", 1)


REFUSALS = [
    "Unable to confirm allocation for job 12: Socket timed out on send/recv operation",
    "Unable to confirm allocation for job 12: Unable to contact slurm controller (connect failure)",
    "Unable to create step for job 12: Requested nodes are busy",
]


def refusing(site: Site, refusal: str, times: int) -> None:
    """Make the first sruns fail with this error."""
    count, real = site.shared / "refused", (site.bin / "srun").read_text()
    site.program("real", real)
    test = f'[ $(cat {count} 2>/dev/null | wc -l) -ge {times} ] && exec {site.bin}/real "$@"'
    error = f"echo 'srun: error: {refusal}' >&2\necho 'srun: Check SLURM_JOB_ID environment variable.' >&2"
    site.program("srun", f"#!/bin/sh\n{test}\necho no >>{count}\n{error}\nexit 1\n")


def test_each_error_of_a_controller_that_cannot_make_a_step_now_is_known() -> None:
    assert all(UNMADE.match(f"srun: error: {refusal}") for refusal in REFUSALS)
    assert not UNMADE.match("srun: error: Unable to create step for job 12: Invalid account")


def test_a_step_that_the_controller_cannot_make_now_is_started_again(site: Site) -> None:
    refusing(site, REFUSALS[2], 2)
    site.app(role("main", "echo ran >>../ran$K", replicas=2))
    found = site.run()
    assert (found["state"], found["restarts"]) == ("succeeded", 0)
    assert [(site.dir / f"ran{k}").read_text() for k in range(2)] == ["ran\n"] * 2
    assert (site.shared / "refused").read_text() == "no\n" * 2
    assert len(site.events("spawn")) == 2


def test_an_app_whose_step_cannot_be_made_ends_at_its_timeout(site: Site) -> None:
    refusing(site, REFUSALS[0], 1000)
    site.app(role("main", "true"), timeout_s=3)
    found = site.run()
    assert (found["state"], found["message"]) == ("failed", "timed out after 3 s")
    assert site.events("spawn") == []


# -- full disks --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_without_room_for_the_start_of_its_app_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    code = """
        site = Site(folder)
        site.app(role("main", "true"))
        fill(site.shared / "fill")
        print(json.dumps([site.start().wait(60), sorted(each.name for each in site.dir.iterdir())]))
        site.close()
    """
    code_of_job, names = json.loads(on_small_disk(tmp_path, "1m", code))
    assert code_of_job == NO_ROOM
    assert names == ["app.json", "app.zip", "id", "job", "slurm.out"]


@pytest.mark.slow
def test_a_full_disk_loses_output_but_no_exit_code(tmp_path: Path) -> None:
    """The folder of the app is a file system of its own that its replicas fill."""
    code = """
        site = Site(folder)
        site.app(role("main", "head -c 3000000 /dev/zero; exit 3"))
        print(json.dumps(site.run()))
        site.close()
    """
    outcome = json.loads(on_small_disk(tmp_path, "1m", code))
    assert (outcome["state"], outcome["code"]) == ("failed", 3)
    assert states(outcome) == ["main/0 failed 3"]
    assert outcome["warnings"] == ["log output was lost: main/0: No space left on device"]


CLOCK = """
def shift(real):
    return lambda: real() + (3600 if os.path.exists({path!r}) else 0)
time.time = shift(time.time)
"""
"""Python text of a conductor whose clock is set ahead by an hour as soon as there is a file."""


@pytest.mark.slow
def test_an_app_does_not_time_out_because_the_clock_is_set_ahead(site: Site) -> None:
    clock, go = site.shared / "clock", site.shared / "go"
    site.patch("conduct", "LOOK_S = ", f"{CLOCK.format(path=str(clock))}LOOK_S = ")
    wait = "until [ -e {} ]; do sleep 0.02; done"
    site.app(role("a", f"echo up; {wait.format(clock)}"), role("b", wait.format(go)), timeout_s=60)
    process = site.started("a")
    clock.touch()
    until(lambda: site.events("exit"))
    go.touch()
    assert process.wait(END_S) == 0
    assert [round(event["by"]) for event in site.events("clock")] == [3600]


HOURS_S = 9000.0
SHIM = """
import time as _time

class _Clock:
    def __getattr__(self, name):
        return getattr(_time, name)
{}
    def _ahead(self):
        return {} if os.path.exists("{}") else 0.0

time = _Clock()
"""
METHOD = "    def {0}(self, *a): return _time.{0}(*a) + self._ahead()\n"


TICKS = "until [ -e done ]; do echo tick; sleep 0.02; done"
PROBE = ["sh", "-c", 'test "$K" = 0 && test -e done']
READY = {"main": {"ready": {"command": PROBE, "every": 0.05, "timeout": 600.0}}}


def signalled(pids: list[int], number: int) -> None:
    """Send a signal to wrappers; one that was about to be the command of a probe may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def ticked(site: Site) -> None:
    """Wait until the wrapper has had a turn."""
    size = len(site.log("main"))
    until(lambda: len(site.log("main")) > size + len("tick\n"))


@pytest.mark.parametrize("busy_s", sampled([0.0, 0.2], 0.0))
@pytest.mark.parametrize(("grace_s", "code", "fields"), [
    pytest.param(None, 0, {"timeout_s": 600.0}, id="timeout"),
    pytest.param(None, 0, {"order": READY}, id="probe"),
    pytest.param(600.0, 7, {}, id="grace period"),
])  # fmt: skip
def test_no_time_of_an_app_passes_while_slurm_suspends_its_job(site, grace_s, code, fields, busy_s):
    """Slurm signals all processes 2 s before it stops them, while their loops wait or between two turns."""
    ahead, asked = site.shared / "ahead", site.shared / "asked"
    methods = "".join(METHOD.format(name) for name in ("time", "monotonic", "clock_gettime"))
    site.patch("loop", "\nimport time\n", SHIM.format(methods, HOURS_S, ahead))
    last = "            self._times.pop(0)[2]()\n"
    site.patch("loop", last, f"{last}        time.sleep({busy_s})\n")
    found = f"{OURS} JobState=RUNNING EndTime=2099-01-01T00:00:00"
    site.program("scontrol", f"#!/bin/sh\ntouch {asked}\necho '{found}'\n")
    site.app(role("main", f"trap 'touch termed; {TICKS}; exit 7' TERM; echo up; {TICKS}"), **fields)
    process, folder = site.started(), site.dir / "workspace"
    if grace_s is not None:
        site.cancel(process, grace_s)
        until((folder / "termed").exists)
    pids = [process.pid, *site.pids("replica")]
    began = time.monotonic()
    signalled(pids, signal.SIGTSTP)
    process.send_signal(signal.SIGURG)  # asks Slurm, so that the conductor has taken both signals
    until(asked.exists)
    for _ in range(3):  # a turn may have begun before the signal came, and the next one reads output first
        ticked(site)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        signalled(pids, number)
        ahead.touch()
    until(lambda: site.events("clock"))
    took_s = time.monotonic() - began
    ticked(site)
    (folder / "done").touch()
    assert process.wait(END_S) == min(code, 1)
    assert site.outcome()["replicas"][0]["code"] == code
    [clock] = site.events("clock")
    assert HOURS_S <= clock["by"] <= HOURS_S + took_s


def test_an_app_goes_on_whose_folder_was_away_for_a_moment(site: Site) -> None:
    site.app(role("main", "echo up; until [ -e done ]; do sleep 0.02; done"))
    process, away = site.started(), site.shared / "away"
    site.dir.rename(away)
    process.send_signal(signal.SIGUSR2)  # looks for a cancellation
    until(lambda: b"No such file" in (away / "slurm.out").read_bytes())
    away.rename(site.dir)
    (site.dir / "workspace" / "done").touch()
    assert process.wait(END_S) == 0
    assert site.outcome()["state"] == "succeeded"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_app_ends_whose_folder_was_removed_and_touches_no_later_one(site: Site, is_replaced: bool) -> None:
    site.patch("conduct", "LOOK_S = 30.0", "LOOK_S = 0.2")
    site.app(role("main", "echo up; exec sleep 1000"))
    process, away = site.started(), site.shared / "away"
    site.dir.rename(away)
    if is_replaced:
        site.dir.mkdir()
    assert process.wait(END_S) == 1
    assert site.processes() == []
    assert not is_replaced or os.listdir(site.dir) == []
    assert not (away / "outcome").exists()
