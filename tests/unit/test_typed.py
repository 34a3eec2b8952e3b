"""A program and a scheduler that use the public API pass the strictest type check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["tests/consumer/launch.py", "examples/plugin-scheduler/launcher_procs.py"])
def test_a_consumer_of_the_public_api_is_typed(tmp_path: Path, file: str) -> None:
    argv = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"--cache-dir={os.devnull}"]
    argv += ["--config-file=", str(ROOT / file)]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
