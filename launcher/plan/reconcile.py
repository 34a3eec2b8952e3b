"""Decide which steps turn the observed attempts into the desired ones. Pure: same input, same plan.

Jobs are chosen by name: `train`; `train+` adds the jobs that need it, `+train` the jobs that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from launcher.dataclass import dataclass, replace
from launcher.errors import UsageError
from launcher.plan.decide import decide, unreadable
from launcher.plan.grounds import Desired, Grounds, cycle_in, history_of, in_order, key_of, needs_of
from launcher.plan.model import Orphan, Plan, PlanProblem, Selection
from launcher.plan.snapshot import Snapshot
from launcher.plan.step import Guard, Reason, Step, submitter
from launcher.specs.attempt import WAITING_STATES, Attempt
from launcher.specs.launch import JobKey, Launch
from launcher.text import listing, natural, nearest

if TYPE_CHECKING:
    from launcher.plan.turns import Room

DeclaredIn = Callable[[Launch, str], str]
"""Maps a launch and the name of a job that it needs to the file that declares that job; "" for none."""
_Key = TypeVar("_Key", bound="tuple[str, str, str]")
NOTHING: Final[Mapping[JobKey, Any]] = MappingProxyType({})


def nowhere(launch: Launch, job: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The caller's choices beside the job files.

    Attributes:
        select: the words that select jobs; see `select`.
        rerun: jobs to run again whatever their outcome, each as `job` or `project/job`, or all jobs of a
            matrix by its name; with `+` behind it, also every job that needs them.
        retry_failed: run every job again whose latest attempt failed or was lost.
        prune: destroy the orphans within `scopes` instead of reporting them.
        take_over: jobs of another origin become jobs of this one.
        declared_in: finds the file of a need that neither the jobs nor the snapshot have.
        check: ask schedulers that support it whether they take the request of each new attempt.
    """

    select: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    retry_failed: bool = False
    prune: bool = False
    take_over: bool = False
    scopes: tuple[Scope, ...] = ()
    declared_in: DeclaredIn = nowhere
    check: bool = False

    @property
    def selection(self) -> Selection:
        """The flags, as plans record them."""
        return Selection(
            select=tuple(sorted(self.select)),
            rerun=tuple(sorted(self.rerun)),
            retry_failed=self.retry_failed,
            prune=self.prune,
            take_over=self.take_over,
        )


NO_CHOICES: Final = Choices()


def reconcile(
    desired: Sequence[Launch],
    snapshot: Snapshot,
    choices: Choices = NO_CHOICES,
    *,
    others: Sequence[Launch] = (),
    room: Room | None = None,
    edited: Mapping[JobKey, tuple[str, ...]] = NOTHING,
    refused: Mapping[JobKey, Reason] = NOTHING,
) -> Plan:
    """Make the plan that turns the snapshot into the desired jobs, which are the selected ones.

    Args:
        others: jobs that are declared and not selected; they are no orphans, and are left as they are.
        room: the room of this machine; None where no job asks for a share of it.
        edited: job → the files of its checkout that differ from those that its latest attempt ran.
        refused: job → why its scheduler refuses its request; {} when no scheduler was asked.

    Raises UsageError when `rerun` names no job, several, or one that is disabled.
    """
    asked = asked_for(desired, choices.rerun)
    live = {key: list(found) for key, found in groupby(snapshot.live, key=lambda each: each.key)}
    steps: list[Step] = []
    problems = _problems(desired, snapshot.latest, choices.take_over)
    problems = problems or _unmet(desired, others, snapshot, choices.declared_in)
    faulty = {problem.key for problem in problems}
    grounds = Grounds(snapshot)
    places = {launch.key: place for place, launch in enumerate(desired)}
    sound = [launch for launch in desired if launch.key not in faulty]
    for launch in in_order({launch.key: launch for launch in sound}, needs_of(sound)):
        job = Desired.of(
            launch,
            rerun=launch.key in asked,
            retry_failed=choices.retry_failed,
            grounds=grounds.of(launch),
            room=room,
            refusal=refused.get(launch.key),
            files=snapshot.inputs,
            edited=edited.get(launch.key, ()),
            place=places[launch.key],
        )
        made = _steps(job, snapshot, live.get(launch.key, ()))
        grounds.steps[launch.key] = made[0]
        steps += made
    steps = [_with_note(step, others) for step in steps]
    declared = {launch.key for launch in (*desired, *others)}
    undeclared = (attempt for attempt in snapshot.live if attempt.key not in declared)
    orphans = [attempt for attempt in undeclared if any(scope.holds(attempt) for scope in choices.scopes)]
    if choices.prune:
        steps += [stop(each, Reason("orphan", detail=f"{each.path} declares it no more")) for each in orphans]
    steps.sort(key=_place)
    return Plan(
        steps=tuple(steps),
        shared=_shared_lines(steps) if len(steps) > 1 else (),
        orphans=()
        if choices.prune
        else tuple(Orphan(key=each.key, path=each.path, guard=Guard.of(each)) for each in orphans),
        problems=tuple(problems),
        selection=choices.selection,
        engines=_engines(steps, snapshot.fingerprints),
    )


