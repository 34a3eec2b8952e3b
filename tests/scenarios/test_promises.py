"""The promises of a plan, for random projects and histories, judged by an oracle that knows the true inputs.

- A job that is kept as succeeded has seen exactly the values and files of now, and so has all that it needs.
- Each reason to start or to hold a job is true, and a job with such a reason is not kept.
- Apply runs exactly the attempts of its plan; straight after it, a plan starts nothing.

The oracle compares values, names and editions as the pages on plans say, and calls nothing of launcher.
"""

import copy
import glob
import json
import os
import random
import string
import subprocess
import zlib
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

import pytest

from tests.lanes import seeds

SEE = """
import json, os, sys, zlib
side, name, out = (os.environ[each] for each in ("SIDE", "NAME", "LAUNCHER_OUTPUT_DIR"))
here = json.load(open(f"{side}/{name}"))
needs = json.loads(os.environ.get("LAUNCHER_NEEDS", "[]"))
files = {path: open(f"{side}/../w/{path}").read() for path in here["files"]}
results = {need["job"]: open(need["output_dir"] + "/out").read() for need in needs}
saw = [sys.argv[1:], os.environ.get("LAYER"), files, results]
attempt = [int(os.environ[f"LAUNCHER_{each}"]) for each in ("ATTEMPT", "EDITION")]
open(f"{side}/ran", "a").write(json.dumps([name, *attempt, saw]) + "\\n")
if here["fails"]:
    sys.exit(1)
open(f"{out}/out", "w").write(str(zlib.crc32(json.dumps(saw, sort_keys=True).encode())))
"""
GLOBS = ("data/*.csv", "data", "data/**/*", "conf/x.txt", "data/[a-c].csv", "**/*.txt")
FLAGS = ("workspace", "bare")  # bare: without the layer of launcher.toml
KINDS = """file file file file delete touch word layer style var needs needs inputs inputs flags
    axis axis fail fail add remove rename checkout checkout"""


