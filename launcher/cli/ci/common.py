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
from launcher.ci.runner import Runner
from launcher.cli import jobs, plan_options
from launcher.cli.console import Console
from launcher.cli.render import github
from launcher.cli.render.findings import exit_code, findings, in_short
from launcher.errors import JobFileError, LauncherError
from launcher.git import Repository, repository
from launcher.specs import Launch

SUMMARY_BYTES = 60_000


class Run(NamedTuple):
    """One run of a step: its runner, the server of its repository, and the console that it writes to."""

    runner: Runner
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


def forge_of(runner: Runner) -> GitHub | GitLab:
    """The server of a runner's repository."""
    if runner.provider == "gitlab":
        return GitLab(runner)
    return GitHub(runner.api_url, runner.repository, runner.token)


def work_tree() -> Repository:
    tree = repository(os.getcwd())
    if tree is None:
        raise LauncherError("the current directory is in no git repository", hint="check it out first")
    return tree


def compiled_launches(args: Any, run: Run) -> tuple[tuple[Launch, ...], Choices]:
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
