"""Random histories of a repository: only what was approved starts, and in the end all of it has."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from launcher.ci.approvals import ApprovalScope, CommitHistory, effect_checks
from launcher.ci.forge import Check, CheckRun, Pull
from launcher.ci.github import GitHub
from launcher.ci.record import applied_check
from launcher.errors import StaleError
from launcher.plan.approved import judged
from launcher.plan.effects import Approval, Start, started_by
from launcher.plan.model import Plan
from launcher.plan.step import Step
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch, attempt_id
from tests.lanes import sampled, seeds
from tests.unit.plan.world import job, plan

JOBS = ("a", "b", "c")
TARGETS = ("dev", "prod")
Tree = dict[str, int]


@dataclass
class Memory:
    """The data that GitHub holds, with the methods of `CommitHistory`."""

    checks: list[CheckRun] = field(default_factory=list)
    pulls: dict[int, Pull] = field(default_factory=dict)
    merges: dict[str, int] = field(default_factory=dict)
    words = GitHub.words

    def check_runs(self, sha: str) -> list[CheckRun]:
        found = [each for each in self.checks if each.sha == sha]
        return sorted(found, key=lambda each: each.id, reverse=True)

    def add(self, check: Check, sha: str) -> None:
        made = CheckRun(id=len(self.checks) + 1, sha=sha, **check._asdict())
        self.checks.append(made)

    def checks_of(self, pull: Pull) -> list[CheckRun]:
        return self.check_runs(pull.head_sha)

    def number_in(self, subject: str) -> int | None:
        return GitHub.number_in(self, subject)  # type: ignore[arg-type]

    def pulls_of(self, sha: str) -> list[Pull]:
        return [self.pulls[self.merges[sha]]] if sha in self.merges else []

    def pull(self, number: int) -> Pull | None:
        return self.pulls.get(number)


@dataclass
class Branch:
    number: int
    changes: Tree
    head: str


class World:
    """A repository with open pull requests, an engine, and runs of the workflow, some lost or killed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.github = Memory()
        self.tree: Tree = dict.fromkeys(JOBS, 0)
        self.commits: list[tuple[str, str]] = [("0" * 40, "first")]
        self.trees: dict[str, Tree] = {self.commits[0][0]: dict(self.tree)}
        self.open: list[Branch] = []
        self.attempts: dict[JobKey, list[Attempt]] = {}
        self.approved: dict[int, list[Approval]] = {}
        self.merged: set[int] = set()
        self.changed_by: dict[str, int | None] = {}
        self._count = 0
        for target in TARGETS:
            check = Check(f"launcher apply {ApprovalScope('default', target)}", "success", "", "", "", "")
            self.github.add(check, self.commits[0][0])
            for name in JOBS:
                self._start(self._job(name, 0, target), "", "")

    def act(self) -> None:
        acts = [self.branch, self.branch, self.push_again, self.merge, self.merge, self.direct_push]
        self.random.choice([*acts, self.apply, self.apply, self.end, self.plan_again])()

    def branch(self) -> None:
        self._count += 1
        names = self.random.sample(JOBS, self.random.randint(0, 2))
        changes = {name: self.random.randint(0, 3) for name in names}
        made = Branch(self._count, changes, f"{self._count:040x}")
        self.open.append(made)
        self._plan(made)

    def push_again(self) -> None:
        if self.open:
            made = self.random.choice(self.open)
            self._count += 1
            made.changes[self.random.choice(JOBS)] = self.random.randint(0, 3)
            made.head = f"{self._count:040x}"
            if self.random.random() < 0.7:
                self._plan(made)

    def plan_again(self) -> None:
        if self.open:
            self._plan(self.random.choice(self.open))

    def merge(self) -> None:
        if self.open:
            made = self.open.pop(self.random.randrange(len(self.open)))
            self.tree |= made.changes
            self.changed_by |= dict.fromkeys(made.changes, made.number)
            sha = self._commit(f"change (#{made.number})")
            pull = Pull(
                number=made.number, head_sha=made.head, base_ref="main", merged=True, merge_commit_sha=sha
            )
            self.github.pulls[made.number] = pull
            if self.random.random() < 0.8:  # else GitHub has not linked the commit yet
                self.github.merges[sha] = made.number
            self.merged.add(made.number)
            seen = self.approved.get(made.number, ())
            self.approved[made.number] = [each for each in seen if each.source == made.head]
            if self.random.random() < 0.6:
                self.apply()

    def direct_push(self) -> None:
        name = self.random.choice(JOBS)
        self.tree[name], self.changed_by[name] = self.random.randint(0, 3), None
        self._commit("pushed")

    def end(self) -> None:
        key = self.random.choice(sorted(self.attempts))
        last = self.attempts[key][-1]
        if last.state == "running":
            state = self.random.choice(["succeeded", "failed"])
            self.attempts[key][-1] = replace(last, state=state)

    def apply(self, target: str = "", *, killed: bool | None = None) -> list[str]:
        """Run `ci apply` on the newest commit, for one target; return why effects were refused."""
        target = target or self.random.choice(TARGETS)
        killed = self.random.random() < 0.2 if killed is None else killed
        scope, sha = ApprovalScope("default", target), self.commits[-1][0]
        history = CommitHistory(self.github, self.commits[::-1], "main", self._has_jobs, lambda _: None)  # type: ignore[arg-type]
        merged = history.merged(scope)
        checked = judged(self._planned(self.tree, target), merged.approvals, self._past)
        for step in checked.steps:
            if killed and self.random.random() < 0.5:
                return []
            for stop in step.stops:
                self._set_state(step.key, stop.attempt, "cancelled")
            start = started_by(step)
            if start is not None and step.launch is not None:
                self._check_is_approved(step, start)
                self._start(step.launch, step.approval, step.pull_request)
        self.github.add(applied_check(scope, checked, (), merged, run_url=""), sha)
        return [each.why for each in checked.unapproved]

    def check_nothing_is_left(self) -> None:
        """The last merge that changed a job has started it, if its plan shows the start."""
        for target in TARGETS:
            self.apply(target, killed=False)
            now = self._planned(self.tree, target)
            for step in now.steps:
                start = started_by(step)
                if start is None:
                    continue
                used = {each.approval for each in self.attempts.get(step.key, ())}
                number = self.changed_by.get(step.key.job)
                for approval in self.approved.get(number or 0, ())[-1:]:
                    is_open = start in approval.starts and approval.id not in used
                    more = {stop.app_id for stop in step.stops} - approval.stops
                    assert not is_open or more, f"{start} is approved by #{number} and was not started"

    def _check_is_approved(self, step: Step, start: Start) -> None:
        past = self.attempts.get(step.key, [])
        repeats = bool(past) and past[-1].effect == start.digest and past[-1].approval == step.approval != ""
        holding = [
            approval
            for number in self.merged
            for approval in self.approved.get(number, ())
            if start in approval.starts and approval.id == step.approval
        ]
        assert repeats or holding, f"{start} was started, and nothing approves it"
        if not repeats:
            assert step.approval not in {each.approval for each in past}, "an approval starts a job once"

    def _plan(self, branch: Branch) -> None:
        """Run `ci plan` on a pull request, on its merge with main."""
        effects: dict[Start, int] = {}
        stops: frozenset[str] = frozenset()
        self._count += 1
        name = f"plan-{self._count}"
        for target in TARGETS:
            made = self._planned({**self.tree, **branch.changes}, target).stamped(plan_id=name, created_at=0)
            for check in effect_checks(made, ApprovalScope("default", target), str(branch.number)):
                self.github.add(check, branch.head)
            after = {step.key: step.guard.attempt for step in made.steps}
            effects |= {each: after[each.key] for each in made.effects if isinstance(each, Start)}
            stops |= {stop.app_id for step in made.steps for stop in step.stops}
        approval = Approval(id=name, starts=effects, stops=stops, source=branch.head)
        kept = [each for each in self.approved.get(branch.number, ()) if each.source == branch.head]
        self.approved[branch.number] = [*kept, approval]

    def _has_jobs(self, sha: str, scope: ApprovalScope) -> bool:
        return True

    def _planned(self, tree: Tree, target: str) -> Plan:
        launches = [self._job(name, value, target) for name, value in tree.items()]
        seen = [each for key, all_ in self.attempts.items() if key.target == target for each in all_]
        return plan(launches, *seen)

    def _job(self, name: str, value: int, target: str) -> Launch:
        return job(name, str(value), target=target, on_failed="rerun", max_attempts=2)

    def _past(self, step: Step, number: int) -> Attempt | None:
        found = self.attempts.get(step.key, [])
        return found[number - 1] if 0 < number <= len(found) else None

    def _start(self, launch: Launch, approval: str, pull_request: str) -> None:
        from launcher.plan.effects import start_of
        from tests.unit.plan.world import attempt

        past = self.attempts.setdefault(launch.key, [])
        for index, each in enumerate(past):
            if each.state == "running":
                past[index] = replace(each, state="cancelled")
        number = len(past) + 1
        made = attempt(launch, "running", number, effect=start_of(launch).digest, approval=approval)
        past.append(replace(made, pull_request=pull_request, app_id=attempt_id(launch.key, number)))

    def _set_state(self, key: JobKey, number: int, state: str) -> None:
        past = self.attempts[key]
        past[number - 1] = replace(past[number - 1], state=state)  # type: ignore[arg-type]

    def _commit(self, subject: str) -> str:
        self._count += 1
        sha = f"{self._count:040x}"
        self.commits.append((sha, subject))
        return sha


