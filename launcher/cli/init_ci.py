"""The choices of `launcher init --ci`, the workflow of GitHub and the pipeline of GitLab.

Both plan changes before they are merged, apply merged commits, and report ends."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from launcher.cli.console import Console
from launcher.errors import LauncherError, UsageError

PROVIDERS = {"github": ("GITHUB_",), "gitlab": ("CI_", "GITLAB_")}
"""Provider → the beginnings of environment variables that identify its runners."""
WORKFLOW = ".github/workflows/launcher.yml"
KEY, KNOWN_HOSTS = "LAUNCHER_SSH_KEY", "LAUNCHER_KNOWN_HOSTS"
"""The names of the repository secrets, or variables of type file, with which a runner reaches an engine."""

_HOST = re.compile(r"(?:[\w.-]+@)?\w[\w.-]*(?::\d+)?", re.ASCII)
_SECRET = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECRET_OF_JOB = re.compile(r"""\bsecret["']?\s*[:=]\s*["']?env:([A-Za-z_]\w*)""", re.ASCII)


class EngineChoice(NamedTuple):
    """One choice of `--ci-engine`.

    Attributes:
        title: for questions and messages.
        variable: names the address in the environment of the runner; "" for the runner's own machine.
        scheme: URL scheme of the address in the variable; "" for a host without a port.
        cron: schedule of the report. GitHub bills hosted runners by the minute.
    """

    title: str
    variable: str = ""
    scheme: str = ""
    cron: str = "17 * * * *"

    @property
    def runner(self) -> str:
        """`own` for the machine of the engine, `hosted` for one of the provider."""
        return "hosted" if self.variable else "own"


ENGINES = {
    "local": EngineChoice("processes of a self-hosted runner", cron="*/15 * * * *"),
    "docker": EngineChoice("a Docker engine over ssh", "DOCKER_HOST", "ssh://"),
    "slurm": EngineChoice("a Slurm cluster over ssh", "LAUNCHER_SLURM_HOST"),
}


class Setup(NamedTuple):
    """The values that the workflow is made from.

    Attributes:
        host: the engine's address as ssh knows it; "" for a self-hosted runner.
        secrets: names of the secrets that jobs read from the environment.
        branch: the default branch, whose pushes are applied.
        requirement: the argument of `pip install`; "" if unknown.
    """

    engine: EngineChoice
    host: str
    secrets: tuple[str, ...]
    branch: str
    requirement: str

    @property
    def scan(self) -> str:
        """The command that prints the key of the engine."""
        name, _, port = self.host.rpartition("@")[2].partition(":")
        return f"ssh-keyscan -p {port} {name}" if port else f"ssh-keyscan {name}"


def asked_setup(args: Any, jobs: Iterable[str], branch: str, requirement: str, console: Console) -> Setup:
    """Return the setup that options and, at a terminal, answers describe; else that of a self-hosted runner.

    Args:
        jobs: the texts of the existing job files, which name secrets.

    Raises UsageError.
    """
    can_ask = not (console.cannot_ask or args.json) and args.ci_engine is None
    kinds = ", ".join(f"{name} ({engine.title})" for name, engine in ENGINES.items())
    name = args.ci_engine or (
        _answer(console, f"Where do jobs run: {kinds}?", "local") if can_ask else "local"
    )
    engine = ENGINES.get(name)
    if engine is None:
        raise UsageError(f"`{name}` is not one of {', '.join(ENGINES)}")
    host = args.ci_host or ""
    if engine.variable and not host and can_ask:
        host = _answer(console, "Its address, as ssh knows it:", "")
    if engine.variable and not host:
        hint = f"--ci-engine {name} --ci-host me@gpu1.example.org"
        raise UsageError(f"--ci-engine {name} needs the address of {engine.title}", hint=hint)
    if host and not engine.variable:
        raise UsageError("--ci-host is for an engine over ssh", hint="add --ci-engine docker or slurm")
    reserved = PROVIDERS[args.ci]
    secrets = [*args.ci_secret] or list(_secrets_in(jobs, reserved))
    if can_ask and not args.ci_secret:
        answer = _answer(console, "Secrets that jobs read, by name:", " ".join(secrets))
        secrets = answer.replace(",", " ").split()
    host = _checked_host(host, engine) if host else ""
    if not re.fullmatch(r"[\w./-]+", branch, re.ASCII):
        raise LauncherError(f"a workflow cannot name the branch `{branch}`", hint="rename the branch")
    return Setup(engine, host, _checked_secrets(secrets, reserved), branch, requirement)


def _answer(console: Console, question: str, default: str) -> str:
    return console.answer(f"{question} [{default}]" if default else question) or default


def github_steps(setup: Setup) -> list[str]:
    """Return commands and notes on missing parts of the workflow: the engine's key, and secrets of jobs."""
    lines = [] if setup.requirement else [f"set LAUNCHER in {WORKFLOW} to what pip should install"]
    if not setup.host:
        lines.append("register a runner: Settings, Actions, Runners, New self-hosted runner")
    else:
        lines.append(f"gh secret set {KEY} <~/.ssh/id_ed25519  # a key that {setup.host} accepts")
        lines.append(f"{setup.scan} | gh secret set {KNOWN_HOSTS}")
    return [*lines, *(f"gh secret set {name}" for name in setup.secrets)]


def _checked_host(text: str, engine: EngineChoice) -> str:
    """Return the address of an engine, without its scheme. Raises UsageError."""
    host = text.removeprefix("ssh://")
    if not _HOST.fullmatch(host) or (":" in host and not engine.scheme):
        port = "[:PORT]" if engine.scheme else ""
        raise UsageError(f"--ci-host: `{text}` is not [USER@]HOST{port}", hint="such as me@gpu1.example.org")
    return host


def _checked_secrets(names: Iterable[str], reserved: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of secrets in their order, each once. Raises UsageError."""
    for name in names:
        if not _SECRET.fullmatch(name) or name.upper().startswith(reserved):
            raise UsageError(
                f"--ci-secret: `{name}` cannot be the name of a secret",
                hint=f"use letters, digits and `_`; names that begin with {reserved[-1]} are reserved",
            )
    return tuple(dict.fromkeys(names))


def _secrets_in(texts: Iterable[str], reserved: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that job files name as secrets: `{secret: env:NAME}`, sorted."""
    found = {name for text in texts for name in _SECRET_OF_JOB.findall(text)}
    return tuple(sorted(name for name in found if not name.upper().startswith(reserved)))


def filled_in(template: str, values: Mapping[str, str]) -> str:
    """Return the text of a file of `templates/`, with these values in place of `<NAME>`."""
    with open(os.path.join(os.path.dirname(__file__), "templates", template), encoding="utf-8") as file:
        return re.sub("<([A-Z]+)>", lambda found: values[found[1]], file.read())


def _values(setup: Setup) -> dict[str, str]:
    engine = setup.engine
    return {
        "CRON": engine.cron,
        "BRANCH": setup.branch,
        "REQUIREMENT": json.dumps(setup.requirement),
        "ADDRESS": f'{engine.variable}: "{engine.scheme}{setup.host}"',
        "SECRETS": "".join(f"\n          {name}: ${{{{ secrets.{name} }}}}" for name in setup.secrets),
    }


def workflow(setup: Setup) -> str:
    """Return the text of the workflow file."""
    return filled_in(f"github-{setup.engine.runner}.yml", _values(setup))


PIPELINE: Final = ".gitlab/launcher.yml"
INCLUDING: Final = ".gitlab-ci.yml"


def gitlab_steps(setup: Setup) -> list[str]:
    """Commands and notes for what the pipeline lacks: a runner or a key, secrets, the schedule, the order."""
    lines = [] if setup.requirement else [f"set LAUNCHER in {PIPELINE} to what pip should install"]
    if setup.host:
        lines.append(
            f"glab variable set {KEY} --type file <~/.ssh/id_ed25519  # a key that {setup.host} accepts"
        )
        lines.append(f"{setup.scan} | glab variable set {KNOWN_HOSTS} --type file")
    else:
        lines.append("register a runner: Settings, CI/CD, Runners; tag launcher, executor shell")
    lines += [f"printenv {name} | glab variable set {name} --masked --protected" for name in setup.secrets]
    schedule = f"--cron '{setup.engine.cron}' --ref {setup.branch} --description 'launcher report'"
    return [
        *lines,
        f"glab schedule create {schedule}",
        "set the variable LAUNCHER_GITLAB_TOKEN to a project access token: role Reporter, scope api",
        "demand that pipelines succeed: Settings, Merge requests, Merge checks",
        "glab api -X PUT 'projects/:id/resource_groups/launcher-apply?process_mode=oldest_first'"
        "  # after the first apply",
    ]


def pipeline_files(setup: Setup) -> dict[str, str]:
    """Path → text of the pipeline, and of a first file that includes it."""
    text = filled_in(f"gitlab-{setup.engine.runner}.yml", _values(setup))
    return {PIPELINE: text, INCLUDING: f"include:\n  - local: {PIPELINE}\n"}
