"""Compare recorded attempts: one with another, one with its job file, those of all jobs with a branch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from launcher.apply.engines import opened
from launcher.apply.observe import observe
from launcher.dataclass import dataclass
from launcher.plan.diff import Change, diff
from launcher.plan.effects import start_of
from launcher.specs import canonical
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch


class Difference(NamedTuple):
    """The differences from one side to the other.

    Attributes:
        old, new: the names of the two sides.
        changes: the differences of the documents.
        facts: (name, old value, new value) of differences outside of the documents.
    """

    old: str
    new: str
    changes: tuple[Change, ...]
    facts: tuple[tuple[str, str, str], ...]


def between_attempts(old: Attempt, new: Attempt) -> Difference:
    """Return the differences of two attempts: their documents, inputs, needs and origins."""
    facts = [
        ("needs", _needs(old), _needs(new)),
        ("inputs", old.inputs, new.inputs),
        ("rerun_on", old.trigger_digest, new.trigger_digest),
        ("path", old.path, new.path),
        ("commit", old.commit, new.commit),
        ("pull request", old.pull_request, new.pull_request),
        ("applied by", old.actor, new.actor),
        ("state", old.state, new.state),
    ]
    files = sorted({*old.seen, *new.seen})
    facts += [(f"file {name}", old.seen.get(name, ""), new.seen.get(name, "")) for name in files]
    changes = diff(canonical.renormalise(old.document), canonical.renormalise(new.document))
    return Difference(_name(old), _name(new), changes, _differing(facts))


def from_file(old: Attempt, launch: Launch) -> Difference:
    """Return the differences between an attempt and the job that its file declares now."""
    needed = " ".join(sorted(need.job for need in launch.needs))
    facts = [
        ("inputs", old.inputs, launch.inputs_digest),
        ("rerun_on", old.trigger_digest, launch.trigger_digest),
        ("needs", " ".join(sorted(need.job for need in old.needs)), needed),
        ("path", old.path, launch.file),
    ]
    changes = diff(canonical.renormalise(old.document), canonical.document(launch))
    return Difference(_name(old), launch.file, changes, _differing(facts))


def _differing(facts: list[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    return tuple(fact for fact in facts if fact[1] != fact[2])


def _needs(attempt: Attempt) -> str:
    return " ".join(f"{need.job}@{need.number}" for need in attempt.needs)


def _name(attempt: Attempt) -> str:
    return f"{attempt.key.job}@{attempt.number}"


# -- a branch: the commit up to which it is applied, and the jobs that are not as it declares them -----------


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """A branch, compared with the attempts on record.

    A job is applied when its latest attempt has the effect that the commit declares, whatever its outcome.
    The last applied commit is the newest one of the branch that a latest attempt was made from; jobs that
    differ from that commit were held then.

    Attributes:
        commit: the newest commit of the branch.
        applied: the last applied commit; "" for none.
        behind: how many first parents of the branch come after `applied`; 0 when no job waits for them.
        pending: the jobs whose latest attempts differ from `commit`, but not from `applied`.
        held: the jobs whose latest attempts differ from `applied`, too.
        attempts: the latest attempt of each job that has one.
    """

    commit: str
    applied: str
    behind: int
    pending: Sequence[JobKey]
    held: Sequence[JobKey]
    attempts: Mapping[JobKey, Attempt]


def synced(
    commits: Sequence[str], launches_at: Callable[[str], Sequence[Launch]], applied: str = ""
) -> Synced:
    """Compare the newest of `commits` with the attempts in ledger and engines. Writes nothing.

    Args:
        commits: the first parents of a branch, the newest first.
        launches_at: compiles the job files of a commit.
        applied: the last applied commit, where another record has it; "" to find it among the attempts.
    """
    launches = launches_at(commits[0])
    keys = list(dict.fromkeys(launch.key for launch in launches))
    with opened(readonly=True) as (store, engines):
        latest = observe(store, engines, launches).latest
    attempts = {key: latest[key] for key in keys if key in latest}
    pending = _unapplied(launches, attempts)
    came_from = {each.commit for each in attempts.values()}
    applied = applied or next((each for each in commits if each in came_from), "")
    if not pending:
        applied = commits[0]
    held: Collection[JobKey] = ()
    if pending and applied:
        held = _unapplied(launches if applied == commits[0] else launches_at(applied), attempts)
    left = [key for key in pending if key not in held]
    after = commits.index(applied) if applied in commits else len(commits)
    return Synced(
        commit=commits[0],
        applied=applied,
        behind=after if left else 0,
        pending=left,
        held=[key for key in pending if key in held],
        attempts=attempts,
    )


def _unapplied(launches: Sequence[Launch], attempts: Mapping[JobKey, Attempt]) -> list[JobKey]:
    """Return the jobs without an attempt, or whose latest attempt has another effect, in order."""
    found = []
    for launch in launches:
        attempt = attempts.get(launch.key)
        if not launch.enabled or (attempt is not None and attempt.effect == start_of(launch).digest):
            continue
        if attempt is not None and not attempt.effect:
            # Attempts of older versions lack it; a file of `rerun_on` starts a job at its time.
            is_same = attempt.digest == canonical.digest_of(launch)
            if is_same and attempt.inputs == launch.inputs_digest:
                continue
        found.append(launch.key)
    return sorted(found)
