"""Functions that the steps of `launcher ci` share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from launcher.apply.plans import Choices
from launcher.ci.forge import ForgeError
from launcher.ci.github import GitHub
from launcher.ci.gitlab import GitLab
from launcher.ci.runner import CiRunner
from launcher.cli import jobs, plan_options
from launcher.cli.console import Console
from launcher.cli.render import github
from launcher.cli.render.findings import exit_code, findings, in_short
from launcher.errors import JobFileError, LauncherError
from launcher.git import Repository, repository
from launcher.specs.launch import Launch

SUMMARY_BYTES = 60_000
_OF_GITHUB = ("GITHUB_TOKEN", "GH_TOKEN")
_OF_GITLAB = (
    "LAUNCHER_GITLAB_TOKEN",
    "CI_JOB_TOKEN",
    "CI_REPOSITORY_URL",
    "CI_REGISTRY_PASSWORD",
    "CI_DEPENDENCY_PROXY_PASSWORD",
    "CI_DEPLOY_PASSWORD",
)
TOKENS = (*_OF_GITHUB, *_OF_GITLAB)
"""Variables of a runner that hold credentials, which no job gets."""


class StepRun(NamedTuple):
    """One run of a step: its runner, the server of its repository, and the console that it writes to."""

    runner: CiRunner
    forge: GitHub | GitLab
    console: Console

    def show(self, text: str) -> None:
        """Print text that may come from job files: GitHub would take some lines for commands."""
        is_github = self.runner.provider == "github"
        self.console.print(github.shielded(text) if is_github else text, flush=True)

    def warn(self, text: str) -> None:
        self._annotate(github.warning, "warning", text)

    def fail(self, text: str) -> None:
        self._annotate(github.error, "error", text)

    def _annotate(self, command: Callable[[str], str], word: str, text: str) -> None:
        self.console.print(command(text) if self.runner.provider == "github" else f"{word}: {text}")

    @contextmanager
    def degraded(self, instead: str) -> Iterator[None]:
        """Turn a missing permission into a warning that names it."""
        try:
            yield
        except ForgeError as error:
            if not error.is_forbidden:
                raise
            self.warn(f"{error}: {instead}")


def forge_of(runner: CiRunner) -> GitHub | GitLab:
    """The server of a runner's repository."""
    if runner.provider == "gitlab":
        return GitLab(runner)
    return GitHub(runner.api_url, runner.repository, runner.token)


def work_tree() -> Repository:
    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("the current directory is in no git repository", hint="check it out first")
    return tree


def github_of(origin: str) -> GitHub:
    """GitHub, for the repository of an origin such as `github.com/owner/name`, or of the runner.

    Raises LauncherError without a token, or for another origin.
    """
    token = next(filter(None, map(os.environ.get, _OF_GITHUB)), "")
    host, _, path = origin.partition("/")
    repository = os.environ.get("GITHUB_REPOSITORY") or (path if host == "github.com" else "")
    if not token or repository.count("/") != 1:
        why = "needs a token" if not token else f"cannot find the repository of {origin} on GitHub"
        hint = "set GITHUB_TOKEN" if not token else "set GITHUB_REPOSITORY=OWNER/NAME, or leave out --online"
        raise LauncherError(f"--online {why}", hint=hint)
    return GitHub(os.environ.get("GITHUB_API_URL") or "https://api.github.com", repository, token)


def compiled_launches(args: Any, run: StepRun) -> tuple[tuple[Launch, ...], Choices]:
    """Compile the job files, with annotations of what is wrong. Raises JobFileError."""
    result = jobs.compiled(args.files, args)
    if text := findings(result.diagnostics, "github" if run.runner.provider == "github" else "text"):
        run.console.print(text)
    if exit_code(result.diagnostics, strict=args.strict):
        github.publish_refusal(result.diagnostics, in_short(result.diagnostics))
        found = result.diagnostics if args.json else ()  # as text, they were shown
        raise JobFileError(in_short(result.diagnostics), diagnostics=found)
    jobs.note_left_out(result, args, run.console)
    scopes = plan_options.scopes_of(result.launches, args.files or ["."])
    return result.launches, Choices(prune=result.prunes, scopes=scopes, declared_in=jobs.declared_in)
