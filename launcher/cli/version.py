"""`launcher version`: print versions and paths, for bug reports."""

from __future__ import annotations

import os
import sys
from json import loads
from typing import Any

from launcher import __version__, git, paths
from launcher.cli.console import Console
from launcher.errors import LauncherError

USAGE = "version [--json]"
HELP = """\
Print the versions of launcher and Python, and the path of the state folder.
The commit too, in a checkout of launcher or where pip has installed one."""
EXAMPLES = "  launcher version          for a bug report\n  launcher --version        one line, fast"


def add_arguments(parser: Any) -> None:
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    system = os.uname()
    facts = {
        "launcher": __version__,
        "commit": _commit() or None,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "system": f"{system.sysname} {system.release} {system.machine}",
        "home": paths.home(),
    }
    if args.json:
        console.json(facts, ascii=True)
    else:
        for name, value in facts.items():
            if value is None:
                continue
            console.print(f"{name} {value}" if name == "launcher" else f"{name:<11} {value}")
    return 0


def _commit() -> str:
    """The commit of the checkout that this package is in, else the one that was installed; "" for neither."""
    try:
        tree = git.repository(paths.IMPORT_ROOT)
        # Only launcher's own repository counts: a virtual environment may lie in any other one.
        if tree is not None and os.path.samefile(tree.root, paths.IMPORT_ROOT):
            return tree.commit()
    except (OSError, LauncherError):
        pass
    return _installed_commit()


def _installed_commit() -> str:
    """The commit in `direct_url.json`, which installers write for an install from version control.

    Source: packaging.python.org, "Recording the Direct URL Origin of installed distributions".
    """
    name = f"launcher_jobs-{__version__}.dist-info"
    try:
        with open(os.path.join(paths.IMPORT_ROOT, name, "direct_url.json"), encoding="utf-8") as file:
            return str(loads(file.read())["vcs_info"]["commit_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
