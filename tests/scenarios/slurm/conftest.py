"""Scenarios on a Slurm cluster: the same words, other apps."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engines.slurm import OwnCluster, SlurmCluster
from tests.slurm_scenario import SlurmScenario


@pytest.fixture
def scenario(tmp_path: Path, launcher_home: Path, slurm: SlurmCluster) -> Iterator[SlurmScenario]:
    """A scenario on the cluster that tests share."""
    work = tmp_path / "w"
    work.mkdir()
    with SlurmScenario(work, launcher_home, slurm) as words:
        yield words


@pytest.fixture
def calls_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A function that lets a command of Slurm note the options of each call in the returned file."""

    def noted(name: str) -> Path:
        log, program = tmp_path / f"{name}.log", tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        log.touch()
        program.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return log

    return noted


@pytest.fixture
def there(launcher_home: Path, slurm_ssh: SlurmCluster) -> Iterator[SlurmScenario]:
    """A scenario on the cluster that only ssh reaches, in a folder that both sides see."""
    with SlurmScenario(slurm_ssh.shared, launcher_home, slurm_ssh) as words:
        yield words


@pytest.fixture
def broken(
    tmp_path: Path, launcher_home: Path, own_slurm: Callable[..., OwnCluster]
) -> Iterator[Callable[..., SlurmScenario]]:
    """A function that starts a scenario on a cluster that it may break: options of `slurm up`."""
    with ExitStack() as stack:

        def start(*options: str) -> SlurmScenario:
            work = tmp_path / "w"
            work.mkdir()
            cluster = own_slurm(*options)
            return stack.enter_context(SlurmScenario(work, launcher_home, cluster))

        yield start
