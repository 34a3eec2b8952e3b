"""Random files, matrices, edits and histories: a success that a plan keeps stands on what the files ask for.

The oracle knows files and attempts alone. It compares names and editions, and calls nothing of the planner.
"""

from dataclasses import replace
from random import Random

import pytest

from launcher.plan.codec import dumps, loads
from launcher.plan.model import Plan
from launcher.plan.recheck import located, recheck
from launcher.specs.attempt import ENDED_STATES, Attempt
from launcher.specs.launch import JobKey, Launch, Need
from tests.lanes import sampled, seeds
from tests.unit.plan.needs_model import Files
from tests.unit.plan.world import ORIGIN, world

FILES = ("a", "b", "c", "d", "e")
"""A file needs only files before it."""
EDITS = 40


class History(Files):
    """Random edits, applies and ends."""

    def __init__(self) -> None:
        super().__init__(version=dict.fromkeys(FILES, 1))

    def edit(self, random: Random) -> None:
        """Change one thing of one file."""
        at = random.randrange(len(FILES))
        name = FILES[at]
        kinds = ["document", "matrix", "matrix", "need", "need", "need", "policy", "enable", "crowd", "every"]
        kind = random.choice(kinds)
        if kind == "document":
            self.version[name] += 1
        elif kind == "matrix":
            self._change_matrix(name, random)
        elif kind in ("enable", "crowd", "every"):
            flags = {"enable": self.disabled, "crowd": self.crowded, "every": self.every}
            flags[kind] ^= {name} if random.random() < 0.3 else set()
        elif at:
            self._change_need(name, random.choice(FILES[:at]), kind, random)

    def _change_matrix(self, name: str, random: Random) -> None:
        values = self.axes.get(name)
        if values is None or random.random() < 0.2:
            self.axes[name] = random.sample(range(5), random.randint(1, 3))
        elif random.random() < 0.15:
            del self.axes[name]  # one job, of the name that the matrix had
        elif random.random() < 0.5 and len(values) > 1:
            values.remove(random.choice(values))
        else:
            self.axes[name] = sorted({*values, random.randrange(5)})

    def _change_need(self, name: str, other: str, kind: str, random: Random) -> None:
        needs = self.needs.setdefault(name, {})
        if other in self.axes and random.random() < 0.3:
            other = f"{other}-{random.choice(self.axes[other])}"
        if other in needs and kind == "policy":
            needs[other] = Need(other, not needs[other].rerun)
        elif other in needs:
            del needs[other]
        else:
            needs[other] = Need(other, random.random() < 0.75)

    def carried_out(self, random: Random, plan: Plan) -> None:
        """Apply the plan, sometimes after it was saved, or by a client that is killed."""
        if random.random() < 0.3:
            plan = self._saved(plan)
        until = random.randrange(4) if random.random() < 0.15 else None
        if random.random() < 0.1:
            self.leave_behind(plan)
        else:
            self.apply(plan, until=until)
        if random.random() < 0.15:
            job = random.choice(plan.steps).key.job
            self.end_latest(job, random.choice(["cancelled", "lost", "orphaned"]))
        if random.random() < 0.7:
            self.settle([step.key.job for step in plan.steps if random.random() < 0.1])

    def _saved(self, plan: Plan) -> Plan:
        """Return the plan as it is applied from its file, while nothing has happened since."""
        saved = located(loads(dumps(plan.stamped(plan_id="p1", created_at=0))), root="/src", origin=ORIGIN)
        checked = recheck(replace(saved, plan_id=""), world(*self.attempts.values()), now=0)
        assert checked.stale == ()
        assert checked.plan.steps == saved.steps
        return checked.plan

    def judge(self, plan: Plan) -> None:
        """Check that a kept success stands on the needs of its file, at their present editions.

        One that runs again for its needs alone, which have succeeded, does not. Each need of a job that
        starts has succeeded, is live, or starts before it.
        """
        jobs = {launch.key: launch for launch in self.launches()}
        steps = {step.key.job: step for step in plan.steps if step.launch is not None}
        for step in plan.steps:
            codes = {reason.code for reason in step.reasons}
            if step.kind == "keep" and codes == {"already_succeeded"}:
                assert self._is_current(jobs[step.key])
            elif step.kind == "rerun" and codes == {"needs_changed"} and not step.after:
                assert step.guard.state in ("skipped", "waiting") or not self._is_current(jobs[step.key])
            if not step.starts:
                assert not step.after
                continue
            assert 1 <= step.edition <= step.number
            for need in jobs[step.key].needs:
                if need.job in steps and not (step.kind == "resume" and not step.after):
                    assert steps[need.job].kind not in ("hold", "destroy")
                    assert steps[need.job].starts <= (need.job in step.after)

    def _is_current(self, launch: Launch) -> bool:
        last = self._latest(launch.key, *(ENDED_STATES - {"skipped"}), "running")
        assert last.state == "succeeded"
        recorded = {each.job: each.edition for each in last.needs}
        asked = {need.job: self._edition(launch.key._replace(job=need.job)) for need in launch.needs}
        policies = {need.job for need in launch.needs if not need.rerun}
        policies |= set(last.order_only) - asked.keys()
        return {job: recorded.get(job) for job in recorded.keys() - policies} == {
            job: asked[job] for job in asked.keys() - policies
        }

    def _edition(self, key: JobKey) -> int:
        good = self._latest(key, "succeeded")
        return good.edition if good is not None else 0

    def _latest(self, key: JobKey, *states: str) -> Attempt | None:
        found = (each for each in self.attempts.values() if each.key == key and each.state in states)
        return max(found, key=lambda each: each.number, default=None)