def _shared_lines(steps: Sequence[Step]) -> tuple[str, ...]:
    if not any(step.changes for step in steps):
        return ()
    from launcher.plan.effects import shared_lines

    return shared_lines(steps)


def _steps(job: Desired, snapshot: Snapshot, live: Sequence[Attempt]) -> list[Step]:
    """Return the job's step. If that has no effects, stops of older live attempts follow."""
    history = history_of(job, snapshot, live)
    step = decide(job, history)
    if step.has_effects or history.judged is None or history.unreadable or job.launch.lifecycle.protect:
        return [step]
    older = [attempt for attempt in history.live if attempt.number < history.judged.number]
    by = history.judged.number
    stops = [
        stop(each, Reason("superseded", detail=f"attempt {each.number} is live beside attempt {by}"))
        for each in older
    ]
    return [step, *(replace(each, place=job.place) for each in stops)]


def _with_note(step: Step, others: Sequence[Launch]) -> Step:
    """Return the step, with a note on jobs that were not selected but need the job that it starts."""
    left = [each.key.job for each in others if step.key in each.needed] if step.starts else []
    if not left:
        return step
    note = f"{', '.join(left)} {'needs' if len(left) == 1 else 'need'} it, and stays as it is: not selected"
    return replace(step, notes=(*step.notes, note))


def _place(step: Step) -> tuple[Any, ...]:
    """Return the sort key: the job key, with numbers in numeric order; then the older attempt first."""
    project, target, job = step.key
    return project, target, natural(job), job, step.guard.attempt


def asked_for(desired: Sequence[Launch], rerun: Collection[str]) -> set[JobKey]:
    """The jobs that --rerun names.

    Raises UsageError for a name of no job, of several, or of a disabled one.
    """
    asked: set[JobKey] = set()
    for word in rerun:
        name, plus = (word[:-1], True) if word.endswith("+") else (word, False)
        found = _named(desired, name)
        asked |= reached(needs_of(desired), found, "dependents") if plus else found
    return {launch.key for launch in desired if launch.key in asked and launch.enabled}


def _named(desired: Sequence[Launch], name: str) -> set[JobKey]:
    found = named(desired, name, "--rerun")
    job = name.rpartition("/")[2]
    meant = {launch.key._replace(job=job) for launch in found}  # the matrix's name stands for its jobs
    if len(meant) > 1:
        hint = f"say which one: {', '.join(sorted(map(str, meant)))}"
        raise UsageError(f"--rerun {name}: several jobs have this name", hint=hint)
    if not any(launch.enabled for launch in found):
        what = "the job is" if len(found) == 1 else "its jobs are"
        hint = f"set `enabled: true` in {found[0].file}"
        raise UsageError(f"--rerun {name}: {what} disabled", hint=hint)
    return {launch.key for launch in found}