class Project:
    """A checkout with random edits, and its oracle: the attempts of each job, and the steps to expect.

    A job needs only jobs of a lower rank.
    """

    def __init__(self, folder: Path, side: Path, chance: random.Random) -> None:
        self.folder, self.side, self.chance = folder, side, chance
        self.world = Record(jobs={}, layer=0, style=0)
        self.var = 0
        self.fails: set[str] = set()
        self.past: dict[str, list[Any]] = {}
        self.commits: list[tuple[str, Any]] = []
        (side / "see.py").write_text(SEE)
        for path in ("data/a.csv", "data/b.csv", "data/sub/c.csv", "conf/x.txt", "ws/m.txt"):
            self.write_file(path)
        for _ in range(chance.randint(3, 6)):
            self.add_job()
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def files(self, patterns: list[str]) -> dict[str, str]:
        """Return the files that paths and globs name, with their contents."""
        globs = (f"{each}/**/*" if (self.folder / each).is_dir() else each for each in patterns)
        paths = {path for each in globs for path in glob.glob(each, root_dir=self.folder, recursive=True)}
        files = {path: self.folder / path for path in sorted(paths)}
        return {path: file.read_text() for path, file in files.items() if file.is_file()}

    def write_file(self, path: str) -> None:
        """Write contents of the same size: perhaps by a new file in its place, or with its former time."""
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        before = file.stat() if file.exists() else None
        made = self.chance.choice([file, file.with_name("new")])
        made.write_text(f"{self.chance.randrange(1000, 10000)}\n")
        os.replace(made, file)
        if before and self.chance.random() < 0.5:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def new_name(self) -> str:
        return next(each for each in string.ascii_lowercase if each not in self.world.jobs)

    def add_job(self) -> None:
        chance, jobs = self.chance, self.world.jobs
        jobs[self.new_name()] = Record(
            rank=max((job.rank for job in jobs.values()), default=0) + 1,
            word=chance.randrange(99),
            needs=[each for each in jobs if chance.random() < 0.4],
            inputs=chance.sample(GLOBS, chance.choice([0, 1, 2])),
            axis=chance.sample(range(9), chance.choice([0, 0, 0, 1, 3])),
            flags=[each for each in FLAGS if chance.random() < 0.3],
        )

    def edit(self) -> str:
        """Change one thing; return what it was."""
        chance, jobs, number = self.chance, self.world.jobs, self.chance.randrange(99)
        kind, name = chance.choice(KINDS.split()), chance.choice([*jobs])
        job, path = jobs[name], chance.choice([*self.files(["data", "conf", "ws"])])
        if kind == "file":
            self.write_file(chance.choice([path, path, "data/d.csv", "ws/d.txt"]))
        elif kind == "delete" and path not in ("conf/x.txt", "data/b.csv", "ws/m.txt"):
            (self.folder / path).unlink()
        elif kind == "touch":
            os.utime(self.folder / path, (number, number))
        elif kind in ("word", "layer", "style", "var"):
            setattr({"word": job, "var": self}.get(kind, self.world), kind, number)
        elif kind in ("needs", "inputs", "flags"):
            lower = [each for each in jobs if jobs[each].rank < job.rank]
            change = chance.choice({"needs": lower, "inputs": GLOBS, "flags": FLAGS}[kind] or [None])
            setattr(job, kind, sorted(({*getattr(job, kind)} ^ {change}) - {None}))
        elif kind == "axis" and job.axis:
            job.axis = chance.choice([job.axis[1:] or [7], [*{*job.axis, number}], job.axis[::-1]])
        elif kind == "fail":
            self.fails ^= {each for each in self.cells() if chance.random() < 0.3}
        elif kind == "add":
            self.add_job()
        elif kind in ("remove", "rename") and len(jobs) > 2:
            to = {name: self.new_name() if kind == "rename" else ""}
            self.world.jobs = {new: each for old, each in jobs.items() if (new := to.get(old, old))}
            for each in jobs.values():
                each.needs = [new for need in each.needs if (new := to.get(need, need))]
        elif kind == "checkout":
            self.write()
            self.git("add", "-A")
            self.git("commit", "-qm.", "--allow-empty")
            self.commits.append((self.git("rev-parse", "HEAD").strip(), copy.deepcopy(self.world)))
            commit, self.world = copy.deepcopy(chance.choice(self.commits))
            self.git("checkout", "-q", commit)
        return kind

    def write(self) -> None:
        """Write the job files, and for each job which files it reads and whether it fails."""
        chance = random.Random(self.world.style)
        for old in self.folder.glob("*.launcher.yaml"):
            old.unlink()
        (self.folder / "launcher.toml").write_text(f'[defaults.role.env]\nLAYER = "{self.world.layer}"\n')
        for name, job in self.world.jobs.items():
            args = ["-IS", f"{self.side}/see.py", job.word, "$<var.v>", *["$<matrix.x>"] * bool(job.axis)]
            main = {"entrypoint": "python3", "args": args, "env": {"NAME": "$<job.name>"}}
            fields = {"version": 1, "name": name, "inputs": job.inputs, "needs": job.needs}
            fields |= {"roles": {"main": main}, "vars": {"v": {"type": "int", "default": 0}}}
            fields |= {"matrix": {"x": job.axis}} if job.axis else {}
            fields |= {"workspace": "ws"} if "workspace" in job.flags else {}
            fields |= {"remove": ["roles.main.env.LAYER"]} if "bare" in job.flags else {}
            text = json.dumps(dict(chance.sample([*fields.items()], len(fields))))
            file = self.folder / f"{name}{chance.choice(['', '-x'])}.launcher.yaml"
            file.write_text(f"# {self.world.style}\n{text}\n")
        for name in self.cells():
            here = {"files": [*self.sees(name)[2]], "fails": name in self.fails}
            (self.side / name).write_text(json.dumps(here))

    def cells(self) -> dict[str, Any]:
        """Return each job, with the value of a matrix also in its name; needs come first."""
        jobs = sorted(self.world.jobs.items(), key=lambda each: each[1].rank)
        return {f"{name}-{x}".rstrip("-"): (job, str(x)) for name, job in jobs for x in job.axis or [""]}

    def needs_of(self, name: str) -> list[str]:
        jobs, (job, _) = self.world.jobs, self.cells()[name]
        return [f"{need}-{x}".rstrip("-") for need in job.needs for x in jobs[need].axis or [""]]

    def now(self, name: str) -> Any:
        """Return what an attempt of now would depend on."""
        job, value = self.cells()[name]
        words = [str(job.word), str(self.var), *filter(None, [value])]
        layer = None if "bare" in job.flags else str(self.world.layer)
        document = [words, layer, self.files(["ws"]) if "workspace" in job.flags else None]
        inputs = [{*job.inputs}, self.files(job.inputs)]
        return Record(number=len(self.past.get(name, ())) + 1, document=document, inputs=inputs)

    def sees(self, name: str) -> Any:
        """Return what the job would see today, if all that it needs did the same."""
        now, needs = self.now(name), self.needs_of(name)
        texts = {need: json.dumps(self.sees(need), sort_keys=True) for need in needs}
        words, layer, workspace = now.document
        results = {need: str(zlib.crc32(text.encode())) for need, text in texts.items()}
        return [words, layer, now.inputs[1] | (workspace or {}), results]

    def last(self, name: str, *states: str) -> Any:
        past = (each for each in reversed(self.past.get(name, [])) if each.state in states)
        return next(past, None)

    def steps(self, asked: str) -> dict[str, Any]:
        """Return for each job the action, the true reasons, the edition, and the attempts that it needs."""
        steps: dict[str, Any] = {}
        for name in self.cells():
            now, last = self.now(name), self.last(name, "succeeded", "failed")
            offers = {need: self._offer(need, steps[need]) for need in self.needs_of(name)}
            stands = {need: attempt for need, (attempt, _) in offers.items() if attempt}
            action, true, edition = "start", {"no_attempt"}, now.number
            if last is not None:
                true = self._changes(now, last, offers)
                edition = now.number if true else last.edition
                latest = self.past[name][-1]
                is_same = latest.state == "skipped" and latest.document == now.document
                if is_same and len(stands) == len(offers):  # needs have run since it was skipped
                    later = (need for need in latest.needs if latest.needs[need] < stands.get(need, (0, 0)))
                    true |= {"needs_changed"} if any(later) else set()
                is_good = last.state == "succeeded"
                if not true and name != asked:
                    action, true = ("keep", {"already_succeeded"}) if is_good else ("hold", set())
                true |= ({"requested"} if name == asked else set()) | (set() if is_good else {"last_failed"})
            if action == "start" and len(stands) < len(offers):
                action, true = "hold", true | {"needs_failed"}
            steps[name] = Record(action=action, reasons=true, edition=edition, needs=stands)
        return steps

    def _offer(self, need: str, step: Any) -> tuple[tuple[int, int] | None, int]:
        """Return number and edition of the attempt that a need offers, and the edition to compare."""
        if step.action == "start":
            return (len(self.past.get(need, [])) + 1, step.edition), step.edition
        best = self.last(need, "succeeded")
        return (best.number, best.edition) if step.action == "keep" else None, best.edition if best else 0

    def _changes(self, now: Any, last: Any, offers: dict[str, Any]) -> set[str]:
        found = {"spec_changed"} if last.document != now.document else set()
        found |= {"inputs_changed"} if last.inputs != now.inputs else set()
        both = offers.keys() & last.needs.keys()
        is_moved = any(offers[need][1] not in (0, last.needs[need][1]) for need in both)
        return found | ({"needs_changed"} if is_moved or offers.keys() != last.needs.keys() else set())

    def apply(self, steps: dict[str, Any]) -> dict[str, Any]:
        """Record what carrying out the steps leads to; return the attempts that run."""
        ran: dict[str, Any] = {}
        for name, step in steps.items():
            if step.action == "start":
                now = Record(**vars(self.now(name)), edition=step.edition, needs=step.needs)
                behind = [need for need in step.needs if steps[need].action == "start"]
                can_run = all(need in ran and ran[need].state == "succeeded" for need in behind)
                now.state = "skipped" if not can_run else "failed" if name in self.fails else "succeeded"
                self.past.setdefault(name, []).append(now)
                ran |= {name: now} if can_run else {}
        return ran

    def check(self, document: dict[str, Any], asked: str, about: str) -> dict[str, Any]:
        """Return the steps, which the plan has, too; what it keeps is what the job would see now."""
        steps, current = self.steps(asked), set[str]()
        got = {each["key"]["job"]: each for each in document["jobs"]}
        assert got.keys() == steps.keys(), about
        for name, step in steps.items():
            action = got[name]["action"] if got[name]["action"] in ("keep", "hold") else "start"
            reasons = {each["code"] for each in got[name]["reasons"]}
            here = f"{name}: {action} for {reasons}, {step}; {about}"
            assert (action, reasons - step.reasons) == (step.action, set()), here
            if action == "keep" and current.issuperset(self.needs_of(name)):
                current.add(name)
                assert self.last(name, "succeeded").saw == self.sees(name), here
        return steps


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(1))
def test_plans_of_random_histories_are_right_about_every_job(scenario, seed, monkeypatch):
    chance, side = random.Random(seed), scenario.folder.parent / "side"
    side.mkdir()
    monkeypatch.setenv("SIDE", str(side))
    project, history = Project(scenario.folder, side, chance), [f"seed {seed}: begin"]
    for _ in range(25):
        project.write()
        if chance.random() < 0.1:
            scenario.launcher("gc", "--older-than", "0", chance.choice(["--outputs", "--logs"]))
        asked = chance.choice([*project.cells()]) if chance.random() < 0.2 else ""
        var = ["--var", f"v={project.var}"]
        words = [".", *var, *(["--rerun", asked] if asked else [])]
        about = f"{'; '.join(history[-8:])} {asked}"
        steps = project.check(scenario.plan_document(*words), asked, about)
        if chance.random() < 0.7:  # else the next plan is right only if nothing of this one stays
            (side / "ran").write_text("")
            if chance.random() < 0.3:
                scenario.plan(*words, "--out", f"{side}/plan.json")
                words = [f"{side}/plan.json"]
            scenario.run_to_end(*words, code=None)
            ran = project.apply(steps)
            logged = [json.loads(line) for line in (side / "ran").read_text().splitlines()]
            wanted = sorted([name, each.number, each.edition] for name, each in ran.items())
            assert sorted(line[:3] for line in logged) == wanted, about
            for name, _, _, saw in logged:
                ran[name].saw = saw
            project.check(scenario.plan_document(".", *var), "", f"again: {about}")
        history.append(project.edit())
