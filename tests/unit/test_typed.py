"""A program that uses the public API passes the strictest type check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_consumer_of_the_public_api_is_typed(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", f"--cache-dir={os.devnull}"]
    argv += ["--config-file=", str(ROOT / "tests" / "consumer" / "launch.py")]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
