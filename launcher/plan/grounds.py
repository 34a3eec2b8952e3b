"""One job: its declaration, its recorded attempts, and the attempts that its needs offer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from launcher.dataclass import dataclass, field, replace
from launcher.plan.snapshot import Snapshot, missing_output
from launcher.plan.step import OTHER_NEEDS, Reason, Step, is_abandoned, is_unfinished, submitter
from launcher.specs.attempt import WAITING_STATES, Attempt, StoodOn, late_document
from launcher.specs.inputs import InputFiles
from launcher.specs.launch import JobKey, Launch, Need
from launcher.text import natural

if TYPE_CHECKING:
    from launcher.plan.turns import Room

_State = Literal["succeeded", "pending", "starts", "none"]
_T = TypeVar("_T")
Knows = Callable[[Attempt, StoodOn], bool]
"""Whether an attempt's record of a need can be compared in this state folder: see `Snapshot.knows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The offer of one need to a new attempt of the job that has it.

    Attributes:
        stands: the attempt of the need that the new attempt would use; None when none can be expected.
        state: the state of `stands`: it succeeded, is "pending" (live already), or "starts" with this plan.
        edition: the edition of `stands`, else of the need's latest success; 0 for none.
        trouble: why there is no such attempt, as in `prepare: failed`.
        submitter: the client that is submitting the attempt `stands` now; "" for none.
        is_routine: the trigger `every_apply` is the only reason why this plan starts `stands`.
        note: the deciding fact for a need that no job file declares or that is disabled; "" for others.
        unresolved: why it is unknown which jobs the need's name means; "" for a need that is one job.
        warning: why the new attempt may find less of the need than it expects; "" for none.
    """

    need: Need
    stands: StoodOn | None = None
    state: _State = "none"
    edition: int = 0
    trouble: str = ""
    submitter: str = ""
    is_routine: bool = False
    note: str = ""
    unresolved: str = ""
    warning: str = ""

    @property
    def job(self) -> str:
        return self.need.job

    @property
    def is_pending(self) -> bool:
        """Whether an attempt that uses this need has to wait for it."""
        return self.state in ("pending", "starts")

    def has_moved(self, old: StoodOn) -> bool:
        """Whether the edition of the need differs from that of `old`."""
        return bool(self.edition) and self.edition != old.edition

    def moved(self) -> Reason:
        """Return the reason to run a job again that used an earlier attempt or edition of the need."""
        if self.state == "starts":
            return Reason("needs_changed", detail=f"{self.job} will run")
        if self.state == "pending":
            return Reason("needs_changed", detail=f"{self.job} is running")
        number = self.stands.number if self.stands is not None else self.edition
        return Reason("needs_changed", detail=f"{self.job} has run since: attempt {number}")


@dataclass(slots=True)
class Grounds:
    """The needs of jobs while their plan is being made, each need before the jobs that need it.

    Attributes:
        steps: the steps made so far.
    """

    snapshot: Snapshot
    steps: dict[JobKey, Step] = field(default_factory=dict)

    def of(self, launch: Launch) -> tuple[Ground, ...]:
        """Return one ground for each need of the job."""
        if not launch.needs:
            return ()
        return tuple(self._with_output(self._ground(need, launch), launch) for need in launch.needs)

    def _with_output(self, ground: Ground, launch: Launch) -> Ground:
        """Return the ground, without its attempt when the job reads an output folder that is gone."""
        stands = ground.stands
        if stands is None or ground.is_pending or stands.app_id not in self.snapshot.lost_outputs:
            return ground
        engine = self.snapshot.lost_outputs[stands.app_id]
        remedy = f"the output folder of `{ground.job}` is gone; to make it again: --rerun {ground.job}"
        if engine:
            remedy = (
                f"the output folder of `{ground.job}` is at the engine {engine}; ask that engine, or make it "
                f"here: --rerun {ground.job}"
            )
        from launcher.specs.outputs import NEEDS_VARIABLE, jobs_read, mentions

        step = self.steps.get(key_of(launch, ground.need))
        of_matrix = step is not None and step.launch is not None and bool(step.launch.matrix)
        # LAUNCHER_NEEDS names the folders of a matrix.
        if not (of_matrix or ground.job in jobs_read(launch.app) or mentions(NEEDS_VARIABLE, launch.app)):
            return replace(ground, warning=remedy)
        trouble = f"{ground.job}: {missing_output(engine)}"
        return replace(ground, stands=None, state="none", trouble=trouble, note=remedy)

    def _ground(self, need: Need, launch: Launch) -> Ground:
        if why := launch.unresolved.get(need.job):
            return Ground(need=need, trouble=f"{need.job}: its jobs are not known here", unresolved=why)
        key = key_of(launch, need)
        step = self.steps.get(key)
        if step is None or step.launch is None:
            note = f"no file given here declares `{need.job}`: its latest attempt decides"
            return self._recorded(need, key, note)
        if not step.launch.enabled:
            if step.kind == "destroy":
                return self._nothing(need, key, "disabled")
            return self._recorded(need, key, f"`{need.job}` is disabled: its latest attempt decides")
        if step.starts:
            stands = StoodOn(need.job, step.number, step.edition, step.app_id, step.launch.scheduler)
            reasons = [reason for reason in step.reasons if reason.code != "drift"]
            is_routine = all(each.code == "trigger_fired" and each.new == "every_apply" for each in reasons)
            edition = step.edition
            return Ground(need=need, stands=stands, state="starts", edition=edition, is_routine=is_routine)
        if step.kind == "keep" and step.latest is not None:
            return _stands(need, step.latest)
        last = step.latest
        ended = any(reason.code.startswith("last_") for reason in step.reasons)
        return self._nothing(need, key, last.state if ended and last is not None else "held")

    def _recorded(self, need: Need, key: JobKey, note: str) -> Ground:
        latest, ran = self.snapshot.latest.get(key), self.snapshot.ran.get(key)
        for attempt in (latest, ran):
            if attempt is not None and attempt.unreadable:
                return self._nothing(need, key, attempt.unreadable, note)
        if latest is not None and latest.is_live and not (is_unfinished(latest) or is_abandoned(latest)):
            return _stands(need, latest, note)
        if ran is not None and (ran.is_live or ran.state == "succeeded"):
            return _stands(need, ran, note)
        return self._nothing(need, key, "never ran" if ran is None else ran.state, note)

    def _nothing(self, need: Need, key: JobKey, trouble: str, note: str = "") -> Ground:
        best = self.snapshot.succeeded.get(key)
        edition = best.edition if best is not None else 0
        return Ground(need=need, edition=edition, trouble=f"{need.job}: {trouble}", note=note)


def key_of(launch: Launch, need: Need) -> JobKey:
    """Return the key of the job that a need names."""
    return launch.key._replace(job=need.job)


def in_order(launches: Mapping[JobKey, _T], needs: Mapping[JobKey, Iterable[JobKey]]) -> list[_T]:
    """Sort the jobs, each behind those that it needs. Raises CycleError; its second argument is the cycle."""
    if not any(needs.values()):
        return list(launches.values())
    from graphlib import TopologicalSorter

    graph = {key: [need for need in needs.get(key, ()) if need in launches] for key in launches}
    return [launches[key] for key in TopologicalSorter(graph).static_order()]


def cycle_in(launches: Sequence[Launch]) -> list[JobKey]:
    """Return a cycle among the needs of the jobs, with its first job also at the end; [] without one."""
    needs = needs_of(launches)
    if not any(needs.values()):
        return []
    from graphlib import CycleError

    try:
        in_order({launch.key: launch for launch in launches}, needs)
    except CycleError as error:
        return list(error.args[1])
    return []


def needs_of(launches: Iterable[Launch]) -> dict[JobKey, list[JobKey]]:
    return {launch.key: launch.needed for launch in launches}


def goes_on(attempt: Attempt, grounds: Sequence[Ground]) -> bool:
    """Return whether an unfinished attempt was bound to the attempts that its needs have now."""
    stands = {ground.job: ground.stands and ground.stands[1:3] for ground in grounds if not ground.unresolved}
    bound = {each.job: each[1:3] for each in attempt.needs}  # number and edition
    if len(stands) < len(grounds):
        return stands.items() <= bound.items()
    return stands == bound


def moved(attempt: Attempt, grounds: Sequence[Ground], knows: Knows) -> list[Reason]:
    """Return why an attempt does not match the present needs: other jobs, or other editions of them.

    `rerun: never` takes a need out of the comparison. The file decides that for a need that it names, the
    record for a need that the file no longer names. So removing that policy runs nothing again by itself; it
    lets a change through that the policy has held back.
    """
    if not grounds and not attempt.needs:
        return []
    others = _other_editions(attempt, grounds, knows)
    return [*other_needs(attempt, grounds), *(ground.moved() for ground in others if ground.need.rerun)]


def running_again(attempt: Attempt, grounds: Sequence[Ground], knows: Knows) -> list[Reason]:
    """Return why a live attempt is made anew: its needs have changed, or run again meanwhile.

    For a waiting attempt, further changes count: a need that `every_apply` repeats, although its edition
    stays, and a need that was added or removed. A waiting attempt has run nothing and is bound to exact
    attempts. A running attempt is judged by these changes when it has ended.
    """
    if not grounds and not attempt.needs:
        return []
    waits = attempt.state in WAITING_STATES
    offered = [ground for ground in grounds if ground.stands is not None]
    moving = {ground.job for ground in _other_editions(attempt, offered, knows) if ground.need.rerun}
    stood_on = _on_record(attempt, knows)
    moving |= {
        ground.job
        for ground in offered
        if (old := stood_on.get(ground.job)) is not None
        and ground.state == "starts"  # an attempt after `old`
        and ground.stands is not None
        and ground.stands.number != old.number
        and (waits or (ground.need.rerun and not ground.is_routine))
    }
    reasons = other_needs(attempt, grounds, order_too=True) if waits else []
    return [*reasons, *(ground.moved() for ground in offered if ground.job in moving)]


def other_needs(attempt: Attempt, grounds: Sequence[Ground], *, order_too: bool = False) -> list[Reason]:
    """Return the needs that only the file has, and those that only the attempt has.

    None where a name among the needs may mean jobs that are not known here.

    Args:
        order_too: count needs with `rerun: never` as well.
    """
    if any(ground.unresolved for ground in grounds):
        return []
    before = {each.job for each in attempt.needs}
    new = {ground.job for ground in grounds if ground.need.rerun or order_too} - before
    gone = before - {ground.job for ground in grounds} - set(() if order_too else attempt.order_only)
    return [
        Reason("needs_changed", detail=f"{words} {job}")
        for words, jobs in zip(OTHER_NEEDS, (new, gone), strict=True)
        for job in sorted(jobs, key=natural)
    ]


def run_since(attempt: Attempt, grounds: Sequence[Ground], knows: Knows) -> list[Reason]:
    """The needs with a later attempt than the one that a skipped attempt waited for.

    None while one of them offers no attempt.
    """
    if any(ground.stands is None for ground in grounds):
        return []
    stood_on = _on_record(attempt, knows)
    return [
        ground.moved()
        for ground in grounds
        if ground.stands is not None
        and (old := stood_on.get(ground.job)) is not None
        and old.number < ground.stands.number
    ]


def _on_record(attempt: Attempt, knows: Knows) -> dict[str, StoodOn]:
    """Return the recorded needs by job, without needs that another state folder has numbered."""
    return {each.job: each for each in attempt.needs if knows(attempt, each)}


def _other_editions(attempt: Attempt, grounds: Iterable[Ground], knows: Knows) -> list[Ground]:
    stood_on = _on_record(attempt, knows)
    return [ground for ground in grounds if ground.job in stood_on and ground.has_moved(stood_on[ground.job])]


def failed(grounds: Iterable[Ground]) -> list[Reason]:
    """Return the reasons to hold a job that would start: one for each need that offers no attempt."""
    return [Reason("needs_failed", detail=ground.trouble) for ground in grounds if ground.stands is None]


def _stands(need: Need, attempt: Attempt, note: str = "") -> Ground:
    return Ground(
        need=need,
        stands=StoodOn(need.job, attempt.number, attempt.edition, attempt.app_id, attempt.scheduler),
        state="pending" if attempt.is_live else "succeeded",
        edition=attempt.edition,
        submitter=submitter(attempt),
        note=note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One job as its file declares it, and the flags of the command line that concern it.

    Attributes:
        grounds: the offers of its needs, one for each.
        follows: the job runs again when its needs have.
        room: the room of this machine; None where no job asks for a share of it.
        refusal: why its scheduler refuses its request; None when the request was taken or not shown to it.
        judges_inputs: whether changed input files run the job again.
        files: input files by their digest, for the texts of reasons.
        edited: the files of its checkout that differ from those that its latest attempt ran.
        place: see `Step`.
    """

    launch: Launch
    document: Mapping[str, Any]
    digest: str
    rerun: bool = False
    retry_failed: bool = False
    grounds: tuple[Ground, ...] = ()
    follows: bool = True
    room: Room | None = None
    refusal: Reason | None = None
    judges_inputs: bool = True
    files: Mapping[str, InputFiles] = field(default_factory=dict)
    edited: tuple[str, ...] = ()
    place: int = 0

    @classmethod
    def of(cls, launch: Launch, **choices: Any) -> Desired:
        """Make the job from a launch in normal form; `choices` are further fields."""
        if launch.digest:
            document: Mapping[str, Any] = late_document(launch)
            return cls(launch=launch, document=document, digest=launch.digest, **choices)
        from launcher.specs import canonical

        document = canonical.document(launch)
        return cls(launch=launch, document=document, digest=canonical.digest(document), **choices)

    @property
    def lack(self) -> Reason | None:
        """Return the reason why the job can never start where it is to run; None when it can."""
        return self.refusal or (self.room.lack(self.launch) if self.room is not None else None)

    def is_of(self, attempt: Attempt) -> bool:
        """Whether the attempt ran this document; one in an older normal form is normalised again first."""
        if attempt.digest == self.digest:
            return True
        from launcher.specs import canonical

        if not attempt.document:
            return False
        return self.digest == canonical.digest(canonical.renormalise(attempt.document))

    def has_inputs_of(self, attempt: Attempt) -> bool:
        """Whether the attempt was made with the present input files, as far as these files were read."""
        is_unread = bool(self.launch.inputs) and not self.launch.inputs_digest
        return not self.judges_inputs or is_unread or attempt.inputs == self.launch.inputs_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The recorded attempts of one job.

    Attributes:
        latest: its latest attempt.
        judged: the attempt that decides: `latest`, or the attempt that ran before a leftover.
        leftover: `latest` when it is an unfinished submission.
        live: its attempts that are running, waiting or being submitted, by number.
        attempts: the number of recorded attempts of the desired document.
        knows: whether the recorded numbers and editions of an attempt's need can be compared here.
    """

    latest: Attempt | None = None
    judged: Attempt | None = None
    leftover: Attempt | None = None
    live: tuple[Attempt, ...] = ()
    attempts: int = 0
    knows: Knows = Snapshot().knows

    @property
    def waiting(self) -> tuple[Attempt, ...]:
        """The live attempts that can be withdrawn: nothing of them has run."""
        return tuple([attempt for attempt in self.live if attempt.state in WAITING_STATES])

    @property
    def running(self) -> tuple[Attempt, ...]:
        """The live attempts that have to be stopped."""
        return tuple([attempt for attempt in self.live if attempt.state not in WAITING_STATES])

    @property
    def unreadable(self) -> Attempt | None:
        """An attempt whose record cannot be read, so that it may be live; None without any."""
        attempts = (*self.live, *filter(None, (self.latest, self.judged)))
        return next((each for each in attempts if each.unreadable), None)

    @property
    def next_number(self) -> int:
        """The number of the next attempt: the number of the leftover, if there is one."""
        if self.leftover is not None:
            return self.leftover.number
        return self.latest.number + 1 if self.latest is not None else 1


def history_of(desired: Desired, snapshot: Snapshot, live: Sequence[Attempt]) -> History:
    """Collect the job's history; `live` holds the live attempts that the snapshot has of this job."""
    key = desired.launch.key
    latest = snapshot.latest.get(key)
    # A waiting attempt without a holder is a leftover, too, when it is wanted; any other keeps its number.
    is_leftover = latest is not None and (
        is_unfinished(latest) or (is_abandoned(latest) and is_wanted(desired, latest))
    )
    leftover = latest if is_leftover else None
    passed_over = leftover is not None or (latest is not None and latest.state == "skipped")
    return History(
        latest=latest,
        judged=snapshot.ran.get(key) if passed_over else latest,
        leftover=leftover,
        live=tuple([a for a in live if not is_unfinished(a) and a is not leftover]),
        attempts=snapshot.counts.get((key, desired.digest), 0),
        knows=snapshot.knows,
    )


def is_wanted(desired: Desired, leftover: Attempt) -> bool:
    """Return whether an unfinished submission belongs to the desired job: the next apply finishes it."""
    return desired.is_of(leftover) and desired.has_inputs_of(leftover) and goes_on(leftover, desired.grounds)
