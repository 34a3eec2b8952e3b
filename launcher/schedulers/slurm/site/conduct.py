"""Run an app inside its Slurm job: the program that the batch script executes, on the first node of the job.

Usage: `app.zip conduct APP_DIR [CODE COMMAND]`, with the exit code and the text of the line of `setup` that
failed, if any. Python >= 3.6, the standard library alone.
"""

import json
import os
import signal
import socket
import sys
import time
from typing import Any, Mapping, Optional, Sequence

from launcher.holding.app import App
from launcher.holding.events import created, ended, skipped
from launcher.holding.hold import decide, hold, implied_end
from launcher.holding.journal import is_full
from launcher.holding.replica import Replica
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.contents import output_digest
from launcher.schedulers.loop import Loop, SteadyClock
from launcher.schedulers.slurm.site.job import SlurmJob, has_restarted, is_ending, is_preempted, over_limit
from launcher.schedulers.slurm.site.node import now_ns, read_json, say
from launcher.schedulers.slurm.site.record import Record, events_of
from launcher.schedulers.slurm.site.shared import (
    ARRAY_SCRIPT,
    NO_ROOM,
    RUN_AGAIN,
    Json,
    last_output,
    parse_time,
    read_tasks,
    script_of,
)
from launcher.schedulers.slurm.site.steps import KILL_AFTER_S, Steps

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
"""Those that end a program by default are caught: USR1 may be for the replicas of a job."""
SUSPENDING = (signal.SIGTSTP, signal.SIGCONT)
"""Slurm's signals to a job that it suspends, 2 s before it stops all processes, and that it resumes."""
REQUEUE_S = 60.0  # how long Slurm may take to end a requeued job
CLAIM_READS, READ_AGAIN_S = 5, 1.0
EVERY = 1 << 30  # a step starts all replicas of a role


