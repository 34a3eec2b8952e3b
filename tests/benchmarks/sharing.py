"""P2: validate and plan 1,000 files of 60 lines with two parents and a launcher.toml, beside whole files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.plan import compile_all
from tests.benchmarks.world import launcher, long_job, took, world

PARENTS = {
    "launcher.toml": """\
[vars]
root = {type = "str", default = "/data"}
unused = {type = "str"}

[defaults]
timeout = "2h"
metadata = {cost_centre = "rd-4711"}

[defaults.role.env]
DATA_ROOT = "$<var.root>"

[targets.cluster]
scheduler = "local_dir"
""",
    "base.launcher.yaml": """\
version: 1
abstract: true
defaults:
  role:
    env: {HF_HOME: $<var.root>/hf}
    resource: {memory: 2GiB}
metadata: {team: nlp}
""",
    "train.launcher.toml": """\
version = 1
abstract = true
extends = "base.launcher.yaml"

[roles.trainer]
max_retries = 1
retry_policy = "replica"

[roles.evaluator]
max_retries = 1
""",
}
"""launcher.toml, and two parents in both formats."""


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        names = [f"job-{number}" for number in range(settings.size(1000))]
        whole, shared = _write(folder / "whole", names), _write(folder / "shared", names, shares=True)
        yield compare(
            f"compile {len(names)} files with two parents, one process, per file; floor: without",
            floor=lambda: compile_all(whole) / len(names),
            ours=lambda: compile_all(shared) / len(names),
            target="<= 1.5 ms",
            rounds=settings.fewer(3),
        )
        for command in ("validate", "plan"):
            yield compare(
                f"{command} of {len(names)} files with two parents; floor: without",
                floor=lambda command=command: took(launcher(command, "whole", "--no-cache")),  # type: ignore[misc]
                ours=lambda command=command: took(launcher(command, "shared/jobs", "--no-cache")),  # type: ignore[misc]
                target="<= 1.5",
                rounds=settings.fewer(3),
            )


def _write(folder: Path, names: Sequence[str], *, shares: bool = False) -> list[Path]:
    """Write one job file of 60 lines for each name; with `shares` they extend a parent."""
    jobs = folder / "jobs"
    jobs.mkdir(parents=True)
    for file, text in PARENTS.items() if shares else ():
        (folder / file).write_text(text)
    files = [jobs / f"{name}.launcher.yaml" for name in names]
    for name, file in zip(names, files, strict=True):
        first, _, rest = long_job(name).partition("\n")
        file.write_text(f"{'extends: ../train.launcher.toml' if shares else first}\n{rest}")
    return files
