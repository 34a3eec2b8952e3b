"""Functions that the steps of `launcher ci` share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from launcher.apply.plans import Choices
from launcher.ci.github import GitHub, GitHubError
from launcher.cli import jobs, plan_options
from launcher.cli.console import Console
from launcher.cli.render.findings import exit_code, findings, in_short
from launcher.cli.render.github import publish_refusal, warning
from launcher.errors import JobFileError, LauncherError
from launcher.git import Repository, repository
from launcher.specs import Launch

SUMMARY_BYTES = 60_000
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")


def work_tree() -> Repository:
    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("the current directory is in no git repository", hint="check it out first")
    return tree


def github_of(origin: str) -> GitHub:
    """GitHub, for the repository of an origin such as `github.com/owner/name`, or of the runner.

    Raises LauncherError without a token, or for another origin.
    """
    token = next(filter(None, map(os.environ.get, TOKENS)), "")
    host, _, path = origin.partition("/")
    repository = os.environ.get("GITHUB_REPOSITORY") or (path if host == "github.com" else "")
    if not token or repository.count("/") != 1:
        why = "needs a token" if not token else f"cannot find the repository of {origin} on GitHub"
        hint = "set GITHUB_TOKEN" if not token else "set GITHUB_REPOSITORY=OWNER/NAME, or leave out --online"
        raise LauncherError(f"--online {why}", hint=hint)
    return GitHub(os.environ.get("GITHUB_API_URL") or "https://api.github.com", repository, token)


@contextmanager
def degraded(console: Console, instead: str) -> Iterator[None]:
    """Turn a missing permission into a warning that names it."""
    try:
        yield
    except GitHubError as error:
        if not error.is_forbidden:
            raise
        console.print(warning(f"{error}: {instead}"))


def compiled_launches(args: Any, console: Console) -> tuple[tuple[Launch, ...], Choices]:
    """Compile the job files, with annotations of what is wrong. Raises JobFileError."""
    result = jobs.compiled(args.files, args)
    if text := findings(result.diagnostics, "github"):
        console.print(text)
    if exit_code(result.diagnostics, strict=args.strict):
        publish_refusal(result.diagnostics, in_short(result.diagnostics))
        found = result.diagnostics if args.json else ()  # as text, they were shown
        raise JobFileError(in_short(result.diagnostics), diagnostics=found)
    jobs.note_left_out(result, args, console)
    scopes = plan_options.scopes_of(result.launches, args.files or ["."])
    return result.launches, Choices(prune=result.prunes, scopes=scopes, declared_in=jobs.declared_in)