def own_job(env: "Mapping[str, str]", app_id: str) -> SlurmJob:
    """The job that this process runs in: a task of an array, `123_7`, or a job of the app alone."""
    if "LAUNCHER_ARRAY_DIR" not in env:
        return SlurmJob(env.get("SLURM_JOB_ID", ""), f"/{app_id}/script-")
    task = "{}_{}".format(env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", ""))
    return SlurmJob(task, "/{}/{}".format(os.path.basename(env["LAUNCHER_ARRAY_DIR"]), ARRAY_SCRIPT))


def is_submitted_for(env: "Mapping[str, str]", job: SlurmJob, folder: AppFolder) -> bool:
    """Whether the job was submitted for this folder, and not for a folder that this one replaced."""
    generation = folder.text("id") or ""
    if "LAUNCHER_ARRAY_DIR" in env:
        k = int(env["SLURM_ARRAY_TASK_ID"])
        return read_tasks(env["LAUNCHER_ARRAY_DIR"])[k : k + 1] == [(folder.app_id, generation)]
    submitted = folder.text("job")
    if submitted is not None:
        return submitted == job.id
    return bool(SlurmJob(job.id, f"/{folder.app_id}/{script_of(generation)}").ask())


def unmet_needs(folder: str) -> str:
    """The needs that have not succeeded, so that an app must not run; "" for none. Slurm may forget them."""
    waits = (read_json(folder + "/created") or {}).get("waits") or {}
    ends = []  # type: list[tuple[str, str]]
    unrun = []  # type: list[str]
    for app_id, job in waits.items():
        need = os.path.join(os.path.dirname(folder), app_id)
        for left in reversed(range(CLAIM_READS)):  # NFS may have cached that a file was missing
            outcome = read_json(need + "/outcome")
            if outcome is not None or os.path.exists(need + "/started") or not os.path.isdir(need):
                break
            if left:
                time.sleep(READ_AGAIN_S)
        else:
            unrun.append(f"{job} did not run")
        if outcome is not None:
            ends.append((job, str(outcome.get("state"))))
    return ", ".join(filter(None, [skipped(ends), *unrun]))


class Conductor:
    """Runs the app of a folder, as its holder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.job = own_job(os.environ, os.path.basename(folder))
        self.run_number = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        # Before the claim, after which clients send signals.
        self.loop = Loop((*SIGNALS, *SUSPENDING))

    def run(self, *failed: str) -> int:
        """Run the app, or record that its setup failed; returns the exit code of the job."""
        known = read_json(self.folder + "/outcome")
        if known is not None:
            return int(known.get("exit_code") or 0)
        try:
            has_run = self._claim()
        except OSError as error:
            say(f"{self.folder}: {error.strerror}")
            return NO_ROOM if is_full(error) else 1
        if has_run is None:
            return 0
        unmet = "" if has_run else unmet_needs(self.folder)
        if unmet:
            return self._end("skipped", unmet)
        settings = read_json(self.folder + "/app.json")
        if settings is None:
            return self._end("failed", "cannot start: app.json is missing or damaged")
        if has_run and not self.run_number and not settings.get("requeue"):
            return self._end("lost", RUN_AGAIN)
        app = App()
        try:
            record = self._open(settings, app)
        except (OSError, ValueError, KeyError) as error:
            return self._end("failed", f"cannot start: {error}")
        if app.state == "running":  # go on after a run that Slurm has cut off, or end as its events imply
            end = implied_end(events_of(self.folder))
            if end is None:
                forget_last_run(self.folder)
            tell(app, record, end or {"e": "requeued", "n": self.run_number})
        if app.has_ended:
            return finish(app, record)
        if failed:
            return self._end_unstarted(app, record, int(failed[0]), failed[1])
        return self._hold(settings, app, record)

    def _claim(self) -> Optional[bool]:
        """Become the one job that runs the app; returns whether it ran before, None if another job has it."""
        path = self.folder + "/started"
        mine = {"job": self.job.id, "host": socket.gethostname(), "at": time.time()}
        with AppFolder(self.folder) as folder:
            if not is_submitted_for(os.environ, self.job, folder):
                return None
            if folder.link("started", json.dumps(mine)):
                return False if folder.is_in_place() else None  # None: the app was being removed
        for _ in range(CLAIM_READS):  # NFS may have cached an old file
            found = read_json(path)
            if found is not None:
                return True if found.get("job") == self.job.id else None
            time.sleep(READ_AGAIN_S)
        return None

    def _hold(self, settings: Json, app: App, record: Record) -> int:
        tell(app, record, {"e": "starting"})
        driver = Driver(self.folder, settings, app, record, self.job, self.loop, self.run_number)
        try:
            hold(app, record, driver, EVERY)
        except Requeued:  # Slurm ends this run, so that the job runs again
            if self.job.ask().get("JobState") == "RUNNING":  # Slurm left time to stop
                self.job.requeue()
                time.sleep(REQUEUE_S)
            return 1
        if settings.get("requeue"):  # a requeued job of an ended app would wait in the queue for nothing
            self.job.forbid_requeue()
        return finish(app, record)

    def _open(self, settings: Json, app: App) -> Record:
        """Make the folders of an app and its record, and read the record's events."""
        make_folders(self.folder, settings)
        for event in events_of(self.folder):
            app.take(event)
        record = Record(self.folder, app, {role["name"]: role["folder"] for role in settings["roles"]})
        if not app.roles:
            roles = [
                (each["name"], len(each["replicas"]), each["retries"], each["policy"])
                for each in settings["roles"]
            ]
            tell(app, record, created(roles, settings.get("order") or {}, settings.get("timeout_s")))
        record.keep_room()
        return record

    def _end_unstarted(self, app: App, record: Record, code: int, command: str) -> int:
        tell(app, record, {"e": "starting"})
        said = last_output(self.folder)
        why = f"setup failed with {code}: {command}" + (f" ({said})" if said else "")
        tell(app, record, {"e": "broken", "why": why, "code": code})
        decide(app, record, time.time())
        tell(app, record, {"e": "quiet"})
        decide(app, record, time.time())
        return finish(app, record)

    def _end(self, state: str, message: str) -> int:
        say(message)
        app = App()
        record = Record(self.folder, app)
        tell(app, record, ended(state, message))
        return finish(app, record)


def tell(app: App, record: Record, event: Json) -> None:
    record.append(event)
    app.take(event)


def make_folders(folder: str, settings: Json) -> None:
    """The folders that replicas write to. Raises OSError."""
    made = ["hosts", "scratch", *([] if settings.get("cwd") else ["workspace"])]
    for role in settings["roles"]:
        made += ["logs/" + role["folder"], "replicas/" + role["folder"]]
    for name in made:
        os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)


def forget_last_run(folder: str) -> None:
    """Remove the hosts and ends that replicas of an earlier run of the job have recorded."""
    for root, _, names in os.walk(folder + "/replicas"):
        for name in names:
            if name.endswith(".json"):
                os.unlink(f"{root}/{name}")
    for name in os.listdir(folder + "/hosts"):
        os.unlink(f"{folder}/hosts/{name}")