@pytest.mark.parametrize("part", sampled(seeds(2)))
def test_only_approved_jobs_start_and_no_approved_job_is_left(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        world = World(seed)
        try:
            for _ in range(40):
                world.act()
            world.check_nothing_is_left()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_history_without_an_applied_commit_is_refused() -> None:
    world = World(0)
    world.github.checks.clear()
    with pytest.raises(StaleError, match="no commit of the last 1 was applied"):
        world.apply("dev")


# One history

COMMITS = [(digit * 40, f"commit {digit}") for digit in "321"]
DEV, BETA = ApprovalScope("default", "dev"), ApprovalScope("beta", "dev")


def history(*applied: int, has_jobs: Sequence[int] = (3, 2, 1), since: int = 3) -> CommitHistory:
    """Return the history of commit `since`, where these commits were applied for DEV."""
    memory = Memory()
    for number in applied:
        memory.add(Check(f"launcher apply {DEV}", "success", "", "", "", ""), str(number) * 40)
    having = {str(number) * 40 for number in has_jobs}
    commits = COMMITS[3 - since :]
    return CommitHistory(memory, commits, "main", lambda sha, _: sha in having, lambda _: None)  # type: ignore[arg-type]


def test_a_later_commit_that_was_applied_overtakes_only_its_own_project_and_target() -> None:
    older = history(3, since=2)
    older.check_is_newest(COMMITS[:1], ApprovalScope("default", "prod"))
    older.check_is_newest(COMMITS[:1], BETA)
    with pytest.raises(StaleError, match="3333333 was applied, a later commit of main"):
        older.check_is_newest(COMMITS[:1], DEV)


def test_a_later_commit_without_the_jobs_of_a_project_overtakes_it() -> None:
    with pytest.raises(StaleError, match="3333333 was applied"):
        history(3, has_jobs=(2, 1), since=2).check_is_newest(COMMITS[:1], BETA)
    history(3, has_jobs=(1,), since=2).check_is_newest(COMMITS[:1], BETA)  # commit 2 is to stop them


def test_a_new_project_is_applied_from_the_last_applied_commit_without_its_jobs() -> None:
    """Commit 2 has added the project, and was applied for the other one alone. All commits were pushed."""
    merged = history(2, 1, has_jobs=(3, 2)).merged(BETA)
    assert merged.commits == {"2" * 40, "3" * 40}
    assert history(2, 1).merged(DEV).commits == {"3" * 40}
    with pytest.raises(StaleError, match=r"applied for \(beta, dev\)"):
        history(2, 1).merged(BETA)


@pytest.mark.parametrize(
    ("merged", "as_commit", "waits"), [(True, "9", 0), (True, "3", 0), (False, "", 3), (None, "", 0)]
)
def test_a_commit_that_names_a_pull_request_is_waited_for_only_until_that_is_merged(merged, as_commit, waits):
    """A cherry-picked commit keeps the number of the pull request that it was merged by elsewhere."""
    memory, slept = Memory(), list[float]()
    memory.add(Check(f"launcher apply {DEV}", "success", "", "", "", ""), "2" * 40)
    if merged is not None:
        sha = as_commit * 40
        pull = Pull(number=7, head_sha="7" * 40, base_ref="main", merged=merged, merge_commit_sha=sha)
        memory.pulls[7] = pull
    commits = [("3" * 40, "fix (#7)"), ("2" * 40, "before")]
    found = CommitHistory(memory, commits, "main", lambda *_: True, slept.append).merged(DEV)  # type: ignore[arg-type]
    assert [*found.pulls] == (["7"] if as_commit == "3" else [])
    assert len(slept) == waits
