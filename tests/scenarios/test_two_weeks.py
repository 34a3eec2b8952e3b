"""Two weeks of a project: each kind of edit of code, data, values and needs, planned, then applied or undone.

An oracle knows the true inputs of every job. After each edit the plan is right about every job: it runs again
when, and only when, something differs that its latest success stands on, and names edited code that it only
notes. Each replica logs what it really read.
"""

import copy
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import seeds

STEP = """
import json, os, sys

def main(name, files):
    needs = json.loads(os.environ.get("LAUNCHER_NEEDS", "[]"))
    line = {
        "job": os.environ["LAUNCHER_JOB_ID"].rpartition("/")[2].rsplit("-", 2)[0],
        "files": {file: open(file).read() for file in sorted(files)},
        "args": sys.argv[1:],
        "needs": {each["job"]: open(each["output_dir"] + "/out").read() for each in needs},
    }
    with open(os.environ["LAUNCHER_OUTPUT_DIR"] + "/out", "w") as out:
        out.write(str(hash_of(line)))
    with open(os.environ["RAN"], "a") as ran:
        ran.write(json.dumps(line) + "\\n")

def hash_of(line):
    import hashlib
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()[:12]
"""


@dataclass
class World:
    """The files of the project, as values."""

    data: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 2})
    code: dict[str, int] = field(
        default_factory=lambda: {"clean": 1, "train": 1, "report": 1, "helper": 1, "extra": 1}
    )
    rates: list[int] = field(default_factory=lambda: [3, 1, 2])
    word: str = "sum"
    report_needs: list[str] = field(default_factory=lambda: ["total"])
    imports: list[str] = field(default_factory=lambda: ["helper"])
    comment: int = 0

    def write(self, folder: Path) -> None:
        (folder / "data").mkdir(exist_ok=True)
        for old in (folder / "data").iterdir():
            if old.stem not in self.data:
                old.unlink()
        texts = {f"data/{name}.csv": f"{value}\n" for name, value in self.data.items()}
        texts |= {"step.py": STEP, "helper.py": self._comment("helper"), "extra.py": self._comment("extra")}
        reads = {
            "clean": "['data/' + each for each in os.listdir('data')] + ['clean.py']",
            "train": "['train.py']",
            "report": "['report.py']",
        }
        for name, files in reads.items():
            imports = [] if name != "report" else [f"import {each}" for each in self.imports]
            lines = [self._comment(name), "import os, step", *imports, f"step.main('{name}', {files})"]
            texts[f"{name}.py"] = "\n".join(lines) + "\n"
        texts |= {f"{name}.launcher.yaml": text for name, text in self._jobs().items()}
        for path, text in texts.items():
            if not (folder / path).exists() or (folder / path).read_text() != text:
                (folder / path).write_text(text)

    def _comment(self, name: str) -> str:
        return f"# version {self.code[name]}\n"

    def _jobs(self) -> dict[str, str]:
        head = f"version: 1  # {self.comment}\n"
        role = "roles:\n  main: {{entrypoint: python3, args: [{args}]}}\n"
        return {
            "clean": f"{head}name: clean\ninputs: ['data/*.csv', clean.py]\n{role.format(args='clean.py')}",
            "train": f"{head}name: train\nneeds: [clean]\ninputs: [train.py]\n"
            f"matrix: {{rate: {json.dumps(self.rates)}}}\n{role.format(args='train.py, $<matrix.rate>')}",
            "total": f"{head}name: total\nneeds: [train]\n"
            + role.format(args=f"-c, \"import step; step.main('total', [])\", {self.word}"),
            "report": f"{head}name: report\nneeds: {json.dumps(self.report_needs)}\n"
            + role.format(args="report.py"),
        }

    @property
    def jobs(self) -> dict[str, list[str]]:
        """Return the needs of each job; a job comes after the jobs that it needs."""
        trains = [f"train-{rate}" for rate in self.rates]
        needs = {name: trains if name == "train" else [name] for name in ("clean", "train", "total")}
        return {
            "clean": [], **{name: ["clean"] for name in trains}, "total": trains,
            "report": [job for need in self.report_needs for job in needs[need]],
        }  # fmt: skip

    def own(self, job: str) -> Any:
        """Return the job's own part of the inputs of its results: document and input files."""
        if job == "clean":
            return self.data, self.code["clean"]
        if job.startswith("train-"):
            return job, self.code["train"]
        return self.word if job == "total" else ""

    @property
    def seen_by_report(self) -> dict[str, int]:
        return {name: self.code[name] for name in ("report", *self.imports)} | {"": len(self.imports)}


