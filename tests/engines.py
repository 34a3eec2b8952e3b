"""What a test may need besides Python. Tests use what is there; LAUNCHER_REQUIRE makes a skip a failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest


def _command(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"there is no `{name}` command"


PROBES: dict[str, Callable[[], str]] = {
    "local": lambda: "" if hasattr(os, "pidfd_open") else "this system has no pidfd",
    "git": _command("git"),
}
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
    """The engines that LAUNCHER_REQUIRE names, comma-separated. Raises UsageError on an unknown name."""
    names = frozenset(
        filter(None, (name.strip() for name in os.environ.get("LAUNCHER_REQUIRE", "").split(",")))
    )
    unknown = sorted(names - PROBES.keys())
    if unknown:
        raise pytest.UsageError(
            f"LAUNCHER_REQUIRE: unknown {', '.join(unknown)}; known: {', '.join(sorted(PROBES))}"
        )
    return names
