"""Eight processes work on one state folder: each command does what it would do alone."""

import shutil

import pytest

from tests.soak import soak


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("flock"), reason="replicas tell each other apart with flock(1)")
def test_a_hundred_mixed_commands_from_eight_processes_keep_the_invariants(launcher_home, tmp_path):
    """`python -m tests.benchmarks many` runs a thousand commands."""
    assert soak(tmp_path / "jobs", launcher_home, operations=100, seed=1) == []
