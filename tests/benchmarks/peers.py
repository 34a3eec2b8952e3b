"""Programs that a user would take instead of launcher. Installed into build/peers, and only with --peers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks.measure import Settings
from tests.benchmarks.world import ROOT, took

FOLDER = ROOT / "build" / "peers"
PACKAGES = ["torchx", "honcho"]


def install() -> None:
    """Make the virtual environment of the peers, once."""
    if (FOLDER / "bin" / "torchx").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    subprocess.run([str(FOLDER / "bin" / "pip"), "install", "-q", *PACKAGES], check=True)


def peer(settings: Settings, argv: Sequence[str]) -> Mapping[str, Callable[[], float]]:
    """Return the measurement of a peer's command line by its name; empty when it is unwanted or missing."""
    program = FOLDER / "bin" / argv[0]
    found = str(program) if program.exists() else shutil.which(argv[0])
    if not settings.peers or not found:
        return {}
    return {argv[0]: lambda: _without_our_path([found, *argv[1:]])}


def _without_our_path(argv: Sequence[str]) -> float:
    """The peers have an interpreter of their own; ours on PYTHONPATH would only slow it down."""
    kept = os.environ.pop("PYTHONPATH", None)
    try:
        return took(argv)
    finally:
        if kept is not None:
            os.environ["PYTHONPATH"] = kept
