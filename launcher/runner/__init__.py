"""Run one app on a scheduler and control it: `get_runner()` returns a Runner."""

from __future__ import annotations

from launcher.runner.api import get_runner
from launcher.runner.runner import InvalidAppException, Runner

__all__ = ["InvalidAppException", "Runner", "get_runner"]
