"""References to the output folders of other jobs that lead nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from launcher.jobfile.compile.needs import Names
from launcher.jobfile.compile.neighbours import Neighbours
from launcher.jobfile.compile.trace import Trace
from launcher.jobfile.diagnostics.diagnostic import Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.text.document import Path
from launcher.specs import JobKey, Launch
from launcher.specs.needs import Need

Reach = Callable[[str, str], str]
"""(scheduler of a job, scheduler of one that it needs) → why it cannot read that one's output, or ""."""


def out_of_reach(
    launches: Sequence[Launch],
    traces: Mapping[JobKey, Trace],
    reach: Reach | None,
    neighbours: Neighbours | None = None,
) -> Iterator[tuple[Launch, Diagnostic]]:
    """An error for each reference to the folder of a matrix, or of a job on an engine out of reach.

    Of needs that none of the launches declares, the scheduler is not known. The jobs of one matrix have one
    error for each place in their file.

    Args:
        launches: with their needs as their files have them.
        reach: None where schedulers are unknown.
        neighbours: knows the matrices of other files.
    """
    names = Names(launches)
    seen: set[tuple[str, str, Path, str]] = set()
    for launch in launches:
        trace = traces[launch.key]
        for job, path, written in trace.outputs:
            place = (launch.root, launch.file, path, written)
            if place in seen:
                continue
            seen.add(place)
            needed = next((launches[index] for index in names.of(launch, Need(job))), None)
            problems = Collector(trace.document)
            if needed is None:
                declared = neighbours.of(launch) if neighbours is not None else ()
                if any(each.name == job and job not in each.jobs for each in declared):
                    _note_matrix(job, path, written, problems)
            elif needed.key.job != job:
                _note_matrix(job, path, written, problems)
            elif reach is not None and (why := reach(launch.scheduler, needed.scheduler)):
                message = f"`{written}`: {needed.scheduler} keeps the output folder of `{job}`, and {why}"
                label = f"run it and `{job}` on one engine"
                problems.add(path, "needs-across-engines", message, label=label, part=written)
            yield from ((launch, found) for found in problems.found)


def _note_matrix(name: str, path: Path, written: str, problems: Collector) -> None:
    message = f"`{written}`: `{name}` is a matrix, and each of its jobs has a folder of its own"
    hint = "the variable LAUNCHER_NEEDS lists each job that this one needs with its output folder, as JSON"
    problems.add(path, "unknown-reference", message, label="read LAUNCHER_NEEDS", hint=hint, part=written)