@pytest.mark.parametrize("seed", sampled(seeds(2)))
def test_a_success_that_a_plan_keeps_stands_on_the_needs_in_its_files(seed: int) -> None:
    for part in range(10):
        after_edits(Random(seed * 10 + part))


def after_edits(random: Random) -> History:
    """Return job files after many edits and applies, of which nothing is left to do."""
    files = History()
    for _ in range(EDITS):
        files.edit(random)
        if random.random() < 0.5:
            continue
        words = [name for name in FILES if random.random() < 0.1]
        plan = files.plan(
            words, rerun=random.sample(FILES, 1)[: random.random() < 0.2], retry_failed=random.random() < 0.3
        )
        if plan.problems:
            continue
        files.judge(plan)
        files.carried_out(random, plan)
        after = files.plan()
        if not after.problems:
            files.judge(after)
    for flags in (files.disabled, files.every, files.crowded):
        flags.clear()
    files.settle()
    for _ in range(2):
        files.apply(files.plan(retry_failed=True, rerun=_cancelled(files)))
        files.settle()
    last = files.plan()
    assert last.problems or last.is_empty, str(last)
    files.judge(last)
    return files


def _cancelled(files: Files) -> list[str]:
    """Return the jobs that were cancelled: only a name runs them again."""
    return [step.key.job for step in files.plan().steps if step.kind == "hold" and step.launch is not None]


@pytest.mark.parametrize("seed", sampled(seeds(2)))
def test_a_job_that_every_apply_repeats_stops_no_running_job(seed: int) -> None:
    """Jobs that depend on the repeated job may run meanwhile."""
    for part in range(4):
        random = Random(f"every {seed * 4 + part}")
        files = after_edits(random)
        if files.plan().problems:
            continue
        for name in random.sample(FILES, 2):
            files.version[name] += 1
        files.apply(files.plan())
        files.every = {*random.sample(FILES, random.randint(1, 3))}
        made = files.plan()
        files.judge(made)
        assert not any(step.stops for step in made.steps)
        begun = {step.key.job for step in made.steps if step.has_effects and not step.withdraws}
        assert {name.partition("-")[0] for name in begun} <= files.every
        files.apply(made)
        files.settle()
        files.every = set()
        assert files.plan().is_empty
