"""The request of the slurm scheduler and its batch scripts, derived from an AppDef by pure functions.

Values that only a node can know are between two `MARK`s: the host of a role, and the app's directory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from launcher.dataclass import dataclass, field, replace
from launcher.schedulers.replica_request import (
    RANK0_ENV,
    Surroundings,
    alike,
    binder,
    handle_of,
    host_variables,
    option,
    rules_of_roles,
    shown_value,
    without_output,
)
from launcher.schedulers.slurm import rules
from launcher.schedulers.slurm.known import DEFAULT_JOB_DIR, SLURM
from launcher.schedulers.slurm.options import DEFAULT_GRACE_S, minutes_of, slurm_time
from launcher.schedulers.slurm.rules import MARK
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.macros import HOST_VARIABLES, SYMBOLIC_APP_ID, escape, hosts_of
from launcher.specs.outputs import SYMBOLIC_OUTPUT, has_output
from launcher.specs.secret import HIDDEN, Secret, hide, is_sensitive
from launcher.specs.text import to_yaml
from launcher.text import path_names, printable

APP_DIR = f"{MARK}dir{MARK}"
BEFORE_LIMIT = "B:URG@30"
"""Slurm signals the script 30 s before its time limit. Programs ignore URG unless they handle it."""

_SPARE_S = 120
_OURS = frozenset({"LAUNCHER_JOB_ID", "LAUNCHER_SCRATCH", "PET_LOG_DIR", "TORCHELASTIC_ERROR_FILE"})
_HOST_MARK = re.compile(f"{MARK}host:([^{MARK}]*){MARK}")
_PROGRAM = f"{MARK}program{MARK}"
_CONDUCT = 'exec python3 -I -S "$LAUNCHER_PROGRAM" conduct "$LAUNCHER_APP_DIR"'
_QUOTED_BY_SBATCH = re.compile(r"""[\s#'"\\]""")


@dataclass(repr=False)
class SlurmRequest:
    """An app as one job of Slurm. `str(request)` is the text for users.

    Attributes:
        app_id: `$<app_id>` until the request is bound to a real one.
        app: the instructions for the programs on the cluster, as plain data (`app.json`).
        notes: requests of the app that this scheduler fulfils differently or not at all.
        host, job_dir: login node, "" for this machine; folder on the cluster, as written.
        secrets: role → variable → reference; `app` lacks these variables.
        options, setup: the parts of the `script`; see `batch_script`.
    """

    app_id: str
    script: str
    app: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    host: str = ""
    job_dir: str = DEFAULT_JOB_DIR
    secrets: dict[str, dict[str, Secret]] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The script, then its instructions as YAML: the same text for equal requests."""
        app = self.app
        head = {"host": self.host or None, **{name: app[name] for name in ("handle", "timeout_s", "grace_s")}}
        head["cwd"] = app["cwd"] or "$LAUNCHER_APP_DIR/workspace"
        given = {name: value for name, value in head.items() if value is not None}
        roles = [_shown_role(role, self) for role in app["roles"]]
        parts = [
            *(_without_values(line) for line in self.script.replace(_PROGRAM, "app.zip").splitlines()),
            "",
            "# app.json",
            to_yaml(given, sort=False).rstrip("\n"),
            to_yaml({"roles": roles}, sort=False).rstrip("\n"),
            *(f"# note: {note}" for note in self.notes),
        ]
        return "\n".join(parts) + "\n"

    __repr__ = __str__


def build_request(app: AppDef, cfg: Mapping[str, CfgVal], *, session: str) -> SlurmRequest:
    """Build the request for `app` with these resolved run options, under the symbolic app id.

    Raises InvalidRunConfigException for options out of range, RejectedAppError for an app that cannot run.
    """
    rules.check(app, cfg)
    folders = dict(zip((names := [role.name for role in app.roles]), path_names(names), strict=True))
    job_dir = option(cfg, "job_dir", str, DEFAULT_JOB_DIR)
    around = _surroundings(app, cfg, handle_of(SLURM, session))
    roles = [_role(role, app, cfg, folders[role.name], around) for role in app.roles]
    options, setup = _sbatch_options(app, cfg), [*map(escape, option(cfg, "setup", list, []))]
    commands = {
        f"{role.name}, {role.num_replicas} x": _named(shlex.join(hide(made["replicas"][0]["argv"])))
        for role, made in zip(app.roles, roles, strict=True)
    }
    return SlurmRequest(
        app_id=SYMBOLIC_APP_ID,
        script=batch_script(options, job_dir.rstrip("/"), setup, commands),
        app={
            "app_id": SYMBOLIC_APP_ID,
            "handle": around.handle,
            "session": session,
            "timeout_s": option(cfg, "timeout_s", int),
            "grace_s": option(cfg, "grace_s", float, DEFAULT_GRACE_S),
            "cwd": cfg.get("workdir"),
            "requeue": cfg.get("on_preempted") == "requeue",
            "order": rules_of_roles(app),
            "roles": roles,
            "hosts": folders,
        },
        notes=rules.notes(app, cfg),
        host=option(cfg, "host", str, ""),
        job_dir=job_dir,
        secrets={role.name: found for role in app.roles if (found := _secrets(role))},
        options=options,
        setup=setup,
    )


def bind_request(
    request: SlurmRequest,
    app_id: str,
    outputs: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    program: str = "",
) -> SlurmRequest:
    """The request under a real app id: a new value, macros and escapes resolved.

    Args:
        program: the file that Python runs on the nodes, in the folder `programs`.
        outputs: macro → folder on the cluster, for `$<output_dir>` and the macros of needs. Without any,
            replicas get no variable for an output folder.
        variables: further variables for every replica, taken unchanged.
    """
    bind = binder(app_id, outputs)

    def bound(replica: Mapping[str, Any]) -> dict[str, Any]:
        env = replica["env"] if outputs else without_output(replica["env"])
        return {**replica, "argv": bind(replica["argv"]), "env": {**bind(env), **(variables or {})}}

    roles = [{**role, "replicas": [*map(bound, role["replicas"])]} for role in request.app["roles"]]
    return replace(
        request,
        app_id=app_id,
        script=bind(request.script).replace(_PROGRAM, program),
        app={**request.app, "app_id": app_id, "handle": bind(request.app["handle"]), "roles": roles},
    )


def host_mark(role: str) -> str:
    """The text that a node replaces by the host of a role's replica 0."""
    return f"{MARK}host:{role}{MARK}"


def _sbatch_options(app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, str]:
    """The #SBATCH lines, in order. The output is relative: sbatch runs in the app's directory."""
    made: dict[str, Any] = {
        "job-name": SYMBOLIC_APP_ID,
        "output": "slurm.out",
        "open-mode": "append",
        "ntasks": rules.count_of(app),
        "nodes": cfg.get("nodes"),
        "ntasks-per-node": cfg.get("ntasks_per_node"),
        "cpus-per-task": rules.cpus_per_task(app),
        "mem-per-cpu": f"{size}M" if (size := rules.mem_per_cpu(app, cfg)) else None,
        "gpus-per-task": rules.gpus_per_task(app, cfg),
        "gres": cfg.get("gres"),
        "time": _time_limit(cfg),
        "signal": BEFORE_LIMIT,
        **{name: cfg.get(name) for name in ("partition", "account", "qos", "constraint", "comment")},
    }
    lines = {name: escape(str(value)) for name, value in made.items() if value not in (None, "", 0)}
    lines["job-name"] = SYMBOLIC_APP_ID
    lines["requeue" if cfg.get("on_preempted") == "requeue" else "no-requeue"] = ""
    return {**lines, **{name: escape(value) for name, value in option(cfg, "sbatch", dict, {}).items()}}


def _time_limit(cfg: Mapping[str, CfgVal]) -> str | None:
    """The user's time limit, else the app's timeout plus time for the job to start and stop."""
    given, timeout_s = cfg.get("time"), option(cfg, "timeout_s", int)
    if given:
        minutes = minutes_of(str(given))
        return "UNLIMITED" if minutes is None else slurm_time(minutes)
    if timeout_s is None:
        return None
    return slurm_time(ceil((timeout_s + option(cfg, "grace_s", float, DEFAULT_GRACE_S) + _SPARE_S) / 60))


def _surroundings(app: AppDef, cfg: Mapping[str, CfgVal], handle: str) -> Surroundings:
    return Surroundings(
        handle=handle,
        scratch=f"{APP_DIR}/scratch",
        output=SYMBOLIC_OUTPUT if has_output(app) else "",
        hosts={variable: host_mark(name) for variable, name in host_variables(app).items()},
        values=hosts_of({each.name: host_mark(each.name) for each in app.roles}),
        img_root=option(cfg, "workdir", str) or f"{APP_DIR}/workspace",
    )


def _role(
    role: Role, app: AppDef, cfg: Mapping[str, CfgVal], folder: str, around: Surroundings
) -> dict[str, Any]:
    """A role of app.json. The arguments and variables of its replicas may still hold macros."""
    known = {host_mark(name) for name in rules.known_at_start(role, app, host_variables(app).values())}
    around = replace(around, hosts={name: host for name, host in around.hosts.items() if host in known})
    replicas = []
    for k, filled in around.replicas(role):
        env = around.environment(
            {name: value for name, value in filled.env.items() if not isinstance(value, Secret)},
            error_file=f"{APP_DIR}/replicas/{folder}/{k}.error",
            logs=f"{APP_DIR}/scratch/.torchelastic/{folder}-{k}",
        )
        replicas.append({"argv": [filled.entrypoint, *filled.args], "env": env})
    return {
        "name": role.name,
        "folder": folder,
        "retries": role.max_retries,
        "policy": str(role.retry_policy),
        "srun": _srun(role, app, cfg, folder),
        "replicas": replicas,
    }


def _srun(role: Role, app: AppDef, cfg: Mapping[str, CfgVal], folder: str) -> list[str]:
    """The command of a role's step, without its program. srun must not stop other replicas when one ends."""
    cpus, gpus = rules.cpus_per_task(app), rules.gpus_per_task(app, cfg)
    optional: dict[str, object] = {"--cpus-per-task": cpus, "--gpus-per-task": gpus}
    optional = {name: value for name, value in optional.items() if value}
    if not gpus:  # else Slurm chooses the nodes: those with enough free GPUs
        optional |= _place(role, app, cfg)
    return [
        "srun",
        f"--job-name={folder}",
        f"--ntasks={role.num_replicas}",
        *(f"{name}={value}" for name, value in optional.items()),
        # Steps that overlap may start and restart in any order, but they would share their GPUs.
        "--exact" if gpus else "--overlap",
        "--export=ALL",
        "--input=all",
        "--kill-on-bad-exit=0",
        "--wait=0",
    ]


def _place(role: Role, app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, int]:
    """The nodes of a role, when their number is given: replicas spread over them as Slurm spreads tasks."""
    nodes, tasks = option(cfg, "nodes", int), rules.count_of(app)
    if nodes is None:
        return {}
    before = sum(each.num_replicas for each in app.roles[: app.roles.index(role)])
    first, last = before * nodes // tasks, (before + role.num_replicas - 1) * nodes // tasks
    return {"--nodes": last - first + 1, "--relative": first}


def _secrets(role: Role) -> dict[str, Secret]:
    return {name: value for name, value in role.env.items() if isinstance(value, Secret)}


# -- the batch scripts -------------------------------------------------------------------------------------


def batch_script(
    options: Mapping[str, str], job_dir: str, setup: Sequence[str], commands: Mapping[str, str]
) -> str:
    """A script for sbatch.

    Args:
        options: long option of sbatch → value; "" for one without a value.
        job_dir: the folder on the cluster, without a slash at its end; a leading `~` is the home there.
        setup, commands: lines of bash; role → its command line, for readers of the script.
    """
    comments = [
        "# The replicas, which the conductor starts by srun with the arguments and variables of app.json:",
        *(f"# {printable(role)}: {printable(command)}" for role, command in commands.items()),
    ]
    app_dir = f"export LAUNCHER_APP_DIR={in_double_quotes(f'{job_dir}/apps/{SYMBOLIC_APP_ID}')}"
    return _script(options, job_dir, [app_dir], setup, comments)


def array_script(request: SlurmRequest, name: str, program: str) -> str:
    """A script for sbatch that runs an app in each task of an array, whose numbers sbatch gets as an option.

    name: the name of the array's folder. program: see `bind_request`.
    """
    job_dir = request.job_dir
    options = {**request.options, "job-name": f"launcher-{name}", "output": "%a/slurm.out"}
    find = [
        "# Task k runs the app on line k + 1 of the file `tasks`: its id, and the generation of its folder.",
        f"export LAUNCHER_ARRAY_DIR={in_double_quotes(f'{job_dir}/arrays/{name}')}",
        'read -r app generation < <(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$LAUNCHER_ARRAY_DIR/tasks")',
        f'export LAUNCHER_APP_DIR={in_double_quotes(f"{job_dir}/apps/")[:-1]}$app"',
        '[ "$(cat "$LAUNCHER_APP_DIR/id")" = "$generation" ] || exit 0  # it was removed',
        'cd "$LAUNCHER_APP_DIR" || exit',
    ]
    comment = (
        "# The conductor starts the replicas by srun with the arguments and variables of the app's app.json."
    )
    script = _script(options, job_dir, find, request.setup, [comment])
    return str(binder("")(script)).replace(_PROGRAM, program)


def _script(
    options: Mapping[str, str],
    job_dir: str,
    find: Sequence[str],
    setup: Sequence[str],
    comments: Sequence[str],
) -> str:
    """The script. The lines `find` set LAUNCHER_APP_DIR."""
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{sbatch_word(name, value)}" for name, value in options.items()),
        "",
        *find,
        f"export LAUNCHER_PROGRAM={in_double_quotes(f'{job_dir}/programs/{_PROGRAM}')}",
        *(_setup(setup) if setup else ()),
        "",
        *comments,
        _CONDUCT,
    ]
    return "\n".join(lines) + "\n"


