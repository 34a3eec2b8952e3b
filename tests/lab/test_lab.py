"""The jobs of a lab, in 40 whole files and in fewer that share: equal documents, needs and policies.

`shared` has a launcher.toml, parents, several jobs in one file, and matrices that name their jobs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.jobfile import Environment, compile_files, render
from launcher.jobfile.text.document import Source, read_source
from launcher.jobfile.text.parse import parse
from launcher.schedulers.registry import SchedulerRules
from launcher.specs import Launch, digest, document
from tests.lanes import thinned
from tests.unit.jobfile.words import git

FOLDER = Path(__file__).resolve().parent
TARGETS = {None: 104, "dev": 46, "docker": 104, "slurm": 100}
"""Target → the number of jobs that have it; None is the files without an overlay."""
SCHEDULERS = SchedulerRules()


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `long` and `shared`, each a repository."""
    folder = tmp_path_factory.mktemp("lab")
    for name in ("long", "shared"):
        shutil.copytree(FOLDER / name, folder / name)
        git(folder / name, "init", "-q")
    return folder


def launches(tree: Path, target: str | None, *files: str) -> dict[str, Launch]:
    """Return the launches of a tree, or of some of its files, by job. There is nothing to warn of."""
    environment = Environment(
        schedulers=SCHEDULERS, rules=SCHEDULERS.problems, reach=SCHEDULERS.unreadable, cwd=str(tree),
        environ={},
    )  # fmt: skip
    result = compile_files(list(files) or ["."], target=target, environment=environment)
    assert result.diagnostics == (), render(result.diagnostics)
    return {launch.key.job: launch for launch in result.launches}


def facts(launch: Launch) -> dict[str, Any]:
    """Return all fields that a plan reads, without the names of the file and of its matrix."""
    app = launch.app
    names = "timeout_s workspace lifecycle needs max_parallel caps inputs inputs_digest trigger_digest"
    return {
        "key": launch.key, "digest": digest(document(launch)), "document": document(launch),
        "scheduler": launch.scheduler, "cfg": dict(launch.cfg),
        "folder": Path(launch.directory).relative_to(launch.root),
        "about": (launch.enabled, launch.description, dict(app.metadata), app.output, launch.unresolved),
        **{name: getattr(launch, name) for name in names.split()},
    }  # fmt: skip


def all_facts(tree: Path, target: str | None, *files: str) -> dict[str, dict[str, Any]]:
    return {job: facts(launch) for job, launch in launches(tree, target, *files).items()}


@pytest.mark.slow
@pytest.mark.parametrize("target", thinned([*TARGETS], every=2))
def test_job_files_that_share_parts_mean_the_same_as_whole_files(trees: Path, target: str | None) -> None:
    long, shared = all_facts(trees / "long", target), all_facts(trees / "shared", target)
    assert len(long) == TARGETS[target]
    assert shared.keys() == long.keys()
    for job in long:
        assert shared[job] == long[job], job


def lines_of(tree: str) -> int:
    """Return the lines of all job files and of launcher.toml."""
    files = (*(FOLDER / tree).rglob("*.yaml"), *(FOLDER / tree).rglob("*.toml"))
    return sum(len(file.read_text().splitlines()) for file in files)


def test_sharing_removes_three_fifths_of_the_lines() -> None:
    long, shared = lines_of("long"), lines_of("shared")
    print(f"{long} lines, {shared} with sharing: {1 - shared / long:.0%} less")
    assert len([*(FOLDER / "long").rglob("*.launcher.*")]) == 40
    assert 1900 <= long <= 2000
    assert shared <= 0.4 * long


# A job in a file with others, and in a file of its own


def read(file: Path) -> dict[str, Any]:
    source = read_source(file.name, str(file))
    assert isinstance(source, Source)
    value = parse(source).value
    assert value is not None
    return value


def write(file: Path, value: Mapping[str, Any]) -> None:
    """Write the job file as JSON, which is YAML."""
    file.write_text(json.dumps(value))


def files_of_several(tree: Path) -> Iterator[Path]:
    for file in sorted(tree.rglob("*.launcher.*")):
        if "jobs" in read(file):
            yield file


@pytest.mark.slow
@pytest.mark.parametrize("target", thinned([*TARGETS], first=1, every=2))
def test_jobs_of_one_file_compile_to_the_same_in_separate_files(trees, tmp_path, target):
    shutil.copytree(trees / "shared", tmp_path / "apart")
    several = [*files_of_several(tmp_path / "apart")]
    assert len(several) >= 5
    for file in several:
        whole = read(file)
        jobs = whole.pop("jobs")
        write(file.with_name("top.launcher.yaml"), {**whole, "abstract": True})
        for name, job in jobs.items():
            alone = {"version": 1, "name": name, "extends": "top.launcher.yaml", **job}
            write(file.with_name(f"{name}.launcher.yaml"), alone)
        file.unlink()
    assert all_facts(tmp_path / "apart", target) == all_facts(trees / "shared", target)


@pytest.mark.slow
@pytest.mark.parametrize("target", thinned([*TARGETS], every=2))
def test_jobs_of_one_folder_compile_to_the_same_in_one_file(trees, tmp_path, target):
    shutil.copytree(trees / "long", tmp_path / "joined")
    for folder in {file.parent for file in (tmp_path / "joined").rglob("*.launcher.*")}:
        jobs = {}
        for file in sorted(folder.glob("*.launcher.*")):
            job = read(file)
            del job["version"]
            jobs[job.pop("name")] = job
            file.unlink()
        write(folder / "all.launcher.yaml", {"version": 1, "jobs": jobs})
    assert all_facts(tmp_path / "joined", target) == all_facts(trees / "long", target)
