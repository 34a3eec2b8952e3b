"""The pipeline of `launcher init --ci gitlab`: plans merge requests, applies merged commits, reports ends."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from launcher.cli.init_ci import Setup

PIPELINE: Final = ".gitlab/launcher.yml"
INCLUDING: Final = ".gitlab-ci.yml"
_INCLUDE: Final = f"include:\n  - local: {PIPELINE}\n"


def next_steps(setup: Setup, key: str, known_hosts: str) -> list[str]:
    """Commands and notes for what the pipeline lacks: a runner or a key, secrets, the schedule, the order."""
    lines = [] if setup.requirement else [f"set LAUNCHER in {PIPELINE} to what pip should install"]
    if setup.host:
        lines.append(
            f"glab variable set {key} --type file <~/.ssh/id_ed25519  # a key that {setup.host} accepts"
        )
        lines.append(f"{setup.scan} | glab variable set {known_hosts} --type file")
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


def files(setup: Setup) -> dict[str, str]:
    """Path → text of the pipeline, and of a first file that includes it."""
    return {PIPELINE: _pipeline(setup), INCLUDING: _INCLUDE}


def _pipeline(setup: Setup) -> str:
    engine = setup.engine
    address = f'\n    {engine.variable}: "{engine.scheme}{setup.host}"' if engine.variable else ""
    values = {
        "BRANCH": setup.branch,
        "REQUIREMENT": json.dumps(setup.requirement),
        "ADDRESS": address,
        "WHERE": "image: python:3.13" if engine.variable else "tags: [launcher]",
        "SETUP": _HOSTED_SETUP if engine.variable else _OWN_SETUP,
        "OWN_CHECKOUT": "" if engine.variable else _OWN_CHECKOUT,
    }
    return re.sub("<([A-Z_]+)>", lambda found: values[found[1]], _TEXT)


_OWN_SETUP = """\
    # An environment for each version, since jobs that run use theirs.
    - venv=$HOME/launcher-ci/$(printf %s "${LAUNCHER:?set it above}" | git hash-object --stdin)
    - test -x "$venv/bin/launcher" || python3 -m venv "$venv"
    - test -x "$venv/bin/launcher" || "$venv/bin/pip" install -q "$LAUNCHER"
    - PATH=$venv/bin:$PATH
"""

_OWN_CHECKOUT = """\
    # Jobs that run read this folder: no pipeline of a merge request touches it.
    - main=$HOME/launcher-ci/$CI_PROJECT_ID && git init -q "$main" && cd "$main"
    - git config remote.origin.url "$CI_PROJECT_URL.git" && git fetch -q "$CI_PROJECT_DIR" HEAD
    - git checkout -q --force --detach FETCH_HEAD
"""

_HOSTED_SETUP = """\
    - pip install -q "${LAUNCHER:?set it above}"
    - mkdir -p ~/.ssh && chmod 700 ~/.ssh
    - (umask 077 && cat "$LAUNCHER_SSH_KEY" >~/.ssh/launcher && echo >>~/.ssh/launcher)
    - cat "$LAUNCHER_KNOWN_HOSTS" >~/.ssh/known_hosts
    - printf '%s\\n' 'IdentityFile ~/.ssh/launcher' 'StrictHostKeyChecking yes' >~/.ssh/config
"""

_TEXT = """\
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