def _setup(lines: Sequence[str]) -> list[str]:
    # Subshells inherit the trap; codes above 128 are signals, whose cause Slurm knows.
    failed = (
        f"trap 'code=$?; [ $BASHPID != $$ ] || [ $code -gt 128 ] || {_CONDUCT} $code \"$BASH_COMMAND\"' ERR"
    )
    before = ["", "# setup: the first line that fails ends the job", "set -eE", failed]
    return [*before, *lines, "trap - ERR", "set +eE"]


def sbatch_word(name: str, value: str) -> str:
    """`name=value`, quoted for the parser of #SBATCH lines.

    Source: `_get_argument` in src/sbatch/opt.c: quotes, and a backslash before any character, also in quotes.
    """
    if not value:
        return name
    if not _QUOTED_BY_SBATCH.search(value):
        return f"{name}={value}"
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}="{escaped}"'


def in_double_quotes(path: str) -> str:
    """A path for bash; a leading `~` becomes `$HOME`, which bash expands. `$<` of a macro stays."""
    home = path == "~" or path.startswith("~/")
    escaped = re.sub(r'(["\\`]|\$(?!<))', r"\\\1", path[1:] if home else path)
    return f'"{"$HOME" if home else ""}{escaped}"'


# -- the text for users ------------------------------------------------------------------------------------


