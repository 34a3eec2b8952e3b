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
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

import pytest

from tests.lanes import seeds

SEE = """
import json, os, sys, zlib
side, name, out = (os.environ[each] for each in ("SIDE", "NAME", "LAUNCHER_OUTPUT_DIR"))
with open(f"{side}/{name}") as file:
    here = json.load(file)
needs = json.loads(os.environ.get("LAUNCHER_NEEDS", "[]"))
saw = [sys.argv[1:], {name: os.environ.get(name) for name in ("BASE", "LAYER")}]
saw += [{path: open(here["root"] + "/" + path).read() for path in here["files"]}]
saw += [{need["job"]: open(need["output_dir"] + "/out").read() for need in needs}]
saw = json.dumps(saw, sort_keys=True)
attempt = [int(os.environ[f"LAUNCHER_{each}"]) for each in ("ATTEMPT", "EDITION")]
with open(f"{side}/ran", "a") as ran:
    ran.write(json.dumps([name, *attempt, saw]) + "\\n")
if here["fails"]:
    sys.exit(1)
with open(f"{out}/out", "w") as file:
    file.write(str(zlib.crc32(saw.encode())))
"""
GLOBS = ("data/*.csv", "data", "data/**/*", "conf/x.txt", "data/[a-c].csv", "**/*.txt")
ENDED = ("succeeded", "failed")


@dataclass
class Job:
    """One job file: its needs, and whether it follows the runs of each; a matrix where it has an axis."""

    rank: int
    word: int
    needs: dict[str, bool]
    inputs: list[str]
    axis: list[int]
    flags: set[str]


@dataclass
class World:
    """Job files, and the values that they share; `style` is for order, comments and names of files."""

    jobs: dict[str, Job]
    base: int = 0
    layer: int = 0
    default: int = 0
    style: int = 0

    def cells(self) -> dict[str, tuple[Job, str]]:
        """Return each job with its value of the matrix, "" without one; needs come first."""
        ranked = sorted(self.jobs.items(), key=lambda each: each[1].rank)
        values = ((name, job, str(value)) for name, job in ranked for value in job.axis or [""])
        return {f"{name}-{value}".rstrip("-"): (job, value) for name, job, value in values}

    def needs_of(self, name: str) -> dict[str, bool]:
        needs = self.cells()[name][0].needs.items()
        named = (
            (f"{need}-{value}", follows) for need, follows in needs for value in self.jobs[need].axis or [""]
        )
        return {name.rstrip("-"): follows for name, follows in named}

    def write(self, folder: Path, program: Path) -> None:
        chance = random.Random(self.style)
        for old in folder.glob("*.launcher.yaml"):
            old.unlink()
        (folder / "launcher.toml").write_text(f'[defaults.role.env]\nLAYER = "{self.layer}"\n')
        parent = {"version": 1, "abstract": True, "roles": {"main": {"env": {"BASE": self.base}}}}
        (folder / "parent.launcher.yaml").write_text(json.dumps(parent))
        for name, job in self.jobs.items():
            args = ["-IS", str(program), job.word, "$<var.v>", *["$<matrix.x>"] * bool(job.axis)]
            main = {"entrypoint": "python3", "args": args, "env": {"NAME": "$<job.name>"}}
            fields: dict[str, Any] = {
                "version": 1,
                "name": name,
                "inputs": job.inputs,
                "roles": {"main": main},
            }
            fields["vars"] = {"v": {"type": "int", "default": self.default}}
            fields["needs"] = {
                need: {} if follows else {"rerun": "never"} for need, follows in job.needs.items()
            }
            fields |= {"matrix": {"x": job.axis}} if job.axis else {}
            fields |= {"workspace": "ws"} if "workspace" in job.flags else {}
            fields |= {"extends": "parent.launcher.yaml"} if "parent" in job.flags else {}
            fields |= {"remove": ["roles.main.env.BASE"]} if job.flags >= {"parent", "bare"} else {}
            text = json.dumps(dict(chance.sample([*fields.items()], len(fields))))
            file = folder / f"{name}{chance.choice(['', '-x'])}.launcher.yaml"
            file.write_text(f"# {self.style}\n{text}\n")


