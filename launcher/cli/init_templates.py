"""Templates of the files that `launcher init` writes."""

from __future__ import annotations

from typing import Any

SCHEMA = ".launcher/job-v1.schema.json"
PROJECT_SCHEMA = ".launcher/project-v1.schema.json"
SKILL = ".agents/skills/launcher/SKILL.md"
"""Where agents of several vendors look for skills, and read one only when its description fits their task."""

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
.agents
AGENTS.md
.pre-commit-config.yaml
"""

VSCODE_SETTINGS: dict[str, Any] = {
    "yaml.schemas": {SCHEMA: ["*.launcher.yaml", "*.launcher.yml"]},
    "evenBetterToml.schema.associations": {
        r".*\.launcher\.toml$": f"./{SCHEMA}",
        r".*/launcher\.toml$": f"./{PROJECT_SCHEMA}",
    },
}
VSCODE_EXTENSIONS: dict[str, Any] = {"recommendations": ["redhat.vscode-yaml", "tamasfe.even-better-toml"]}

AGENTS = f"""\
## Jobs

Jobs are declared in `*.launcher.yaml` and `*.launcher.toml` files. Before you write, plan, start or look at
one, read `{SKILL}`; `launcher skill` prints it for the installed version.
"""
"""A section of an AGENTS.md, which agents read whole for each task: it links to the skill."""

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
