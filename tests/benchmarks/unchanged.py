"""P15: commands on job files that have not changed, against a bare interpreter; and the cost of a change."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher import load_jobs, make_plan
from launcher.paths import make_token
from launcher.schedulers.registry import open_store
from tests.benchmarks.measure import Row, Settings, compare
from tests.benchmarks.start import PASS
from tests.benchmarks.world import job, launcher, long_job, matrix, took, world
from tests.unit.state.attempts import attempt


def rows(settings: Settings) -> Iterator[Row]:
    with world() as folder:
        (folder / "done.launcher.yaml").write_text(job("done", "echo hello"))
        took(launcher("apply", "done.launcher.yaml", "--yes", "--wait"))
        for command in ("validate", "plan"):
            yield compare(
                f"launcher {command} of an unchanged file",
                floor=lambda: took(PASS),
                ours=lambda command=command: took(launcher(command, "done.launcher.yaml")),
                target="<= 5",
                rounds=settings.more(3),
            )
        yield _miss("one changed file", ["validate", "done.launcher.yaml"], folder, settings.more(3))
        jobs = folder / "jobs"
        jobs.mkdir()
        count = settings.size(1000)
        for number in range(count):
            (jobs / f"job-{number}.launcher.yaml").write_text(long_job(f"job-{number}"))
        yield _per_file(["validate", "jobs"], count, "<= 0.3 ms", settings)
        yield _per_file(["plan", "jobs"], count, "none, for jobs that have never run", settings)
        _succeed(str(jobs))
        yield _per_file(["plan", "jobs"], count, "<= 0.3 ms", settings)
        yield _miss(f"{count} files, one changed", ["validate", "jobs"], folder, settings.fewer(5))
        yield from _matrix(settings)


def _matrix(settings: Settings) -> Iterator[Row]:
    """Plans and statuses of the jobs of one file, which have all succeeded."""
    count = settings.size(10_000)
    _succeed(matrix("sweep", count, "entrypoint: 'true'"))
    for argv in (["plan", "sweep.launcher.yaml"], ["status", "sweep"]):
        for form in ([], ["--json"]):
            yield compare(
                f"launcher {' '.join([argv[0], *form])} of {count:,} succeeded jobs",
                floor=lambda: took(PASS),
                ours=lambda words=(*argv, *form): took(launcher(*words)),
                target="<= 1 s",
                rounds=settings.fewer(5),
            )


def _succeed(files: str) -> None:
    """Record a success of each job, as if it had run."""
    ended = {"state": "succeeded", "exit_code": 0, "home": make_token()}
    ended |= {"created_at": 1.0, "started_at": 2.0, "ended_at": 3.0}
    made = []
    for step in make_plan(load_jobs(files)).steps:
        if step.launch is not None:
            of_job = {
                "scheduler": step.launch.scheduler,
                "origin": step.launch.origin,
                "path": step.launch.file,
            }
            of_job |= {"digest": step.digest, "document": dict(step.document), "matrix": step.launch.matrix}
            made.append(attempt(step.key, **of_job, **ended))
    with open_store() as store:
        store.record_all(made)


def _per_file(argv: Sequence[str], count: int, target: str, settings: Settings) -> Row:
    return compare(
        f"launcher {argv[0]} of {count} unchanged files, per file; floor: compiled",
        floor=lambda: took(launcher(*argv, "--no-cache")) / count,
        ours=lambda: took(launcher(*argv)) / count,
        target=target,
        rounds=settings.fewer(5),
    )


def _miss(what: str, argv: Sequence[str], folder: Path, rounds: int) -> Row:
    """A command that finds nothing kept, and keeps its outcome."""

    def missed() -> float:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return took(launcher(*argv))

    return compare(
        f"launcher {argv[0]} of {what}; floor: --no-cache",
        floor=lambda: took(launcher(*argv, "--no-cache")),
        ours=missed,
        target="<= 1.05",
        rounds=rounds,
    )
