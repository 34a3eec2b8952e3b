"""`launcher synced`: up to which commit a branch is applied, and which jobs are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from launcher.ci.approvals import ApprovalScope, Commit, CommitHistory
from launcher.ci.github import github_of
from launcher.cli import jobs
from launcher.cli.console import Console
from launcher.errors import LauncherError
from launcher.git import Repository
from launcher.inventory.difference import Synced, synced
from launcher.specs.launch import JobKey, Launch
from launcher.text import paint, plural, printable

BEHIND = 2

USAGE = "synced [FILE…] [OPTIONS]"
HELP = """\
Show up to which commit a branch is applied: the job files of its newest commit
are compared with the latest attempt of each job, in ledger and engines. The
checkout is neither read nor changed; fetch first to see what was merged.

A job is pending if a later commit has changed it, and held if the last applied
commit has it as it is, and it was not started then: for want of an approval,
for example."""
EXAMPLES = """\
  git fetch && launcher synced
  launcher synced jobs/ --branch release
  launcher synced --json | jq .pending

Exit codes: 0 applied (held jobs are named), 2 behind."""


def add_arguments(parser: Any) -> None:
    jobs.add_arguments(parser, is_kept=False)
    parser.option("--branch BRANCH", "the branch (default: the one that work is merged into)")
    parser.option(
        "--online",
        "ask GitHub for the last commit that `ci apply` has applied, with the token in GITHUB_TOKEN; "
        "else it is the last one that a job was started from",
    )
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    tree = jobs.work_tree()
    branch = args.branch or tree.default_branch()
    history = tree.first_parents(_commit(tree, branch))
    commits = [oid for oid, _ in history]

    @cache
    def launches_at(commit: str) -> tuple[Launch, ...]:
        return jobs.accepted(jobs.compiled_at(commit, args.files, args), args, console)

    if not launches_at(commits[0]):
        raise LauncherError(
            f"{branch} has no job files at {', '.join(args.files) or '.'}", hint="name a folder that has some"
        )
    applied = _last_applied(launches_at, history, branch, tree) if args.online else ""
    found = synced(commits, launches_at, applied)
    if args.json:
        console.json(_json(found, branch))
    else:
        console.print(_text(found, branch, color=console.color))
    return BEHIND if found.pending else 0


def _last_applied(
    launches_at: Callable[[str], Sequence[Launch]], history: Sequence[Commit], branch: str, tree: Repository
) -> str:
    """Return the last commit that `ci apply` has applied for every project and target, by its check runs."""

    def scopes_at(commit: str) -> set[ApprovalScope]:
        return {ApprovalScope(*launch.key[:2]) for launch in launches_at(commit)}

    def has_jobs(commit: str, scope: ApprovalScope) -> bool:
        return scope in scopes_at(commit)

    checks = CommitHistory(github_of(tree.origin or ""), history, branch, has_jobs)
    found = {checks.last_applied(scope) for scope in scopes_at(history[0][0])}
    return max(found, key=[oid for oid, _ in history].index)


def _commit(tree: Repository, branch: str) -> str:
    """Return the newest commit of the fetched branch, else of the local branch."""
    names = (f"refs/remotes/origin/{branch}", f"refs/heads/{branch}", branch)
    commit = next(filter(None, map(tree.commit_of, names)), "")
    if not commit:
        raise LauncherError(f"this clone has no branch `{branch}`", hint=tree.why_missing(branch))
    return commit


def _text(found: Synced, branch: str, *, color: bool) -> str:
    if found.applied:
        words = [f"{printable(branch)} is applied up to {found.applied[:7]}"]
    else:
        words = [f"nothing of {printable(branch)} is applied"]
    if found.behind and found.applied:
        words.append(f"{plural(found.behind, 'merge')} behind")
    if found.held:
        words.append(f"{plural(len(found.held), 'job')} held")
    lines = [paint(", ".join(words), "bold", color)]
    lines += [f"  pending  {_name(key, found)}" for key in found.pending]
    lines += [f"  held     {_name(key, found)}" for key in found.held]
    return "\n".join(lines)


def _name(key: JobKey, found: Synced) -> str:
    attempt = found.attempts.get(key)
    return printable(str(key)) + (f", attempt {attempt.number} has run" if attempt else ", has not run")


def _json(found: Synced, branch: str) -> dict[str, Any]:
    def listed(keys: Any) -> list[dict[str, Any]]:
        return [
            {
                **dict(zip(("project", "target", "job"), key, strict=True)),
                "attempt": attempt.number if (attempt := found.attempts.get(key)) is not None else None,
            }
            for key in keys
        ]

    return {
        "branch": branch,
        "commit": found.commit,
        "applied": found.applied or None,
        "behind": found.behind,
        "pending": listed(found.pending),
        "held": listed(found.held),
    }
