"""Scenarios on a Slurm cluster: the same words, other apps."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engines.slurm import OwnCluster, SlurmCluster
from tests.slurm_scenario import SlurmScenario


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path, slurm: SlurmCluster) -> Iterator[SlurmScenario]:
    """The words of scenarios, on the cluster that tests share."""
    work = tmp_path / "w"
    work.mkdir()
    with SlurmScenario(work, launcher_home, slurm) as words:
        yield words


@pytest.fixture
def there(launcher_home: Path, slurm_ssh: SlurmCluster) -> Iterator[SlurmScenario]:
    """The words of scenarios, on the cluster that only ssh reaches, in a folder that both sides see."""
    with SlurmScenario(slurm_ssh.shared, launcher_home, slurm_ssh) as words:
        yield words


@pytest.fixture
def broken(
    tmp_path: Path, launcher_home: Path, own_slurm: Callable[..., OwnCluster]
) -> Iterator[Callable[..., SlurmScenario]]:
    """Starts a scenario on a cluster of its own, which it may break: options of `tests/engines/slurm up`."""
    with ExitStack() as stack:

        def start(*options: str) -> SlurmScenario:
            work = tmp_path / "w"
            work.mkdir()
            cluster = own_slurm(*options)
            return stack.enter_context(SlurmScenario(work, launcher_home, cluster))

        yield start
