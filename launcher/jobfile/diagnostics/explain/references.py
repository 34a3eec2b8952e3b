"""Codes about `$<…>`, variables and targets."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import JOB, Example, Explanation, in_yaml

_VAR = """\
version: 1
name: train
vars: {epochs: {type: int%s}}
roles:
  main:
    entrypoint: train
    args: [--epochs, $<var.epochs>]
"""
_RUN = """\
version: 1
name: train
roles:
  main:
    entrypoint: train
    args: [--rank, %s]
"""
_TARGET = """\
version: 1
name: train
roles: {main: {entrypoint: train}}
targets:
  prod: {roles: {main: {num_replicas: 8}}}
"""
_GIT = """\
version: 1
name: train
roles: {main: {entrypoint: train, env: {COMMIT: $<git.sha>}}}
"""
_COMMIT = ("git init -q", "git add .", "git commit -q -m 'Train'")

_ENV = """\
version: 1
name: train
vars: {epochs: {type: int, from_env: EPOCHS}}
roles: {main: {entrypoint: train, args: [--epochs, $<var.epochs>]}}
"""
_COMPONENT = """\
version: 1
name: train
component: %s
"""

EXPLANATIONS = (
    in_yaml(
        "unknown-reference",
        "Text of the shape `$<word>` is a reference, and this one names nothing. What is known while "
        "compiling has a dot: `$<var.NAME>`, `$<job.name>`; what is known when a replica runs has none: "
        "`$<app_id>`, `$<replica_id>`. For the text itself write `$$<word>`. Every other `$` passes through: "
        "`$HOME`, `${HOME:-x}`, `$(date)`.",
        _RUN % "$<replica>",
        _RUN % "$<replica_id>",
    ),
    in_yaml(
        "reference-phase",
        "The reference stands where its value is not known yet, or where references are not resolved. What "
        "is known only when the job runs may stand in `entrypoint`, `args`, `env`, a role's `metadata` "
        "and the `src` of a mount. `version`, `name`, `vars` and all keys take no reference.",
        "version: 1\nname: train-$<replica_id>\nroles: {main: {entrypoint: env}}\n",
        "version: 1\nname: train\nroles: {main: {entrypoint: env, args: [RANK=$<replica_id>]}}\n",
    ),
    in_yaml(
        "unset-variable",
        "A variable without a default must be given a value: with `--var NAME=VALUE`, or through the "
        "environment where it says `from_env`. `launcher validate` does without one.",
        _VAR % "",
        _VAR % ", default: 3",
        f"plan {JOB}",
    ),
    Explanation(
        "unknown-variable",
        "A variable is given a value, on the command line, in a variables file or as a default by a target, "
        "and none of the files declares it.",
        Example({JOB: _VAR % ", default: 3"}, f"validate {JOB} --var epoch=5"),
        Example({JOB: _VAR % ", default: 3"}, f"validate {JOB} --var epochs=5"),
    ),
    Explanation(
        "unknown-target",
        "`--target` names one of the overlays below `targets`, and the file has none of that name. Without "
        "`--target` the file counts as it stands, or as the target that launcher.toml names.",
        Example({JOB: _TARGET}, f"validate {JOB} --target production"),
        Example({JOB: _TARGET}, f"validate {JOB} --target prod"),
    ),
    Explanation(
        "no-commit",
        "`$<git.sha>`, `$<git.short_sha>` and `$<git.branch>` speak of the repository that holds the job "
        "file. Here it is in none, or nothing is committed yet, or no branch is checked out.",
        Example({JOB: _GIT}, f"plan {JOB}"),
        Example({JOB: _GIT}, f"plan {JOB}", before=_COMMIT),
    ),
    Explanation(
        "dirty-tree",
        "A reference names the commit that is checked out, and files differ from it: what would run is not "
        "what the commit says. Commit first, or pass `--allow-dirty`: the reference then ends in `-dirty`. "
        "`launcher validate` does not mind.",
        Example({JOB: _GIT}, f"plan {JOB}", before=(*_COMMIT, f"echo '# a note' >> {JOB}")),
        Example({JOB: _GIT}, f"plan {JOB}", before=_COMMIT),
    ),
    Explanation(
        "component-refused",
        "A component is code, and compiling a job file calls it. With `--no-components`, or "
        "`LAUNCHER_COMPONENTS=never` in the environment, job files may call only built-in components. Use "
        "it where you do not trust the code, such as for pull requests.",
        Example({JOB: _COMPONENT % "train.py:train"}, f"validate --no-components {JOB}"),
        Example({JOB: _COMPONENT % "utils.echo"}, f"validate --no-components {JOB}"),
    ),
    Explanation(
        "environment-refused",
        "With `--no-env-vars` no variable takes its value from the environment (`from_env`): a job "
        "file of another author cannot read your environment. Give the value with `--var`.",
        Example({JOB: _ENV}, f"validate --no-env-vars {JOB}"),
        Example({JOB: _ENV}, f"validate --no-env-vars {JOB} --var epochs=3"),
    ),
)
