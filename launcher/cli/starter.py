"""The files that `launcher init` writes: their paths and texts. Reads the surroundings, writes nothing."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution

from launcher.files import PROJECT_FILE
from launcher.git import repository
from launcher.jobfile import job_schema

SCHEMA = ".launcher/job-v1.schema.json"
VSCODE = ".vscode/settings.json"
PRE_COMMIT = ".pre-commit-config.yaml"
WORKFLOW = ".github/workflows/launcher.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to begin with: the job's name and project, and which extras."""

    name: str
    project: str
    is_toml: bool = False
    editor: bool = False
    pre_commit: bool = False
    ci: bool = False


def files(wanted: Wanted, folder: str) -> dict[str, str]:
    """Absolute path → text, the job file first.

    Job file and launcher.toml stand in `folder`; what tools look for at the top of a repository stands there.
    """
    top = top_of(folder)
    suffix, job = ("toml", _TOML) if wanted.is_toml else ("yaml", _YAML)
    path = os.path.join(folder, f"{wanted.name}.launcher.{suffix}")
    config = os.path.join(folder, PROJECT_FILE)
    texts = {path: job.replace("NAME", wanted.name), config: _CONFIG.replace("PROJECT", wanted.project)}
    if wanted.editor:
        schema = os.path.join(top, *SCHEMA.split("/"))
        where = os.path.relpath(schema, folder).replace(os.sep, "/")
        modeline = f"#:schema {where}" if wanted.is_toml else f"# yaml-language-server: $schema={where}"
        texts[path] = f"{modeline}\n{texts[path]}"
        texts[schema] = json.dumps(job_schema(), indent=2) + "\n"
        texts[os.path.join(top, *VSCODE.split("/"))] = json.dumps(_VSCODE, indent=2) + "\n"
    if wanted.pre_commit:
        texts[os.path.join(top, PRE_COMMIT)] = _PRE_COMMIT
    if wanted.ci:
        texts[os.path.join(top, *WORKFLOW.split("/"))] = _WORKFLOW.replace("REQUIREMENT", requirement())
    return texts


def top_of(folder: str) -> str:
    """The root of the work tree that holds a folder, which need not be there yet; else the folder itself."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    tree = repository(there)
    return tree.root if tree else folder


def label(text: str) -> str:
    """The nearest name that can stand for a job or project: "My Project_2" → "my-project-2"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-") or "default"


def requirement() -> str:
    """What pip is to install to get this launcher again: the repository and commit that it came from.

    "" where that is not known: an installation from a folder.
    """
    try:
        origin = json.loads(distribution("launcher").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    vcs = origin.get("vcs_info")
    return f"launcher @ {vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else ""


_YAML = """\
version: 1
name: NAME  # with the project, this job's identity: renamed, it is another job
description: Says hello. Needs nothing but a shell.

# Inputs, given with --var whom=moon; $<var.whom> is the value.
vars:
  whom: {type: str, default: world, help: whom to greet}

# What runs: each role is one kind of process, `num_replicas` of them.
roles:
  main:
    entrypoint: sh
    args: [-c, 'echo "hello $<var.whom>, this is replica $<replica_id> of $<num_replicas>"']
    num_replicas: 2
    # env:
    #   OMP_NUM_THREADS: 4
    # max_retries: 2
    # retry_policy: replica

timeout: 10m
"""

_TOML = """\
version = 1
name = "NAME"  # with the project, this job's identity: renamed, it is another job
description = "Says hello. Needs nothing but a shell."
timeout = "10m"

# Inputs, given with --var whom=moon; $<var.whom> is the value.
[vars]
whom = { type = "str", default = "world", help = "whom to greet" }

# What runs: each role is one kind of process, `num_replicas` of them.
[roles.main]
entrypoint = "sh"
args = ["-c", 'echo "hello $<var.whom>, this is replica $<replica_id> of $<num_replicas>"']
num_replicas = 2
# env.OMP_NUM_THREADS = 4
# max_retries = 2
# retry_policy = "replica"
"""

_CONFIG = """\
# What the job files in this folder and below have in common.
project = "PROJECT"
"""

_VSCODE = {
    "yaml.schemas": {SCHEMA: ["*.launcher.yaml", "*.launcher.yml"]},
    "evenBetterToml.schema.associations": {r".*\.launcher\.toml$": f"./{SCHEMA}"},
}

_PRE_COMMIT = r"""
repos:
  - repo: local
    hooks:
      - id: launcher-fmt
        name: launcher fmt
        entry: launcher fmt
        language: system
        files: \.launcher\.(ya?ml|toml)$
        require_serial: true
      - id: launcher-validate
        name: launcher validate
        # Runs no code of the checkout. Leave --no-components out where every commit is by people you trust.
        entry: launcher validate --no-components
        language: system
        files: \.launcher\.(ya?ml|toml)$
        require_serial: true
""".lstrip("\n")

_WORKFLOW = """\
# Checks the job files of every pull request.
name: launcher
on:
  pull_request:
  push:
    branches: [main]
permissions:
  contents: read
env:
  # What pip installs as launcher, such as: launcher @ git+https://HOST/PATH@COMMIT
  LAUNCHER: "REQUIREMENT"
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "${LAUNCHER:?say in this workflow what to install}"
      # A pull request is the code of another author: none of it runs, and it reads no environment variable.
      - if: github.event_name == 'pull_request'
        run: launcher validate --format github --no-components --no-env-vars
      - if: github.event_name != 'pull_request'
        run: launcher validate --format github
      - run: launcher fmt --check
"""