def _problems(
    desired: Sequence[Launch], latest: Mapping[JobKey, Attempt], take_over: bool
) -> list[PlanProblem]:
    problems = []
    first: dict[JobKey, Launch] = {}
    for launch in desired:
        if launch.key in first:
            one = first[launch.key]
            problem = PlanProblem(
                key=one.key,
                code="duplicate_job",
                message=f"declared by {one.file} and by {launch.file}",
                hint="give one of them another `name` or `project`",
            )
            problems.append(problem)
        elif not take_over and has_other_origin(launch, latest.get(launch.key)):
            key, last = launch.key, latest[launch.key]
            whose = (
                f"`{key.job}` in project `{key.project}` was last applied from {last.origin} ({last.path})"
            )
            take = "pass --take-over to make the job this repository's"
            hint = f"set another `project` in {launch.file}, or {take}"
            problems.append(PlanProblem(key=key, code="origin_conflict", message=whose, hint=hint))
        first.setdefault(launch.key, launch)
    return sorted(problems, key=lambda problem: problem.key)


def _unmet(
    desired: Sequence[Launch], others: Sequence[Launch], snapshot: Snapshot, declared_in: DeclaredIn
) -> list[PlanProblem]:
    """Return the problems of needs: a cycle, or a name that no file declares and that never ran."""
    if circle := cycle_in(desired):
        around = " → ".join(key.job for key in circle)
        hint = "remove one of these `needs`"
        message = f"jobs need each other: {around}"
        return [PlanProblem(key=circle[0], code="needs_cycle", message=message, hint=hint)]
    known = {launch.key for launch in desired} | set(snapshot.latest)
    return sorted(
        (
            _unknown(launch, need.job, desired, others, declared_in)
            for launch in desired
            for need in launch.needs
            if launch.enabled and need.job not in launch.unresolved and key_of(launch, need) not in known
        ),
        key=lambda problem: problem.key,
    )


def _unknown(
    launch: Launch, name: str, desired: Sequence[Launch], others: Sequence[Launch], declared_in: DeclaredIn
) -> PlanProblem:
    key = launch.key._replace(job=name)
    message = f"it needs `{name}`, which no file given here declares and which never ran"
    hint = f"give the file of `{name}` as well"
    if file := next((each.file for each in others if each.key == key), ""):
        message = f"it needs `{name}` ({file}), which is not selected and never ran"
        hint = f"select it as well: --select +{launch.key.job}"
    elif file := declared_in(launch, name):
        message = f"it needs `{name}`, which never ran, and its file is not given here"
        hint = f"give {file} as well"
    else:
        group = (launch.key.project, launch.key.target)
        names = {each.key.job for each in (*desired, *others) if each.key[:2] == group} - {launch.key.job}
        if near := nearest(name, sorted(names)):
            hint = f"did you mean {near}?"
    return PlanProblem(key=launch.key, code="unknown_need", message=message, hint=hint)


def has_other_origin(launch: Launch, latest: Attempt | None) -> bool:
    """Return whether another repository owns the job's attempts. A job without an origin belongs to all."""
    return latest is not None and latest.origin not in ("", launch.origin)


