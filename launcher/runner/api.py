"""The import path of the Runner in TorchX, for programs written for it."""

from __future__ import annotations

from launcher.runner.factory import get_runner
from launcher.runner.runner import Runner
from launcher.specs.app import NONE

__all__ = ["NONE", "Runner", "get_runner"]
