"""Find the commit up to which a branch is applied, and the jobs that are not as it declares them.

A job is applied when its latest attempt has the effect that the commit declares, whatever became of it. The
last applied commit is the newest one that an attempt was submitted from; jobs that differ from that commit
already were held then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from launcher.apply.engines import Engines
from launcher.apply.observe import observe
from launcher.dataclass import dataclass
from launcher.plan.effects import start_of
from launcher.schedulers.registry import open_store
from launcher.specs import canonical
from launcher.specs.attempt import Attempt
from launcher.specs.launch import JobKey, Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """A branch, compared with the attempts on record.

    Attributes:
        commit: the newest commit of the branch.
        applied: the last applied one; "" for none.
        behind: how many first parents of the branch come after `applied`; 0 when no job waits for them.
        pending: the jobs that `commit` declares otherwise than their latest attempts, and `applied` does not.
        held: the jobs that `applied` declares otherwise already.
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
    with open_store(readonly=True) as store, Engines(readonly=True) as engines:
        engines.expect(launches)
        latest = observe(store, engines, launches, keys).latest
    attempts = {key: latest[key] for key in keys if key in latest}
    pending = _differing(launches, attempts)
    came_from = {each.commit for each in attempts.values()}
    applied = applied or next((each for each in commits if each in came_from), "")
    if not pending:
        applied = commits[0]
    held: Collection[JobKey] = ()
    if pending and applied:
        held = _differing(launches if applied == commits[0] else launches_at(applied), attempts)
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


def _differing(launches: Sequence[Launch], attempts: Mapping[JobKey, Attempt]) -> list[JobKey]:
    """The jobs whose latest attempt has another effect, or that have none, in order."""
    found = []
    for launch in launches:
        attempt = attempts.get(launch.key)
        if not launch.enabled or (attempt is not None and attempt.effect == start_of(launch).digest):
            continue
        if attempt is not None and not attempt.effect:
            # Attempts of older versions lack it; a file that `rerun_on` names starts a job at its time.
            is_same = attempt.digest == canonical.digest_of(launch)
            if is_same and attempt.inputs == launch.inputs_digest:
                continue
        found.append(launch.key)
    return sorted(found)
