"""The batch scripts: of one app, and of an array of apps. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from launcher.schedulers.replica_request import binder
from launcher.schedulers.slurm.rules import MARK
from launcher.specs.macros import SYMBOLIC_APP_ID
from launcher.text import printable

_PROGRAM = f"{MARK}program{MARK}"
_CONDUCT = 'exec python3 -I -S "$LAUNCHER_PROGRAM" conduct "$LAUNCHER_APP_DIR"'
_QUOTED_BY_SBATCH = re.compile(r"""[\s#'"\\]""")


def batch_script(
    options: Mapping[str, str], job_dir: str, setup: Sequence[str], commands: Mapping[str, str]
) -> str:
    """A script for sbatch.

    Args:
        options: long option of sbatch → value; "" for one without a value.
        job_dir: the folder on the cluster, without a slash at its end; a leading `~` is the home there.
        setup: lines of bash.
        commands: role → its command line, shown to readers of the script.
    """
    comments = [
        "# The replicas, which the conductor starts by srun with the arguments and variables of app.json:",
        *(f"# {printable(role)}: {printable(command)}" for role, command in commands.items()),
    ]
    app_dir = f"export LAUNCHER_APP_DIR={in_double_quotes(f'{job_dir}/apps/{SYMBOLIC_APP_ID}')}"
    return _script(options, job_dir, [app_dir], setup, comments)


class Array(NamedTuple):
    """An array. name: its folder's name; size: its number of tasks; at_once: how many may run at once."""

    name: str
    size: int
    at_once: int | None


def with_program(script: str, program: str) -> str:
    """The script with the name of the file that Python runs on the nodes, in the folder `programs`."""
    return script.replace(_PROGRAM, program)


def array_script(
    options: Mapping[str, str], job_dir: str, setup: Sequence[str], array: Array, program: str
) -> str:
    """A script for sbatch that runs an app in each task of an array.

    Args:
        options, job_dir, setup: see `batch_script`; the same for each of the apps.
        program: see `with_program`.
    """
    name, size, at_once = array
    tasks = f"0-{size - 1}" + (f"%{at_once}" if at_once is not None and at_once < size else "")
    options = {**options, "job-name": f"launcher-{name}", "output": "%a/slurm.out", "array": tasks}
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
    script = _script(options, job_dir, find, setup, [comment])
    return with_program(str(binder("")(script)), program)


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
        "trap '' USR1  # Slurm's signal before the time limit is for the conductor",
        *find,
        f"export LAUNCHER_PROGRAM={in_double_quotes(f'{job_dir}/programs/{_PROGRAM}')}",
        *_setup(setup),
        "",
        *comments,
        _CONDUCT,
    ]
    return "\n".join(lines) + "\n"


def _setup(lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    # Subshells inherit the trap; codes above 128 are signals, whose cause Slurm knows.
    failed = (
        f"trap 'code=$?; [ $BASHPID != $$ ] || [ $code -gt 128 ] || {_CONDUCT} $code \"$BASH_COMMAND\"' ERR"
    )
    return [
        "",
        "# setup: the first line that fails ends the job",
        "set -eE",
        failed,
        *lines,
        "trap - ERR",
        "set +eE",
    ]


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