def _named(text: str) -> str:
    """The text with readable names in place of values that only a node knows."""
    return _HOST_MARK.sub(r"(host of \1)", text).replace(APP_DIR, "$LAUNCHER_APP_DIR")


def _without_values(line: str) -> str:
    """A line of the script without values: `export TOKEN=abc` keeps the name only."""
    found = re.match(r"\s*(?:export\s+)?(\w+)=", line)
    return f"{found[0]}{HIDDEN}" if found and is_sensitive(found[1]) else line


def _shown_role(role: Mapping[str, Any], request: SlurmRequest) -> dict[str, Any]:
    shown = {
        "name": role["name"],
        "retries": f"{role['retries']} ({role['policy'].lower()})" if role["retries"] else None,
        "rules": request.app["order"].get(role["name"]),
        "srun": shlex.join(role["srun"]),
    }
    secrets = request.secrets.get(role["name"], {})
    replicas = [_shown_replica(each, secrets) for each in role["replicas"]]
    return {
        **{name: value for name, value in shown.items() if value is not None},
        **{
            f"replica {first}" if first == last else f"replicas {first} to {last}": replicas[first]
            for first, last in alike(replicas)
        },
    }


def _shown_replica(replica: Mapping[str, Any], secrets: Mapping[str, Secret]) -> dict[str, Any]:
    env = {
        name: _named(hide(value, name))
        for name, value in replica["env"].items()
        if name not in _OURS and not (name == RANK0_ENV or name.startswith(HOST_VARIABLES))
    }
    env |= {name: shown_value(name, value) for name, value in secrets.items()}
    shown = {"command": [_named(arg) for arg in hide(replica["argv"])]}
    return {**shown, "env": dict(sorted(env.items()))} if env else shown
