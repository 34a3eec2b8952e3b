"""The text of a batch script. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from launcher.text import printable

PROGRAM = "app.zip"
"""The file in the folder of an app that Python runs on the nodes: see `program.py`."""

_CONDUCT = f'exec python3 -I -S "$LAUNCHER_APP_DIR/{PROGRAM}" conduct "$LAUNCHER_APP_DIR"'
_QUOTED_BY_SBATCH = re.compile(r"""[\s#'"\\]""")


def batch_script(
    options: Mapping[str, str], app_dir: str, setup: Sequence[str], commands: Mapping[str, str]
) -> str:
    """A script for sbatch.

    Args:
        options: long option of sbatch → value; "" for one without a value.
        app_dir: of the app on the cluster; a leading `~` is the home there.
        setup: lines of bash.
        commands: role → its command line, for people.
    """
    head = [f"#SBATCH --{sbatch_word(name, value)}" for name, value in options.items()]
    comments = [f"# {printable(role)}: {printable(command)}" for role, command in commands.items()]
    lines = [
        "#!/bin/bash",
        *head,
        "",
        f"export LAUNCHER_APP_DIR={in_double_quotes(app_dir)}",
        *_setup(setup),
        "",
        "# The replicas, which the conductor starts by srun with the arguments and variables of app.json:",
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
    """`name=value` as the reader of #SBATCH lines takes it apart.

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
