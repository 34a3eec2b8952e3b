"""What the tests of the programs of a cluster share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.slurm import SlurmCluster
from tests.unit.slurm.agents import Login
from tests.unit.slurm.site import Site


@pytest.fixture
def login(slurm: SlurmCluster, tmp_path: Path) -> Login:
    """The agent of the cluster that tests share."""
    return Login(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The folder of an app, and its conductor."""
    made = Site(tmp_path)
    yield made
    made.close()
