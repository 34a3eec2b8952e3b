"""Drive an app inside its Slurm job: its steps, the signals of Slurm, and the requests of clients.

It decides nothing: see `launcher.holding`. Python >= 3.6, the standard library alone.
"""

import os
import signal
import time
from typing import Any, Optional, Sequence

from launcher.holding.app import App
from launcher.holding.replica import Replica
from launcher.schedulers.contents import output_digest
from launcher.schedulers.loop import Loop
from launcher.schedulers.slurm.site.job import (
    Job,
    has_restarted,
    is_ending,
    is_preempted,
    over_limit,
    seconds_until,
)
from launcher.schedulers.slurm.site.node import now_ns, read_json
from launcher.schedulers.slurm.site.record import Record
from launcher.schedulers.slurm.site.replicas import Json
from launcher.schedulers.slurm.site.steps import KILL_AFTER_S, Steps

LOOK_S = 30.0  # pause between two looks in the folder for a cancellation whose signal got lost
WARNED_S = 90.0  # how long before a job's limit Slurm may send its signal, which it sends once
TERMED_S = 1.2  # how long replicas may take to end when Slurm ends the job; Slurm kills KillWait after TERM
ENDED_BY_OTHERS = "a client recorded its end: Slurm did not know that its job ran"
REASONS = ("cancel", "orphaned", "broken")
"""Facts that end the app: it judges one of them before it hears of the ends that follow from it."""


class Requeued(Exception):
    """Slurm ends the job and runs it again."""


class Driver:
    """The replicas of an app, for `hold`.

    Args:
        run: how often Slurm has run the job before.
    """

    def __init__(
        self, folder: str, settings: Json, app: App, record: Record, job: Job, loop: Loop, run: int
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._app = app
        self._record = record
        self._job = job
        self._run = run
        self._loop = loop
        loop.on_signals = self._take_signals
        self._steps = Steps(folder, settings, app, job, loop, run)
        self._steps.on_doubt = self._is_ended_by_slurm
        self._cancel = None  # type: Optional[Json]
        self._is_taken = False  # a client has recorded an end
        self._is_requeued = self._wants_quiet = False
        self._is_over = False  # whether Slurm leaves no time to wait for replicas
        self._look()
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        if end.isdigit() and int(end) - time.time() < WARNED_S:
            self._near_limit()

    # -- what `hold` asks for ------------------------------------------------------------------------------

    @staticmethod
    def now() -> float:
        return time.time()

    def start(self, replicas: "Sequence[Replica]") -> None:
        if not self._is_requeued:
            self._steps.start(replicas)

    def stop(self, replicas: "Sequence[tuple[Replica, Optional[float]]]") -> None:
        given = [grace_s for _, grace_s in replicas if grace_s is not None]
        self._steps.stop([each for each, _ in replicas], self._grace_s(*given))

    def quiet(self) -> None:
        self._wants_quiet = True
        self._steps.leave()

    def wait(self, deadline: "Optional[float]") -> "list[Json]":
        """The next facts. Raises Requeued once all replicas of a run that Slurm repeats have ended."""
        until = None if deadline is None else time.monotonic() + deadline - self.now()
        while True:
            self._steps.collect()
            if self._is_requeued and (self._is_over or not self._steps):
                raise Requeued
            facts = self._take_facts()
            if facts:
                return facts
            if self._is_requeued:
                until = None
            elif until is not None and time.monotonic() >= until:
                return []
            self._loop.turn(until)

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
        """The grace period of a stop: the app's own, or the shortest of those that clients have given."""
        grace_s: float = min(given) if given else self._settings["grace_s"]
        return min(grace_s, TERMED_S) if self._record.is_hurried else grace_s

    # -- reasons from outside ------------------------------------------------------------------------------

    def _report(self, kind: str, **fields: Any) -> None:
        event = {"e": kind, "t": now_ns()}
        event.update(fields)
        self._steps.facts.append(event)

    def _look(self) -> None:
        self._look_for_requests()
        self._loop.after(LOOK_S, self._look)

    def _look_for_requests(self) -> None:
        names = os.listdir(self._folder)  # NFS reads a list from the server
        if "outcome" in names and not self._is_taken:
            self._is_taken = True
            self._report("orphaned", why=ENDED_BY_OTHERS)
        found = read_json(self._folder + "/cancel") if "cancel" in names else None
        if found is not None and found != self._cancel:
            self._cancel = found
            fields = {
                name: found[name] for name in ("by", "interrupt", "grace_s") if found.get(name) is not None
            }
            self._report("cancel", **fields)

    def _take_signals(self, numbers: "list[int]") -> None:
        if signal.SIGUSR2 in numbers:
            self._look_for_requests()
        if signal.SIGUSR1 in numbers:
            self._near_limit()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._terminated(self._job.ask())

    def _near_limit(self) -> None:
        """Stop in time for the job's limit. Slurm's signal may come a minute early, and limits may change."""
        found = self._job.ask()
        spare_s = seconds_until(found.get("EndTime", "")) - self._settings["grace_s"] - KILL_AFTER_S
        if spare_s > 0:
            self._loop.after(spare_s, self._near_limit)
        else:
            self._report("broken", why=over_limit(found))

    def _is_ended_by_slurm(self) -> bool:
        """Ask whether Slurm ends the job: it signals the conductor later, or the steps alone."""
        found = self._job.ask()
        if is_ending(found):
            self._terminated(found)
        return is_ending(found)

    def _terminated(self, found: Json) -> None:
        """Stop: Slurm ends the job, and kills the rest a few seconds later. A requeued job comes back."""
        has_time = found.get("JobState") == "RUNNING"  # time is left, or only the conductor got the signal
        self._look_for_requests()  # a cancellation, if that is the cause
        is_new = self._app.stop is None and not self._steps.is_ending
        comes_back = has_restarted(found, self._run) or (
            self._settings.get("requeue") and is_preempted(found)
        )
        self._steps.is_ending = True
        self._record.is_hurried = self._record.is_hurried or not has_time
        if is_new and comes_back:
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
                fact = {"e": "exit", "role": each.role.name, "k": each.k, "code": None, "stopped": True}
                self._steps.facts.append(fact)
