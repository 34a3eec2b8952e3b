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
from typing import Any, Mapping, Optional

from launcher.holding.app import App
from launcher.holding.events import created, ended
from launcher.holding.hold import decide, hold, implied_end
from launcher.holding.phrases import skipped
from launcher.schedulers.appfolder import AppFolder
from launcher.schedulers.loop import Loop
from launcher.schedulers.slurm.site.driver import Driver, Requeued
from launcher.schedulers.slurm.site.job import Job
from launcher.schedulers.slurm.site.node import read_json, say
from launcher.schedulers.slurm.site.owners import ARRAY_SCRIPT, read_tasks, script_of
from launcher.schedulers.slurm.site.record import Record, events_of
from launcher.schedulers.slurm.site.replicas import Json

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
REQUEUE_S = 60.0  # how long Slurm may take to end a requeued job
CLAIM_READS, READ_AGAIN_S = 5, 1.0
EVERY = 1 << 30  # a step starts all replicas of a role
RUN_AGAIN = "Slurm's controller forgot that its job ran; it is not run twice"


def own_job(env: "Mapping[str, str]", app_id: str) -> Job:
    """The job that this process runs in: a task of an array, `123_7`, or a job of the app alone."""
    if "LAUNCHER_ARRAY_DIR" not in env:
        return Job(env.get("SLURM_JOB_ID", ""), f"/{app_id}/script-")
    task = "{}_{}".format(env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", ""))
    return Job(task, "/{}/{}".format(os.path.basename(env["LAUNCHER_ARRAY_DIR"]), ARRAY_SCRIPT))


def is_submitted_for(env: "Mapping[str, str]", job: Job, folder: AppFolder) -> bool:
    """Whether the job was submitted for this folder, and not for a folder that this one replaced."""
    generation = folder.text("id") or ""
    if "LAUNCHER_ARRAY_DIR" in env:
        k = int(env["SLURM_ARRAY_TASK_ID"])
        return read_tasks(env["LAUNCHER_ARRAY_DIR"])[k : k + 1] == [(folder.app_id, generation)]
    submitted = folder.text("job")
    if submitted is not None:
        return submitted == job.id
    return bool(Job(job.id, f"/{folder.app_id}/{script_of(generation)}").ask())


def unmet_need(folder: str) -> str:
    """Why an app must not run: a need that has not succeeded; "" where all have.

    Slurm drops the dependency of a job on a task of an array that is cancelled in the queue.
    """
    waits = (read_json(folder + "/created") or {}).get("waits") or {}
    for app_id, job in waits.items():
        need = os.path.join(os.path.dirname(folder), app_id)
        for left in reversed(range(CLAIM_READS)):  # NFS may have cached that a file was missing
            outcome = read_json(need + "/outcome")
            if outcome is not None or os.path.exists(need + "/started") or not os.path.isdir(need):
                break
            if left:
                time.sleep(READ_AGAIN_S)
        else:
            return f"{job} did not run"
        if outcome is not None and outcome.get("state") != "succeeded":
            return skipped(job, str(outcome.get("state")))
    return ""


class Conductor:
    """Runs the app of a folder, as its holder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.job = own_job(os.environ, os.path.basename(folder))
        self.run_number = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        self.loop = Loop(SIGNALS)  # before the claim, after which clients send signals

    def run(self, *failed: str) -> int:
        """Run the app, or record that its setup failed; returns the exit code of the job."""
        known = read_json(self.folder + "/outcome")
        if known is not None:
            return int(known.get("exit_code") or 0)
        try:
            has_run = self._claim()
        except OSError as error:
            say(f"{self.folder}: {error.strerror}")
            return 1
        if has_run is None:
            return 0
        unmet = "" if has_run else unmet_need(self.folder)
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
        if app.state == "running":
            self._begin_anew(app, record)
        if app.has_ended:
            return finish(app, record)
        if failed:
            return self._end_unstarted(app, record, int(failed[0]), failed[1])
        return self._hold(settings, app, record)

    def _claim(self) -> Optional[bool]:
        """Become the one job that runs this app. Whether it has run the app before; None for another job."""
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
        except Requeued:
            return self._come_back()
        return finish(app, record)

    def _open(self, settings: Json, app: App) -> Record:
        """Make the folders of an app and its record, and read the record's events."""
        make_folders(self.folder, settings)
        for event in events_of(self.folder):
            app.take(event)
        record = Record(self.folder, app, {role["name"]: role["folder"] for role in settings["roles"]})
        if not app.roles:
            tell(app, record, declared(settings))
        record.keep_room()
        return record

    def _begin_anew(self, app: App, record: Record) -> None:
        """Go on after a run that Slurm has cut off, or record the end that follows from its events."""
        end = implied_end(events_of(self.folder))
        if end is None:
            forget_last_run(self.folder)
        tell(app, record, end or {"e": "requeued", "n": self.run_number})

    def _end_unstarted(self, app: App, record: Record, code: int, command: str) -> int:
        tell(app, record, {"e": "starting"})
        tell(app, record, {"e": "broken", "why": f"setup failed with {code}: {command}", "code": code})
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

    def _come_back(self) -> int:
        """Leave the end of this run to Slurm, so that the job runs again."""
        if self.job.ask().get("JobState") == "RUNNING":  # Slurm left time to stop
            self.job.requeue()
            time.sleep(REQUEUE_S)
        return 1


def declared(settings: Json) -> Json:
    """The first event of an app, from its `app.json`."""
    roles = [
        (each["name"], len(each["replicas"]), each["retries"], each["policy"]) for each in settings["roles"]
    ]
    return created(roles, settings.get("order") or {}, settings.get("timeout_s"))


def tell(app: App, record: Record, event: Json) -> None:
    record.append(event)
    app.take(event)


def make_folders(folder: str, settings: Json) -> None:
    """The folders that replicas write to. Raises OSError."""
    made = ["hosts", "scratch"]
    made += [
        "{}/{}".format(below, role["folder"]) for role in settings["roles"] for below in ("logs", "replicas")
    ]
    if not settings.get("cwd"):
        made.append("workspace")
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


def main(folder: str, *failed: str) -> Any:
    daemon, conductor = os.getppid(), Conductor(folder)
    code = conductor.run(*failed)
    # Where its slurmstepd was killed, Slurm would hold the nodes of the job for ever.
    if os.getppid() != daemon and conductor.job.ask():
        conductor.job.cancel()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # without waiting for a step that Slurm is about to kill
