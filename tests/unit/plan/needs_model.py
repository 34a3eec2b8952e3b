"""A small world that carries out plans of jobs with needs, without an engine or a clock."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from launcher.jobfile.compile.needs import resolve_needs
from launcher.plan.grounds import in_order, needs_of
from launcher.plan.model import Plan
from launcher.plan.reconcile import Choices, reconcile, select
from launcher.plan.step import Step
from launcher.specs.attempt import ENDED_STATES, Attempt, StoodOn
from launcher.specs.launch import JobKey, Launch, Need, Trigger
from tests.unit.plan.world import OWNER, attempt, job, world

HOLDER = "pid 99 on node1"
EVERY = Trigger("every_apply")


@dataclass
class Files:
    """Job files, each of one job or of a matrix, whose needs name other files or jobs of their matrices.

    Attributes:
        records: the needs of each attempt since it has started, which never change.
    """

    version: dict[str, int] = field(default_factory=dict)
    needs: dict[str, dict[str, Need]] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    every: set[str] = field(default_factory=set)
    crowded: set[str] = field(default_factory=set)
    axes: dict[str, list[int]] = field(default_factory=dict)
    attempts: dict[tuple[JobKey, int], Attempt] = field(default_factory=dict)
    records: dict[tuple[JobKey, int], object] = field(default_factory=dict)

    def launches(self) -> list[Launch]:
        made = []
        for name, version in self.version.items():
            needs = tuple(sorted(self.needs.get(name, {}).values()))
            policies = {"rerun_on": (EVERY,)} if name in self.every else {}
            names = [f"{name}-{value}" for value in self.axes[name]] if name in self.axes else [name]
            jobs = [job(each, str(version), **policies) for each in names]
            about = {"needs": needs, "enabled": name not in self.disabled}
            made += [replace(each, matrix=name if name in self.axes else "", **about) for each in jobs]
        return resolve_needs(made)[0]

    def plan(
        self, words: Collection[str] = (), *, rerun: Collection[str] = (), retry_failed: bool = False
    ) -> Plan:
        chosen, others = select(self.launches(), words)
        there = {name for launch in chosen if launch.enabled for name in (launch.key.job, launch.matrix)}
        return reconcile(
            chosen,
            world(*self.attempts.values()),
            Choices(
                rerun=tuple(name for name in rerun if name.strip("+") in there), retry_failed=retry_failed
            ),
            others=others,
        )

    def apply(self, plan: Plan, *, until: int | None = None) -> None:
        """Carry out the plan, or its first steps: then its client is killed."""
        waits = {step.key: step for step in plan.steps if step.launch is not None}
        needs = needs_of(step.launch for step in waits.values() if step.launch is not None)
        for waiting in (guard for step in plan.steps for guard in step.withdraws):
            self._end(waiting.app_id, "skipped")
        for at, step in enumerate(in_order(waits, needs)):
            if until is not None and at >= until:
                return
            self._carry_out(step)
        for step in plan.steps:
            if step.launch is None:
                self._stop(step)

    def settle(self, fails: Collection[str] = ()) -> None:
        """End every attempt that runs, and let the attempts that wait for it go on."""
        while live := [each for each in self.attempts.values() if each.is_live and each.owner != OWNER]:
            done = [each for each in live if self._goes_on(each, fails)]
            if not done:
                return

    def _goes_on(self, attempt: Attempt, fails: Collection[str]) -> bool:
        if attempt.state == "running":
            self._put(replace(attempt, state="failed" if attempt.key.job in fails else "succeeded", owner=""))
        elif attempt.state == "waiting" and attempt.owner:
            states = [self._stood_on(each, attempt).state for each in attempt.needs]
            if any(state in ENDED_STATES and state != "succeeded" for state in states):
                self._put(replace(attempt, state="skipped", owner=""))
            elif all(state == "succeeded" for state in states):
                self._put(self._accepted(attempt))
            else:
                return False
        elif attempt.state == "queued" and attempt.owner:
            self._put(replace(attempt, state="running", owner=""))
        else:
            return False
        return True

    def _carry_out(self, step: Step) -> None:
        self._stop(step)
        launch = step.launch
        if launch is None or not step.starts:
            return
        new = attempt(launch, "waiting", step.number)
        new = replace(
            new, edition=step.edition, needs=step.needs, order_only=_order_only(step, launch), owner=HOLDER
        )
        if not step.after:
            new = self._accepted(new)
        if step.kind != "resume" or self.attempts.get((step.key, step.number), new).state != "running":
            self._put(new)
        self._check(step, launch)

    def _accepted(self, attempt: Attempt) -> Attempt:
        """Return an attempt whose needs are met: it runs, or is in line."""
        if attempt.key.job.partition("-")[0] in self.crowded:
            return replace(attempt, state="queued")
        return replace(attempt, state="running", owner="")

    def _check(self, step: Step, launch: Launch) -> None:
        """Check that no attempt starts before its needs, and that each waits only for live attempts."""
        made = self.attempts[step.key, step.number]
        stood_on = {each.job: self._stood_on(each, made) for each in step.needs}
        if step.kind != "resume":
            assert {need.job for need in launch.needs} == set(stood_on)
        for each in step.needs:
            assert stood_on[each.job].edition == each.edition
            assert stood_on[each.job].app_id == each.app_id
            if each.job in step.after:
                assert stood_on[each.job].is_live
            elif made.state in ("running", "queued") and step.kind != "resume":
                assert stood_on[each.job].state == "succeeded"

    def _stop(self, step: Step) -> None:
        for guard in step.leftovers:
            self.attempts.pop((step.key, guard.attempt), None)
        for guard in step.stops:
            self._end(guard.app_id, "cancelled")

    def _end(self, app_id: str, state: str) -> None:
        for each in list(self.attempts.values()):
            if each.app_id == app_id and each.is_live:
                self._put(replace(each, state=state, owner=""))

    def end_latest(self, name: str, state: str) -> None:
        """End the latest attempt, or take away its holder (state "orphaned")."""
        live = [each for each in self.attempts.values() if each.key.job == name and each.is_live]
        for each in live[-1:]:
            if state == "orphaned":
                self._put(replace(each, owner=""))
            elif each.state == "running" or state == "cancelled":
                self._put(replace(each, state=state, owner=""))

    def leave_behind(self, plan: Plan) -> None:
        """Reserve every attempt of the plan, as a client does that is then killed."""
        for step in plan.steps:
            if step.starts and step.launch is not None and not step.withdraws:
                new = attempt(step.launch, "reserved", step.number)
                if (step.key, step.number) not in self.attempts:
                    order_only = _order_only(step, step.launch)
                    self._put(replace(new, edition=step.edition, needs=step.needs, order_only=order_only))

    def _stood_on(self, need: StoodOn, attempt: Attempt) -> Attempt:
        return self.attempts[attempt.key._replace(job=need.job), need.number]

    def _put(self, attempt: Attempt) -> None:
        self.attempts[attempt.key, attempt.number] = attempt
        if attempt.state not in ("reserved", "waiting"):
            record = attempt.needs, attempt.order_only
            assert self.records.setdefault((attempt.key, attempt.number), record) == record


def _order_only(step: Step, launch: Launch) -> tuple[str, ...]:
    never = {need.job for need in launch.needs if not need.rerun}
    return tuple(need.job for need in step.needs if need.job in never)
