"""Templates of the files that `launcher init` writes."""

from __future__ import annotations

from typing import Any

SCHEMA = ".launcher/job-v1.schema.json"

YAML_JOB = """\
version: 1
name: NAME  # identifies the job, with the project: a renamed job is a new job
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
name = "NAME"  # identifies the job, with the project: a renamed job is a new job
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
# Settings of the job files in this folder and below.
project = "PROJECT"
# Job files to skip when a command is given a directory:
# exclude = ["tests/bad"]
"""

IGNORE = """\
# Files to leave out of workspaces: one pattern per line, as in .dockerignore.
# Version control, Python caches and job files are always left out; `!PATTERN` includes them.
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

HOOKS = """\
- repo: local
  hooks:
    - id: launcher-fmt
      name: launcher fmt
      entry: launcher fmt
      language: system
      files: \\.launcher\\.(ya?ml|toml)$
      require_serial: true
    - id: launcher-validate
      name: launcher validate
      # Runs no code of the checkout. Remove --no-components if you trust all authors of commits.
      entry: launcher validate --no-components
      language: system
      files: \\.launcher\\.(ya?ml|toml)$
      require_serial: true
"""
"""One item of `repos` in a .pre-commit-config.yaml."""

_CHECKOUT = "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0"
_SETUP_PYTHON = "actions/setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0"

WORKFLOW_TEXT = f"""\
# Checks the job files of every pull request, and shows their plan in the summary of the run.
name: launcher
on:
  pull_request:
  push:
    branches: [main]
permissions: {{}}
concurrency:
  group: launcher-${{{{ github.ref }}}}
  cancel-in-progress: ${{{{ github.event_name == 'pull_request' }}}}
env:
  # The requirement from which pip installs launcher, such as: launcher-jobs @ git+https://HOST/PATH@COMMIT
  LAUNCHER: "REQUIREMENT"
jobs:
  check:
    runs-on: ubuntu-latest
    timeout-minutes: 15
    permissions:
      contents: read # of this repository, to check it out
    steps:
      - uses: {_CHECKOUT}
        with:
          persist-credentials: false
      - uses: {_SETUP_PYTHON}
        with:
          python-version: "3.12"
      - run: pip install "${{LAUNCHER:?set it in this workflow}}"
      - run: launcher fmt --check
      # Code of a pull request is not trusted: none of it runs, and it reads no environment variables.
      - if: github.event_name == 'pull_request'
        run: launcher validate --format github --no-components --no-env-vars
      - if: github.event_name == 'pull_request'
        run: launcher plan --format github --no-components --no-env-vars
      - if: github.event_name != 'pull_request'
        run: launcher validate --format github
      - if: github.event_name != 'pull_request'
        run: launcher plan --format github

  # To apply merged changes, remove the first `# ` from the lines below. They need a self-hosted runner with
  # launcher installed, and with a persistent LAUNCHER_HOME or Docker engine: without one, finished jobs run
  # again. Add reviewers to the environment `launcher`: they see the plan of `review` before `apply` runs,
  # and `apply` refuses any other plan.
#   review:
#     if: github.event_name == 'push'
#     needs: check
#     runs-on: [self-hosted, launcher]
#     timeout-minutes: 15
#     permissions:
#       contents: read # of this repository, to check it out
#     outputs:
#       digest: ${{{{ steps.plan.outputs.plan_digest }}}}
#       has_changes: ${{{{ steps.plan.outputs.has_changes }}}}
#     steps:
#       - uses: {_CHECKOUT}
#         with:
#           clean: false # keep files that jobs wrote into the checkout
#           persist-credentials: false
#       - id: plan
#         run: launcher plan --format github
#   apply:
#     if: needs.review.outputs.has_changes == 'true'
#     needs: review
#     environment: launcher
#     runs-on: [self-hosted, launcher]
#     timeout-minutes: 360
#     permissions:
#       contents: read # of this repository, to check it out
#     steps:
#       - uses: {_CHECKOUT}
#         with:
#           clean: false
#           persist-credentials: false
#       - run: launcher apply . --expect-digest "$DIGEST" --wait
#         env:
#           DIGEST: ${{{{ needs.review.outputs.digest }}}}
"""
