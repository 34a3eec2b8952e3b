"""Find what plans on pull requests and applies on merge still need, in the order of use."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from launcher import secrets
from launcher.ci.forge import ForgeError
from launcher.errors import LauncherError
from launcher.specs.secret import Secret

if TYPE_CHECKING:
    from launcher.git import Repository
    from launcher.specs import Launch

_PINNED: Final = re.compile(r"==\s*[0-9]|@[0-9a-f]{40}\b")
_ABOVE: Final = re.compile(r"\.{1,2}(/\.\.)*/?")


class Finding(NamedTuple):
    """One line of the doctor.

    Attributes:
        subject: what was looked at.
        state: `unknown` where the token may not read it.
        detail: what was found.
        remedy: what to do; "" for `ok`.
    """

    subject: str
    state: Literal["ok", "missing", "unknown"]
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n         {self.remedy}" if self.remedy else ""
        return f"{self.state:<8} {self.subject}: {self.detail}{remedy}"


class Facts(NamedTuple):
    """The facts that the doctor judges.

    Attributes:
        engines: scheduler → why it cannot be reached; "" where it answers.
        attempts: how many of the jobs have an attempt on record.
        applied: whether a commit of the branch was applied before.
        files: the files of the CI system, by name → parsed text.
    """

    launches: Sequence[Launch]
    engines: Mapping[str, str]
    attempts: int
    applied: bool | None
    files: Mapping[str, Mapping[str, Any]]


class Checks(NamedTuple):
    """What was found on the server and in the files of its CI system.

    Attributes:
        requirement: what the jobs install; None where no file runs `launcher ci apply`.
        pin, deepen, secret: remedies for a version that is not pinned, a shallow clone, a missing secret.
    """

    token: Finding
    files: Sequence[Finding]
    branch: Finding
    requirement: str | None
    pin: str
    deepen: str
    secret: str


def findings(facts: Facts, checks: Checks, tree: Repository) -> Iterator[Finding]:
    """Yield the findings, in the order in which a first run would meet them."""
    yield from _of_engines(facts)
    yield _of_ledger(facts)
    yield checks.token
    yield _of_clone(tree, checks.deepen)
    yield from checks.files
    yield checks.branch
    yield _of_secrets(facts.launches, checks.secret)
    if checks.requirement is not None:
        yield _of_version(checks.requirement, checks.pin)


def of_branch(facts: Facts, branch: str, is_queued: Callable[[], bool]) -> Finding:
    """Judge whether two merges may change the workspace of one job, which no plan has shown together."""
    shared = sorted({launch.key.job for launch in facts.launches if _shares_tree(launch)})
    if not shared:
        return Finding("branch", "ok", "no job has a workspace that others change, too")
    jobs = ", ".join(shared[:3]) + (f" and {len(shared) - 3} more" if len(shared) > 3 else "")
    try:
        if is_queued():
            return Finding("branch", "ok", "a merge is planned as it lands")
    except ForgeError as error:
        return Finding("branch", "unknown", f"its rules cannot be read: {error}", error.hint or "")
    return Finding(
        "branch",
        "missing",
        f"two merges may change the workspace of one job ({jobs}), which no plan has shown together",
        f"require a merge queue for {branch}, or branches that are up to date",
    )


def _of_engines(facts: Facts) -> Iterator[Finding]:
    for name, why in facts.engines.items():
        if why:
            yield Finding(f"engine {name}", "missing", why, "check its address and its key, then try again")
        else:
            yield Finding(f"engine {name}", "ok", "it answers")


def _of_ledger(facts: Facts) -> Finding:
    if facts.attempts:
        return Finding("ledger", "ok", f"{facts.attempts} of {len(facts.launches)} jobs have attempts")
    if facts.applied:
        return Finding(
            "ledger",
            "missing",
            "commits were applied, and no attempt of any job is on record",
            "keep LAUNCHER_HOME on a persistent disk, or use an engine that all runners share",
        )
    return Finding("ledger", "ok", "no attempt is on record, and no commit was applied yet")


def _of_clone(tree: Repository, deepen: str) -> Finding:
    if tree.is_shallow():
        return Finding("clone", "missing", "it is shallow: the base is not there", deepen)
    return Finding("clone", "ok", "it has the whole history")


def _of_secrets(launches: Sequence[Launch], remedy: str) -> Finding:
    references = {
        str(value)
        for launch in launches
        for role in launch.app.roles
        for value in role.env.values()
        if isinstance(value, Secret)
    }
    references |= {text for launch in launches for each in launch.notify for text in each.references.values()}
    missing = secrets.missing(sorted(references))
    if missing:
        names = ", ".join(reference.partition(":")[2] for reference in missing)
        return Finding("secrets", "missing", f"not here: {names}", remedy)
    return Finding("secrets", "ok", f"{len(references)} of {len(references)} are here")


def _of_version(requirement: str, pin: str) -> Finding:
    if not _PINNED.search(requirement):
        detail = f"the jobs install `{requirement}`" if requirement else "the file names no requirement"
        return Finding("version", "missing", detail, pin)
    return Finding("version", "ok", requirement)


def _shares_tree(launch: Launch) -> bool:
    """Whether the job's workspace is the folder of its job file or one above it, which other jobs share."""
    parts = launch.workspace.parts if launch.workspace is not None else ()
    return any(_ABOVE.fullmatch(os.path.normpath(part.path)) for part in parts)


def why_unreachable(ask: Any) -> str:
    """Call `ask` and return why it failed; "" where it did not."""
    try:
        ask()
    except LauncherError as error:
        return str(error).splitlines()[0]
    return ""
