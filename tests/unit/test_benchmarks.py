"""The benchmarks run to their end; their measurements are not judged here."""

import subprocess
import sys

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.measure import compare, table
from tests.engines import require


@pytest.mark.slow
@pytest.mark.timeout(600)  # on a machine that runs other tests beside, and an engine
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_short_run_of_each_benchmark_succeeds(name):
    if name == "slurm":
        require("slurm")
    command = [sys.executable, "-m", "tests.benchmarks", name, "--rounds", "1", "--scale", "0.01"]
    got = subprocess.run(command, capture_output=True, text=True, check=False)
    assert got.returncode == 0, got.stdout + got.stderr
    assert "ours / floor" in got.stdout


def test_the_ratio_is_taken_round_by_round():
    """A machine that slows down in the middle of a run slows both: the paired ratio stays the same."""
    floors = iter([9.0, 1.0, 2.0, 4.0])
    ours = iter([9.0, 3.0, 6.0, 12.0])
    row = compare("x", floor=lambda: next(floors), ours=lambda: next(ours), target="", rounds=3)
    assert row.ratio == (3.0, 3.0, 3.0)
    assert (row.floor, row.ours) == (2.0, 6.0)
    assert "3.00" in table([row])
