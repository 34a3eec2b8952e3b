"""The import path under which the Runner is known to programs that come from elsewhere."""

from __future__ import annotations

from launcher.runner.factory import get_runner
from launcher.runner.runner import Runner
from launcher.specs.app import NONE

__all__ = ["NONE", "Runner", "get_runner"]
