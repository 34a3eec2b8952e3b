"""P2: validate and compile 1,000 files of 60 lines in one process; plan 1,000 jobs against a long ledger."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.benchmarks.ledger import fill
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.world import launcher, long_job, took, world
from tests.github.fake import REPOSITORY, FakeGitHub
from tests.github.repository import Repository, git


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        jobs = folder / "jobs"
        jobs.mkdir()
        files = [jobs / f"job-{number}.launcher.yaml" for number in range(settings.size(1000))]
        for file in files:
            file.write_text(long_job(file.name.partition(".")[0]))
        yield compare(
            f"compile {len(files)} files, one process, per file",
            floor=lambda: _floor(files) / len(files),
            ours=lambda: compile_all(files) / len(files),
            peers={"ruamel safe loader": lambda: _ruamel(files[:100]) / len(files[:100])},
            target="<= 1.5 ms",
            rounds=settings.fewer(3),
        )
        attempts = settings.size(10_000)
        fill(attempts)
        yield compare(
            f"plan of {len(files)} jobs, {attempts} attempts in the ledger; floor: validate them",
            floor=lambda: took(launcher("validate", "jobs", "--no-cache")),
            ours=lambda: took(launcher("plan", "jobs", "--no-cache")),
            target="<= 2",
            rounds=settings.fewer(3),
        )
        yield from _review(folder / "review", files, settings)
        _write_inputs(folder / "same", files)
        yield compare(
            f"plan of {len(files)} jobs with the same 50 inputs; floor: without inputs",
            floor=lambda: took(launcher("plan", "jobs", "--no-cache")),
            ours=lambda: took(launcher("plan", "same", "--no-cache")),
            target="<= 1.15",
            rounds=settings.fewer(5),
        )


def _review(folder: Path, files: Sequence[Path], settings: Settings) -> Iterator[Row]:
    """The plan of a pull request that adds all of the files, with its comment and its check runs."""
    with FakeGitHub() as github, pytest.MonkeyPatch.context() as env:
        folder.mkdir()
        repository = Repository(folder, github, Path(os.environ["LAUNCHER_HOME"]))
        head = repository.pull_request(1, {file.name: file.read_text() for file in files})
        work = folder / "work"
        git(work, "checkout", "-q", head)
        base = {"sha": git(work, "rev-parse", "main"), "ref": "main"}
        pull = {"number": 1, "head": {"sha": head, "repo": {"full_name": REPOSITORY}}, "base": base}
        event = folder / "event.json"
        event.write_text(json.dumps({"repository": {"default_branch": "main"}, "pull_request": pull}))
        env.chdir(work)
        yield compare(
            f"ci plan of a pull request that adds {len(files)} jobs; floor: plan",
            floor=lambda: took(launcher("plan", ".", "--no-cache")),
            ours=lambda: took(
                ["env", *_variables(github.url, head, event), *launcher("ci", "plan", "--no-cache")]
            ),
            target="<= 2",
            rounds=settings.fewer(3),
        )


def _variables(url: str, sha: str, event: Path) -> list[str]:
    values = {
        "ACTIONS": "true",
        "EVENT_NAME": "pull_request",
        "EVENT_PATH": str(event),
        "REPOSITORY": REPOSITORY,
        "SHA": sha,
        "API_URL": url,
        "TOKEN": "token",
    }
    return [f"GITHUB_{name}={value}" for name, value in values.items()]


def _write_inputs(folder: Path, files: Sequence[Path]) -> None:
    """The same jobs, each of which names a program and a folder of configuration as its inputs."""
    (folder / "conf" / "deep").mkdir(parents=True)
    for number in range(49):
        (folder / "conf" / "deep" / f"{number}.yaml").write_text(f"rate: {number}\n" * 200)
    (folder / "train.py").write_text("print(1)\n" * 500)
    for file in files:
        text = f'{file.read_text()}inputs: [train.py, "conf/**/*.yaml"]\n'
        (folder / file.name).write_text(text)


def compile_all(files: Sequence[Path]) -> float:
    """Seconds for compiling job files that are right, each of one job."""
    from launcher.jobfile import compile_files

    started = time.perf_counter()
    compiled = compile_files([str(file) for file in files])
    elapsed = time.perf_counter() - started
    if compiled.diagnostics or len(compiled.launches) != len(files):
        raise SystemExit(f"the benchmark's job files are wrong: {compiled.diagnostics[:3]}")
    return elapsed


def _floor(files: Sequence[Path]) -> float:
    """The C parser's events into plain values, those into strict pydantic models; nothing is placed."""
    model = _floor_model()
    started = time.perf_counter()
    for file in files:
        model.model_validate(_values(file.read_bytes()))
    return time.perf_counter() - started


def _values(text: bytes) -> Any:
    from ruamel.yaml.cyaml import CParser
    from ruamel.yaml.events import (
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    parser = CParser(text)
    stack: list[Any] = [[]]
    while parser.check_event():
        event = parser.get_event()
        if isinstance(event, ScalarEvent):
            stack[-1].append(event.value)
        elif isinstance(event, SequenceStartEvent | MappingStartEvent):
            stack.append([])
        elif isinstance(event, SequenceEndEvent):
            stack[-2].append(stack.pop())
        elif isinstance(event, MappingEndEvent):
            flat = stack.pop()
            stack[-1].append(dict(zip(flat[::2], flat[1::2], strict=True)))
    return stack[0][0]


def _floor_model() -> Any:
    from pydantic import BaseModel, ConfigDict, Field

    class Model(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")

    class Role(Model):
        entrypoint: str
        args: list[str] = Field(default=[])
        env: dict[str, str] = Field(default={})
        num_replicas: str = "1"
        max_retries: str = "0"
        retry_policy: Literal["application", "replica"] = "application"
        resource: dict[str, str] = Field(default={})
        port_map: dict[str, str] = Field(default={})
        metadata: dict[str, str] = Field(default={})

    class Job(Model):
        version: str
        name: str
        description: str = ""
        vars: dict[str, dict[str, Any]] = Field(default={})
        scheduler: str = ""
        cfg: dict[str, Any] = Field(default={})
        roles: dict[str, Role]
        metadata: dict[str, str] = Field(default={})
        timeout: str = ""
        lifecycle: dict[str, str] = Field(default={})
        enabled: str = "true"

    return Job


def _ruamel(files: Sequence[Path]) -> float:
    from ruamel.yaml import YAML

    started = time.perf_counter()
    for file in files:
        YAML(typ="safe").load(file)
    return time.perf_counter() - started
