"""Fixtures that tests of several packages share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The folder of tickets of a machine."""
    folder = tmp_path / "table"
    folder.mkdir()
    return str(folder)


@pytest.fixture
def gpu_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`gpu_driver(NAME, …)` puts an nvidia-smi for these GPUs on PATH, and returns the file of its calls."""

    def install(*names: str) -> Path:
        asked, tool = tmp_path / "asked", tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir()
        lines = "\n".join(f"GPU {at}: {name} (UUID: GPU-{at})" for at, name in enumerate(names))
        tool.write_text(f"#!/bin/sh\necho >>{asked}\necho '{lines}'\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
        return asked

    return install
