"""The texts of the files that `launcher init` writes."""

from __future__ import annotations

from typing import Any

SCHEMA = ".launcher/job-v1.schema.json"

YAML_JOB = """\
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

TOML_JOB = """\
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

CONFIG = """\
# What the job files in this folder and below have in common.
project = "PROJECT"
# Patterns of job files that a directory does not stand for:
# exclude = ["tests/bad"]
"""

IGNORE = """\
# What no job reads of a workspace: one pattern a line, with the rules of .dockerignore.
# Version control, Python's caches and job files are left out anyway; `!PATTERN` takes back.
**/.venv
**/venv
**/node_modules
**/.cache
**/.tox
**/.nox
**/.ipynb_checkpoints
**/.DS_Store
**/.idea
.vscode
.github
.launcher
.pre-commit-config.yaml
"""

VSCODE_SETTINGS: dict[str, Any] = {
    "yaml.schemas": {SCHEMA: ["*.launcher.yaml", "*.launcher.yml"]},
    "evenBetterToml.schema.associations": {r".*\.launcher\.toml$": f"./{SCHEMA}"},
}
VSCODE_EXTENSIONS: dict[str, Any] = {"recommendations": ["redhat.vscode-yaml", "tamasfe.even-better-toml"]}

WORKFLOW_TEXT = """\
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