def finish(app: App, record: Record) -> int:
    """Wait until the end is recorded; returns the exit code of the job."""
    while not record.is_written():
        time.sleep(READ_AGAIN_S)
    record.close()
    return 0 if app.state == "succeeded" else app.code or 1


# -- the driver ----------------------------------------------------------------------------------------------

LOOK_S = 30.0  # pause between two looks in the folder for a cancellation whose signal got lost
WARNED_S = 90.0  # how long before a job's limit Slurm may send its signal, which it sends once
TERMED_S = 1.2  # how long replicas may take to end when Slurm ends the job; Slurm kills KillWait after TERM
ENDED_BY_OTHERS = "a client recorded its end: Slurm did not know that its job ran"
GONE = "its folder was removed"
REASONS = ("cancel", "orphaned", "broken")
"""The facts that end the app: the app judges such a fact before the ends of replicas that follow from it."""


class Requeued(Exception):
    """Slurm ends the job and runs it again."""


class Driver:
    """The replicas of an app, for `hold`. `run`: how often Slurm has run the job before."""

    def __init__(
        self, folder: str, settings: Json, app: App, record: Record, job: SlurmJob, loop: Loop, run: int
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._app = app
        self._record = record
        self._job = job
        self._run = run
        self._loop = loop
        self._clock = SteadyClock()
        self._suspended_s = 0.0  # as far as it was reported
        loop.on_signals = self._take_signals
        self._steps = Steps(folder, settings, app, job, loop, run)
        self._steps.on_doubt = self._is_ended_by_slurm
        self._cancel = None  # type: Optional[Json]
        self._is_taken = False  # a client has recorded an end
        self._is_gone = False  # the folder of the app was not there at the last look
        self._is_requeued = self._wants_quiet = False
        self._is_over = False  # whether Slurm leaves no time to wait for replicas
        self._look()
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        if end.isdigit() and int(end) - time.time() < WARNED_S:
            self._near_limit()

    # -- the methods of a driver ---------------------------------------------------------------------------

    def now(self) -> float:
        """The time, less the suspension that no fact has reported yet."""
        return self._clock.now() - (self._loop.stood_s() - self._suspended_s)

    def start(self, replicas: "Sequence[Replica]") -> None:
        if not self._is_requeued:
            self._steps.start(replicas)

    def stop(self, replicas: "Sequence[tuple[Replica, Optional[float]]]") -> None:
        given = [grace_s for _, grace_s in replicas if grace_s is not None]
        self._steps.stop([each for each, _ in replicas], self._grace_s(*given))

    def quiet(self) -> None:
        self._wants_quiet = True
        self._steps.stop_all(0.0)

    def wait(self, deadline: "Optional[float]") -> "list[Json]":
        """The next facts. Raises Requeued once all replicas of a run that Slurm repeats have ended."""
        until = None if deadline is None else self._loop.now() + deadline - self.now()
        has_waited = False
        while True:
            self._steps.collect()
            if self._is_requeued and (self._is_over or not self._steps):
                raise Requeued
            facts = self._take_facts()
            clock = self._clock.set_since()
            if facts or clock:
                return facts if clock is None else [clock, *facts]
            if self._is_requeued:
                until = None
            elif has_waited and until is not None and self._loop.now() >= until:
                return []
            self._loop.turn(until)
            has_waited = True

    def _take_facts(self) -> "list[Json]":
        if self._is_requeued:  # the next run begins anew
            self._steps.facts.clear()
            return []
        facts = self._steps.facts
        reasons = [at for at, fact in enumerate(facts) if fact["e"] in REASONS]
        count = reasons[0] + 1 if reasons else len(facts)
        found, self._steps.facts = facts[:count], facts[count:]
        if not found and self._wants_quiet and (self._is_over or not self._steps):
            self._wants_quiet = False
            return [*self._output(), {"e": "quiet"}]
        return found

    def _output(self) -> "list[Json]":
        """The fact with the digest of the output folder of a success; none where Slurm leaves no time."""
        if not self._app.succeeds or self._record.is_hurried:
            return []
        replicas = [each for role in self._settings["roles"] for each in role["replicas"]]
        folders = {each["env"].get("LAUNCHER_OUTPUT_DIR", "") for each in replicas} - {""}
        digests = [output_digest(folder) for folder in folders]
        return [{"e": "output", "digest": digest} for digest in digests if digest]

    def _grace_s(self, *given: float) -> float:
        """The grace period of a stop: the shortest that clients have given, or the app's own."""
        grace_s: float = min(given) if given else self._settings["grace_s"]
        return min(grace_s, TERMED_S) if self._record.is_hurried else grace_s

    # -- reasons from outside ------------------------------------------------------------------------------

    def _report(self, kind: str, **fields: Any) -> None:
        self._steps.facts.append(dict(fields, e=kind, t=now_ns()))

    def _look(self) -> None:
        self._look_for_requests()
        self._loop.after(LOOK_S, self._look)

    def _look_for_requests(self) -> None:
        try:
            names = os.listdir(self._folder)  # NFS reads a list from the server
        except OSError as error:
            say(f"{self._folder}: {error.strerror}")
            names = []
        was_gone, self._is_gone = self._is_gone, not self._record.is_in_place()
        if was_gone and self._is_gone:  # a look may fail
            self._record.is_hurried = True
            self._report("orphaned", why=GONE)
        if self._is_gone:
            return
        if "outcome" in names and not self._is_taken:
            self._is_taken = True
            self._report("orphaned", why=ENDED_BY_OTHERS)
        found = read_json(self._folder + "/cancel") if "cancel" in names else None
        if found is not None and found != self._cancel:
            self._cancel = found
            names = [name for name in ("by", "interrupt", "grace_s") if found.get(name) is not None]
            self._report("cancel", **{name: found[name] for name in names})

    def _take_signals(self, numbers: "list[int]") -> None:
        suspended_s = self._loop.suspended_s
        if suspended_s > self._suspended_s:
            self._report("clock", by=round(suspended_s - self._suspended_s, 3))
            self._suspended_s = suspended_s
        if signal.SIGUSR2 in numbers:
            self._look_for_requests()
        if signal.SIGURG in numbers:
            self._near_limit()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._terminated(self._job.ask())

    def _near_limit(self) -> None:
        """Stop in time for the job's limit. Slurm's signal may come a minute early, and limits may change.

        Where `send_user_signal` is set, Slurm sends it to preempted jobs, too, in the place of TERM.
        """
        found = self._job.ask()
        if is_ending(found, self._run):
            self._terminated(found)
            return
        ends_at = parse_time(found.get("EndTime", "")) or 0.0
        spare_s = ends_at - time.time() - self._settings["grace_s"] - KILL_AFTER_S
        if spare_s > 0:
            self._loop.after(spare_s, self._near_limit)
        else:
            self._report("broken", why=over_limit(found))

    def _is_ended_by_slurm(self) -> bool:
        """Ask whether Slurm ends the job: it signals the conductor later, or the steps alone."""
        found = self._job.ask()
        is_ended = is_ending(found, self._run)
        if is_ended:
            self._terminated(found)
        return is_ended

    def _terminated(self, found: Json) -> None:
        """Stop: Slurm ends the job, and kills the rest a few seconds later. A requeued job comes back."""
        has_time = found.get("JobState") == "RUNNING"  # time is left, or only the conductor got the signal
        self._look_for_requests()  # a cancellation, if that is the cause
        is_new = self._app.stop is None and not self._steps.is_ending
        is_requeued = self._settings.get("requeue") and is_preempted(found)
        self._steps.is_ending = True
        self._record.is_hurried = self._record.is_hurried or not has_time
        if is_new and (has_restarted(found, self._run) or is_requeued):
            self._is_requeued = True
        elif is_new:
            state, why = self._job.verdict(found, self._steps.failed_node)
            self._report("broken", why=why) if state == "failed" else self._report("cancel")
        self._steps.release_all()
        if self._is_requeued or not has_time:
            self._steps.stop_all(self._grace_s())
        if not has_time:
            self._loop.after(TERMED_S, self._be_over)

    def _be_over(self) -> None:
        self._is_over = True
        for each in self._app.replicas:
            if each.is_active:
                self._report("exit", role=each.role.name, k=each.k, code=None, stopped=True)


# -- the program ---------------------------------------------------------------------------------------------


def main(folder: str, *failed: str) -> Any:
    daemon, conductor = os.getppid(), Conductor(folder)
    code = conductor.run(*failed)
    # Where its slurmstepd was killed, Slurm would hold the nodes of the job for ever.
    if os.getppid() != daemon and conductor.job.ask():
        conductor.job.cancel()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # without waiting for a step that Slurm is about to kill