class Oracle:
    """The latest success of each job: its inputs, with an edition for each success that changed them."""

    def __init__(self) -> None:
        self.stood_on: dict[str, Any] = {}
        self.edition: dict[str, int] = {}
        self.seen: dict[str, int] = {}

    def due(self, world: World, asked: str = "") -> list[str]:
        """Return the jobs that have to run, in order; records them as run."""
        found = []
        for job, needs in world.jobs.items():
            now = copy.deepcopy((world.own(job), {need: self.edition[need] for need in needs}))
            if self.stood_on.get(job) != now:
                self.edition[job] = self.edition.get(job, 0) + 1
            elif job != asked:
                continue
            self.stood_on[job] = now
            found.append(job)
            if job == "report":
                self.seen = world.seen_by_report
        return found


def edits(world: World, rng: random.Random) -> dict[str, Callable[[], object]]:
    """Return the edits, each of which changes the world in one way."""

    def bump(values: dict[str, int], name: str) -> None:
        values[name] = rng.randrange(10**6)

    fresh = rng.randrange(4, 1000)
    return {
        "edit a data file": lambda: bump(world.data, rng.choice(sorted(world.data))),
        "add a data file": lambda: bump(world.data, f"x{fresh}"),
        "remove a data file": lambda: len(world.data) > 1 and world.data.popitem(),
        **{f"edit {name}.py": lambda name=name: bump(world.code, name) for name in sorted(world.code)},
        "grow the matrix": lambda: fresh not in world.rates and world.rates.append(fresh),
        "shrink the matrix": lambda: len(world.rates) > 1 and world.rates.pop(0),
        "change every value": lambda: setattr(world, "rates", [fresh + each for each in range(3)]),
        "reorder the values": lambda: rng.shuffle(world.rates),
        "change an argument": lambda: setattr(world, "word", f"w{fresh}"),
        "add or remove a need": lambda: setattr(
            world, "report_needs", rng.choice([["total"], ["total", "clean"], ["total", "train"]])
        ),
        "change the imports": lambda: setattr(
            world, "imports", rng.choice([["helper"], ["helper", "extra"]])
        ),
        "edit a comment": lambda: setattr(world, "comment", fresh),
        "nothing": lambda: None,
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(1))
def test_every_plan_of_two_weeks_is_right_about_every_job(scenario, seed, monkeypatch):
    rng, world, oracle = random.Random(seed), World(), Oracle()
    ran = scenario.folder.parent / "ran"
    monkeypatch.setenv("RAN", str(ran))
    before: list[World] = []
    kinds = [*sorted(edits(world, rng)), "revert", "revert"]
    rng.shuffle(kinds)
    for number, done in enumerate(["begin", *kinds]):
        applied = copy.deepcopy(world)
        if done == "revert":
            world = copy.deepcopy(before[-2 % len(before)])
        elif before:
            edits(world, rng)[done]()
        world.write(scenario.folder)
        if rng.random() < 0.2:
            os.utime(scenario.folder / rng.choice(["train.py", "data", "report.py"]))
        edited = bool(oracle.seen) and oracle.seen != world.seen_by_report
        asked = "report" if edited and rng.random() < 0.5 else ""
        rerun = ["--rerun", asked] if asked else []
        steps = {each["key"]["job"]: each for each in scenario.plan_document(".", *rerun)["jobs"]}
        is_undone = bool(before) and rng.random() < 0.5
        due = (copy.deepcopy(oracle) if is_undone else oracle).due(world, asked)
        about = f"seed {seed}, edit {number}: {done}"
        acting = {job for job, step in steps.items() if step["action"] != "keep"}
        assert (acting, steps.keys()) == (set(due), world.jobs.keys()), about
        assert bool(steps["report"].get("edited")) == edited, about
        if is_undone:  # the plan of the next edit is then right only if nothing of this one is left
            world = applied
            continue
        before.append(copy.deepcopy(world))
        ran.write_text("")
        scenario.run_to_end(".", *rerun)
        logged = [json.loads(line) for line in ran.read_text().splitlines()]
        assert sorted(line["job"] for line in logged) == sorted(due), about
        for line in logged:
            assert set(line["needs"]) == set(world.jobs[line["job"]]), about
            if line["job"] == "clean":
                assert len(line["files"]) == len(world.data) + 1, about
        assert set(scenario.actions(".").values()) == {"keep"}, about