def _engines(steps: Iterable[Step], fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprints of the schedulers on which the steps start or stop something."""
    touched = {step.launch.scheduler for step in steps if step.launch is not None}
    touched |= {guard.scheduler for step in steps for guard in (*step.stops, *step.withdraws)}
    return {name: fingerprint for name, fingerprint in sorted(fingerprints.items()) if name in touched}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A place to look for orphans: the attempts of one origin and target whose path is below a directory.

    Attributes:
        target: None where orphans of every target count.
        directory: relative to the repository's root, with forward slashes; "" is the root.
        left_out: the job files below it that the checkout lacks, although its commit has them: they may still
            declare jobs.
        project: None where orphans of every project count.
    """

    origin: str
    target: str | None
    directory: str = ""
    left_out: frozenset[str] = frozenset()
    project: str | None = None

    def holds(self, attempt: Attempt) -> bool:
        below = self.directory in ("", ".") or attempt.path.startswith(self.directory.rstrip("/") + "/")
        is_of = attempt.origin == self.origin and self.target in (None, attempt.key.target)
        is_of_project = self.project in (None, attempt.key.project)
        return below and is_of and is_of_project and attempt.path not in self.left_out


def stop(attempt: Attempt, reason: Reason) -> Step:
    """Return the step that stops one attempt of a job; a waiting attempt is withdrawn.

    An attempt whose record cannot be read is held, since its holder cannot be asked to stop it.
    """
    if attempt.unreadable:
        reasons = (unreadable(attempt), reason)
        return Step(key=attempt.key, kind="hold", reasons=reasons, guard=Guard.of(attempt), latest=attempt)
    waits = attempt.state in WAITING_STATES
    guard = Guard.of(attempt)
    return Step(
        key=attempt.key,
        kind="destroy",
        reasons=(reason,),
        stops=() if waits else (guard,),
        withdraws=(guard,) if waits else (),
        guard=guard,
        waits_for=submitter(attempt),
        latest=attempt,
    )


def select(launches: Sequence[Launch], words: Collection[str]) -> tuple[list[Launch], list[Launch]]:
    """Return the jobs that --select names, and the other jobs; without words all are selected.

    Raises UsageError for a name of no job.
    """
    chosen: set[JobKey] = set()
    needs = needs_of(launches) if words else {}
    for word in words:
        keys = {launch.key for launch in named(launches, word.strip("+"), "--select")}
        chosen |= keys
        chosen |= reached(needs, keys, "dependents") if word.endswith("+") else set()
        chosen |= reached(needs, keys, "needs") if word.startswith("+") else set()
    return (
        [launch for launch in launches if not words or launch.key in chosen],
        [launch for launch in launches if words and launch.key not in chosen],
    )


def named(launches: Sequence[Launch], name: str, option: str) -> list[Launch]:
    """Return the jobs called `job` or `project/job`; the name of a matrix means all of its jobs.

    Raises UsageError when there is none.
    """
    found = {launch.key: launch for launch in launches if name in _names(launch)}
    if not found:
        near = nearest(name, sorted({known for each in launches for known in _names(each)}))
        names = sorted({each.matrix or each.key.job for each in launches})
        hint = f"did you mean {near}?" if near else f"the jobs here: {listing(names, 10) or 'none'}"
        raise UsageError(f"{option} {name}: no such job in the given files", hint=hint)
    return list(found.values())


def one_named(launches: Sequence[Launch], name: str, option: str) -> Launch:
    """Return the job with a name. Raises UsageError when there is none, or several."""
    found = named(launches, name, option)
    if len(found) > 1:
        hint = f"say which one: {', '.join(sorted(str(launch.key) for launch in found))}"
        raise UsageError(f"{option} {name}: several jobs have this name", hint=hint)
    return found[0]


def _names(launch: Launch) -> tuple[str, ...]:
    matrix = launch.matrix and str(launch.key._replace(job=launch.matrix))
    return tuple(filter(None, (launch.key.job, str(launch.key), launch.matrix, matrix)))


def reached(
    needs: Mapping[_Key, Iterable[_Key]], start: Collection[_Key], way: Literal["needs", "dependents"]
) -> set[_Key]:
    """Return the jobs at `start` and, by `way`, all that they need or that need them, directly or not."""
    next_of: dict[_Key, list[_Key]] = {}
    for key, need in ((key, need) for key, of_it in needs.items() for need in of_it):
        here, there = (key, need) if way == "needs" else (need, key)
        next_of.setdefault(here, []).append(there)
    found, new = set(start), set(start)
    while new:
        new = {there for here in new for there in next_of.get(here, ())} - found
        found |= new
    return found