def files_of(folder: Path, patterns: list[str]) -> dict[str, str]:
    """Return the files that paths and globs name, with their contents."""
    globs = (f"{each}/**/*" if (folder / each).is_dir() else each for each in patterns)
    paths = {path for each in globs for path in glob.glob(each, root_dir=folder, recursive=True)}
    return {path: (folder / path).read_text() for path in sorted(paths) if (folder / path).is_file()}


class Oracle:
    """The files of now, and the attempts of each job."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.world, self.fails = folder, World({}), set[str]()
        self.var: int | None = None
        self.past: dict[str, list[Any]] = {}

    def now(self, name: str) -> Any:
        """Return what an attempt of now would depend on."""
        (job, value), world, needs = self.world.cells()[name], self.world, self.world.needs_of(name)
        base = str(world.base) if "parent" in job.flags and "bare" not in job.flags else None
        words = [str(job.word), str(world.default if self.var is None else self.var), *filter(None, [value])]
        return Record(
            number=len(self.past.get(name, [])) + 1,
            document=[words, {"BASE": base, "LAYER": str(world.layer)}],
            workspace=files_of(self.folder, ["ws"]) if "workspace" in job.flags else None,
            inputs=[{*job.inputs}, files_of(self.folder, job.inputs)],
            order_only={need for need, follows in needs.items() if not follows},
        )

    def last(self, name: str, *states: str) -> Any:
        past = reversed(self.past.get(name, []))
        return next((each for each in past if each.state in (states or ENDED)), None)

    def plan(self, chosen: set[str], asked: set[str]) -> dict[str, Any]:
        """Return the step of each chosen job: action, true reasons, edition, attempts of its needs."""
        steps: dict[str, Any] = {}
        for name in self.world.cells():
            if name in chosen:
                steps[name] = self._step(name, steps, name in asked)
        return steps

    def _step(self, name: str, steps: dict[str, Any], asked: bool) -> Any:
        now, last = self.now(name), self.last(name)
        grounds = {need: self._ground(need, steps) for need in self.world.needs_of(name)}
        stands = {need: attempt for need, (attempt, _) in grounds.items() if attempt}
        action, true, edition = "start", {"no_attempt"}, now.number
        if last is not None:
            true = self._changes(now, last, {need: edition for need, (_, edition) in grounds.items()})
            edition = now.number if true else last.edition
            true |= self._skipped(name, now, stands) if len(stands) == len(grounds) else set()
            if not (true or asked):
                action = "keep" if last.state == "succeeded" else "hold"
            true |= {"already_succeeded" if last.state == "succeeded" else "last_failed", "requested"}
        if action == "start" and len(stands) < len(grounds):
            action, true = "hold", true | {"needs_failed"}
        return Record(action=action, reasons=true, edition=edition, needs=stands)

    def _ground(self, need: str, steps: dict[str, Any]) -> tuple[tuple[int, int] | None, int]:
        """Return the number and edition that a need offers, and the edition to compare, 0 for none."""
        step = steps.get(need, Record(action="keep"))
        if step.action == "start":
            return (len(self.past.get(need, [])) + 1, step.edition), step.edition
        last, best = self.last(need), self.last(need, "succeeded")
        offered = (last.number, last.edition) if step.action == "keep" and best and last is best else None
        return offered, best.edition if best else 0

    def _changes(self, now: Any, last: Any, editions: dict[str, int]) -> set[str]:
        found = (
            {"spec_changed"} if (last.document, last.workspace) != (now.document, now.workspace) else set()
        )
        found |= {"inputs_changed"} if last.inputs != now.inputs else set()
        both = {need for need in editions if need in last.needs} - now.order_only
        is_moved = any(editions[need] not in (0, last.needs[need][1]) for need in both)
        others = (editions.keys() - last.needs - now.order_only) | (
            last.needs.keys() - editions - last.order_only
        )
        return found | ({"needs_changed"} if is_moved or others else set())

    def _skipped(self, name: str, now: Any, stands: dict[str, tuple[int, int]]) -> set[str]:
        """Return the reason to follow needs that have run since the latest attempt was skipped."""
        latest = self.past[name][-1]
        is_same = (latest.document, latest.workspace) == (now.document, now.workspace)
        if latest.state != "skipped" or not is_same:
            return set()
        is_later = any(latest.needs[need][0] < stands[need][0] for need in stands if need in latest.needs)
        return {"needs_changed"} if is_later else set()

    def apply(self, steps: dict[str, Any]) -> dict[str, Any]:
        """Record what carrying out the steps leads to; return the attempts that run."""
        ran: dict[str, Any] = {}
        for name, step in steps.items():
            if step.action == "start":
                now = Record(**vars(self.now(name)), edition=step.edition, needs=step.needs)
                behind = [need for need in step.needs if need in steps and steps[need].action == "start"]
                can_run = all(need in ran and ran[need].state == "succeeded" for need in behind)
                now.state = ENDED[name in self.fails] if can_run else "skipped"
                self.past.setdefault(name, []).append(now)
                ran |= {name: now} if can_run else {}
        return ran

    def sees(self, name: str) -> str:
        """Return what the job would see today, if all that it needs did the same."""
        now, needs = self.now(name), self.world.needs_of(name)
        outputs = {need: str(zlib.crc32(self.sees(need).encode())) for need in needs}
        return json.dumps([*now.document, now.inputs[1] | (now.workspace or {}), outputs], sort_keys=True)

    def check(
        self, document: dict[str, Any], chosen: set[str], asked: set[str], about: str
    ) -> dict[str, Any]:
        """Return the steps, which the plan has, too; what it keeps is what the job would see now."""
        steps, current = self.plan(chosen, asked), set[str]()
        got = {each["key"]["job"]: each for each in document["jobs"]}
        assert got.keys() == steps.keys(), about
        for name, step in steps.items():
            action = got[name]["action"] if got[name]["action"] in ("keep", "hold") else "start"
            reasons = {each["code"] for each in got[name]["reasons"]}
            assert (action, reasons - step.reasons) == (step.action, set()), (
                f"{name}: {reasons} {step}; {about}"
            )
            is_whole = current >= self.world.needs_of(name).keys() and not self.now(name).order_only
            if action == "keep" and is_whole and not self.last(name).order_only:
                current.add(name)
                assert self.last(name).saw == self.sees(name), f"{name}: {about}"
        return steps


class Project(Oracle):
    """A checkout, and random edits of its files and job files."""

    def __init__(self, folder: Path, side: Path, chance: random.Random) -> None:
        super().__init__(folder)
        self.side, self.chance, self.commits = side, chance, list[tuple[str, World]]()
        (side / "see.py").write_text(SEE)
        for path in ("data/a.csv", "data/b.csv", "data/sub/c.csv", "conf/x.txt", "ws/m.txt"):
            self.text(path)
        for _ in range(chance.randint(3, 6)):
            self.add_job()
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def text(self, path: str) -> None:
        """Write contents of the same size: with the same time, by a new file in its place, or plainly."""
        file, way = self.folder / path, self.chance.randrange(3)
        file.parent.mkdir(exist_ok=True)
        before = file.stat() if file.exists() else None
        made = file.with_name("new") if way == 0 else file
        made.write_text(f"{self.chance.randrange(1000, 10000)}\n")
        os.replace(made, file)
        if way == 1 and before:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def new_name(self) -> str:
        return next(each for each in string.ascii_lowercase if each not in self.world.jobs)

    def add_job(self) -> None:
        chance, jobs = self.chance, self.world.jobs
        rank = max((job.rank for job in jobs.values()), default=0) + 1
        needs = {each: chance.random() < 0.85 for each in jobs if chance.random() < 0.4}
        inputs = chance.sample(GLOBS, chance.choice([0, 1, 2]))
        axis = chance.sample(range(9), chance.choice([0, 0, 0, 1, 3]))
        flags = {each for each in ("workspace", "parent", "bare") if chance.random() < 0.3}
        jobs[self.new_name()] = Job(rank, chance.randrange(99), needs, inputs, axis, flags)

    def edit(self) -> str:
        """Change one thing; return what it was."""
        chance, jobs, number = self.chance, self.world.jobs, self.chance.randrange(99)
        kinds = """file file file file new delete touch word base layer default var style need need follow
            glob glob axis axis flag flag fail fail fail add remove rename checkout checkout checkout"""
        kind, (name, job) = chance.choice(kinds.split()), chance.choice([*jobs.items()])
        path = chance.choice([*files_of(self.folder, ["data", "conf", "ws"])])
        others = [each for each in jobs if jobs[each].rank < job.rank]
        if kind == "file":
            self.text(path)
        elif kind == "new":
            self.text(chance.choice(["data/a.csv", "data/d.csv", "ws/d.txt", "data/sub/d.txt"]))
        elif kind == "delete" and path not in ("conf/x.txt", "data/b.csv", "ws/m.txt"):
            (self.folder / path).unlink()
        elif kind == "touch":
            os.utime(self.folder / path, (number, number))
        elif kind in ("word", "base", "layer", "default", "style", "var"):
            setattr({"word": job, "var": self}.get(kind, self.world), kind, number)
        elif kind == "need" and others and job.needs.pop(need := chance.choice(others), None) is None:
            job.needs[need] = True
        elif kind == "follow" and job.needs:
            job.needs[need] = not job.needs[need := chance.choice([*job.needs])]
        elif kind == "glob":
            job.inputs = sorted({*job.inputs} ^ {chance.choice(GLOBS)})
        elif kind == "axis" and job.axis:
            job.axis = chance.choice([job.axis[1:] or [7], [*{*job.axis, number}], job.axis[::-1]])
        elif kind == "flag":
            job.flags ^= {chance.choice(["parent", "bare", "workspace"])}
        elif kind == "fail":
            self.fails ^= {each for each in self.world.cells() if chance.random() < 0.3}
        elif kind == "add":
            self.add_job()
        elif kind in ("remove", "rename") and len(jobs) > 2:
            new, moved = self.new_name(), jobs.pop(name)
            jobs |= {new: moved} if kind == "rename" else {}
            for each in jobs.values():
                follows = each.needs.pop(name, None)
                each.needs |= {new: follows} if kind == "rename" and follows is not None else {}
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
        self.world.write(self.folder, self.side / "see.py")
        for name in self.world.cells():
            now = self.now(name)
            here = {"files": [*now.inputs[1], *(now.workspace or [])], "fails": name in self.fails}
            (self.side / name).write_text(json.dumps({**here, "root": str(self.folder)}))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(2))
def test_plans_of_random_histories_are_right_about_every_job(scenario, seed, monkeypatch):
    chance, side = random.Random(seed), scenario.folder.parent / "side"
    side.mkdir()
    monkeypatch.setenv("SIDE", str(side))
    project, history = Project(scenario.folder, side, chance), [f"seed {seed}: begin"]
    for _ in range(25):
        project.write()
        if chance.random() < 0.1:
            scenario.launcher("gc", "--older-than", "0", chance.choice(["--outputs", "--logs"]))
        names = [*project.world.cells()]
        chosen, asked = {*names}, {chance.choice(names)} if chance.random() < 0.15 else set()
        if chance.random() < 0.2:
            chosen = asked | {*chance.sample(names, chance.randint(1, len(names)))}
            for name in reversed(names):
                never = [need for need in project.world.needs_of(name) if need not in project.past]
                chosen |= {*never} if name in chosen else set()
        flags = [] if project.var is None else ["--var", f"v={project.var}"]
        flags += [word for name in sorted(chosen) for word in ("--select", name) if len(chosen) < len(names)]
        again = [*flags, *(word for name in asked for word in ("--rerun", name))]
        about = "; ".join([*history[-8:], " ".join(again)])
        steps = project.check(scenario.plan_document(*again), chosen, asked, about)
        if chance.random() < 0.7:  # else the next plan is right only if nothing of this one stays
            (side / "ran").write_text("")
            planned, paths = side / "plan.json", ["."]
            if chance.random() < 0.2:
                scenario.plan(*again, "--out", str(planned))
                again, paths = [], [str(planned)]
            scenario.run_to_end(*paths, *again, code=None)
            ran = project.apply(steps)
            logged = [json.loads(line) for line in (side / "ran").read_text().splitlines()]
            wanted = sorted((name, each.number, each.edition) for name, each in ran.items())
            assert sorted((name, number, edition) for name, number, edition, _ in logged) == wanted, about
            for name, _, _, saw in logged:
                ran[name].saw = saw
            project.check(scenario.plan_document(*flags), chosen, set(), f"again: {about}")
        history.append(project.edit())
