"""The choices of `launcher init --ci`, the workflow of GitHub and the pipeline of GitLab.

Both plan changes before they are merged, apply merged commits, and report ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from launcher.cli.console import Console
from launcher.errors import LauncherError, UsageError

PROVIDERS = {"github": ("GITHUB_",), "gitlab": ("CI_", "GITLAB_")}
"""Provider → the beginnings of environment variables that identify its runners."""
WORKFLOW = ".github/workflows/launcher.yml"
KEY, KNOWN_HOSTS = "LAUNCHER_SSH_KEY", "LAUNCHER_KNOWN_HOSTS"
"""The names of the repository secrets, or variables of type file, with which a runner reaches an engine."""

_CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
_SETUP_PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0"
_HOST = re.compile(r"(?:[\w.-]+@)?\w[\w.-]*(?::\d+)?", re.ASCII)
_SECRET = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECRET_OF_JOB = re.compile(r"""\bsecret["']?\s*[:=]\s*["']?env:([A-Za-z_]\w*)""", re.ASCII)


def provider(text: str) -> str:
    """The type of `--ci`."""
    if text not in PROVIDERS:
        raise ValueError(f"`{text}` is not one of {', '.join(PROVIDERS)}")
    return text


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


def workflow(setup: Setup) -> str:
    """Return the text of the workflow file."""
    engine = setup.engine
    is_local = not engine.variable
    address = "" if is_local else f'  {engine.variable}: "{engine.scheme}{setup.host}"\n'
    values = {
        "CRON": engine.cron,
        "COMMAND": "${{ github.event_name == 'schedule' && 'report' || "
        "(github.event_name == 'push' || inputs.digest) && 'apply' || 'doctor' }}",
        "BRANCH": setup.branch,
        "REQUIREMENT": json.dumps(setup.requirement),
        "ADDRESS": address,
        "PLAN_ON": _OWN_PLAN if is_local else "ubuntu-latest",
        "APPLY_ON": "self-hosted" if is_local else "ubuntu-latest",
        "PLAN_SETUP": _OWN_SETUP.format(options="path: plan") if is_local else _HOSTED_SETUP,
        "APPLY_SETUP": _OWN_SETUP.format(options="path: main, clean: false") if is_local else _HOSTED_SETUP,
        "PLAN_IN": _IN.format(folder="plan") if is_local else "",
        "APPLY_IN": _IN.format(folder="main") if is_local else "",
        "SECRETS": "".join(f"          {name}: ${{{{ secrets.{name} }}}}\n" for name in setup.secrets),
    }
    return re.sub("<([A-Z_]+)>", lambda found: values[found[1]], _WORKFLOW)


_OWN_PLAN = """\
>- # a fork's pull request stays off your machine, unless it edits this line, too
      ${{ github.event_name == 'pull_request'
      && github.event.pull_request.head.repo.full_name != github.repository
      && 'ubuntu-latest' || 'self-hosted' }}"""

_IN = "    defaults: {{run: {{working-directory: {folder}}}}}\n"

_OWN_SETUP = f"""\
      - uses: {_CHECKOUT}
        with: {{{{{{options}}, fetch-depth: 0, persist-credentials: false}}}}
      - run: | # an environment for each version, since jobs that run use theirs
          venv=$RUNNER_TOOL_CACHE/launcher/$(git hash-object --stdin <<<"${{{{LAUNCHER:?set it above}}}}")
          test -x "$venv/bin/launcher" || python3 -m venv "$venv"
          test -x "$venv/bin/launcher" || "$venv/bin/pip" install -q "$LAUNCHER"
          echo "$venv/bin" >>"$GITHUB_PATH"
"""

_HOSTED_SETUP = f"""\
      - uses: {_CHECKOUT}
        with: {{fetch-depth: 0, persist-credentials: false}}
      - uses: {_SETUP_PYTHON}
        with: {{python-version: "3.13"}}
      - run: pip install -q "${{LAUNCHER:?set it above}}"
      - env: {{KEY: "${{{{ secrets.{KEY} }}}}", HOSTS: "${{{{ secrets.{KNOWN_HOSTS} }}}}"}}
        run: |
          umask 077 && mkdir -p ~/.ssh && printf '%s\\n' "$KEY" >~/.ssh/launcher
          printf '%s\\n' "$HOSTS" >~/.ssh/known_hosts
          printf '%s\\n' 'IdentityFile ~/.ssh/launcher' 'StrictHostKeyChecking yes' >~/.ssh/config
"""

_WORKFLOW = """\
# Plans pull requests, applies what is merged to <BRANCH>, and reports how it ended.
# Protect <BRANCH> with the required check `launcher plan`.
name: launcher
on:
  pull_request:
  merge_group:
  push: {branches: [<BRANCH>]}
  schedule: [{cron: "<CRON>"}]
  workflow_dispatch: {inputs: {digest: {description: "digest of the plan to apply by hand; none: ci doctor"}}}
permissions: {}
env:
  LAUNCHER: <REQUIREMENT>
<ADDRESS>jobs:
  plan:
    name: launcher plan
    if: github.event_name == 'pull_request' || github.event_name == 'merge_group'
    runs-on: <PLAN_ON>
    timeout-minutes: 15
    concurrency: {group: "launcher-plan-${{ github.ref }}", cancel-in-progress: true}
    permissions: {contents: read, checks: write, pull-requests: write} # checkout, approvals, comment
<PLAN_IN>    steps:
<PLAN_SETUP>      - run: launcher ci plan
        env: {GITHUB_TOKEN: "${{ github.token }}"}
  apply:
    name: launcher <COMMAND>
    if: github.ref == 'refs/heads/<BRANCH>'
    runs-on: <APPLY_ON>
    timeout-minutes: 60
    concurrency: {group: "launcher-<COMMAND>", queue: max, cancel-in-progress: false}
    permissions: {contents: read, checks: write, pull-requests: write}
<APPLY_IN>    steps:
<APPLY_SETUP>      - run: launcher ci "$COMMAND"
        env:
          COMMAND: <COMMAND>
          GITHUB_TOKEN: ${{ github.token }}
<SECRETS>"""


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
    engine = setup.engine
    address = f'\n    {engine.variable}: "{engine.scheme}{setup.host}"' if engine.variable else ""
    values = {
        "BRANCH": setup.branch,
        "REQUIREMENT": json.dumps(setup.requirement),
        "ADDRESS": address,
        "WHERE": "image: python:3.13" if engine.variable else "tags: [launcher]",
        "SETUP": _IMAGE_SETUP if engine.variable else _RUNNER_SETUP,
        "OWN_CHECKOUT": "" if engine.variable else _OWN_CHECKOUT,
    }
    text = re.sub("<([A-Z_]+)>", lambda found: values[found[1]], _PIPELINE)
    return {PIPELINE: text, INCLUDING: f"include:\n  - local: {PIPELINE}\n"}


_RUNNER_SETUP = """\
    # An environment for each version, since jobs that run use theirs.
    - venv=$HOME/launcher-ci/$(printf %s "${LAUNCHER:?set it above}" | git hash-object --stdin)
    - test -x "$venv/bin/launcher" || python3 -m venv "$venv"
    - test -x "$venv/bin/launcher" || "$venv/bin/pip" install -q "$LAUNCHER"
    - PATH=$venv/bin:$PATH
"""

_OWN_CHECKOUT = """\
    # Jobs that run read this folder: no pipeline of a merge request touches it.
    - main=$HOME/launcher-ci/$CI_PROJECT_ID && git init -q "$main" && cd "$main"
    - git config remote.origin.url "$CI_PROJECT_URL.git"
    - git fetch -q "$CI_PROJECT_DIR" HEAD "+refs/remotes/*:refs/remotes/*"
    - git checkout -q --force --detach FETCH_HEAD
"""

_IMAGE_SETUP = """\
    - pip install -q "${LAUNCHER:?set it above}"
    - mkdir -p ~/.ssh && chmod 700 ~/.ssh
    - (umask 077 && cat "$LAUNCHER_SSH_KEY" >~/.ssh/launcher && echo >>~/.ssh/launcher)
    - cat "$LAUNCHER_KNOWN_HOSTS" >~/.ssh/known_hosts
    - printf '%s\\n' 'IdentityFile ~/.ssh/launcher' 'StrictHostKeyChecking yes' >~/.ssh/config
"""

_PIPELINE = """\
# Plans merge requests, applies what is merged to <BRANCH>, and reports how it ended.
# The names of the jobs plan and apply, and of the environment, are those by which an apply finds them.
variables:
  LAUNCHER_DIGEST:
    value: ""
    description: "digest of the plan to apply by hand; none: ci doctor"

.launcher:
  <WHERE>
  timeout: 1 hour
  variables:
    GIT_DEPTH: "0"
    LAUNCHER: <REQUIREMENT><ADDRESS>
  before_script:
<SETUP>
launcher plan:
  extends: .launcher
  rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event"}]
  interruptible: true
  script:
    - git config user.name launcher && git config user.email launcher@localhost
    - git merge -q --no-edit "origin/$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
    - launcher ci plan
  artifacts:
    when: always
    paths: [launcher-ci]
    reports: {terraform: launcher-ci/widget.json}
    expire_in: never

launcher apply:
  extends: .launcher
  rules:
    - if: $CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    - if: $CI_PIPELINE_SOURCE == "web" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH && $LAUNCHER_DIGEST
  resource_group: launcher-apply
  environment: launcher
  script:
<OWN_CHECKOUT>    - launcher ci apply
  artifacts: {when: always, paths: [launcher-ci], expire_in: never}

launcher report:
  extends: .launcher
  rules: [{if: $CI_PIPELINE_SOURCE == "schedule" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH}]
  resource_group: launcher-report
  script: [launcher ci report]

launcher doctor:
  extends: .launcher
  rules: [{if: $CI_PIPELINE_SOURCE == "web" && $LAUNCHER_DIGEST == ""}]
  script: [launcher ci doctor]
"""
