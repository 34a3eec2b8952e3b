"""Reasons against a plan: it cannot be made, or a saved one cannot be applied any more."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import JOB, Example, ReasonExplanation

_QUICK = "version: 1\nname: train\nroles: {main: {entrypoint: echo, args: [trained]}}\n"
_SAVE = f"launcher plan {JOB} --out plan.json"
_TWO = {f"a/{JOB}": _QUICK, f"b/{JOB}": _QUICK}
_REPOSITORIES = ("git init -q a", "git init -q b")
_PYTHON = f"""\
import launcher

launch = launcher.load_job("{JOB}")
print(launcher.make_plan([launch, launch]))
"""
_CIRCLE = f"""\
from dataclasses import replace

import launcher
from launcher.specs.needs import Need

launch = replace(launcher.load_job("{JOB}"), needs=(Need("train"),))
print(launcher.make_plan([launch]))
"""
_NEEDS = "version: 1\nname: train\nneeds: [prepare]\nroles: {main: {entrypoint: echo, args: [trained]}}\n"
_PREPARE = "'version: 1\\nname: prepare\\nroles: {main: {entrypoint: echo}}\\n'"

EXPLANATIONS = (
    ReasonExplanation(
        "origin_conflict",
        "Attempts of a job with this project, target and name were made from another repository, and two "
        "repositories that share a job would stop each other's work. A repository is identified by its "
        "git remote or, without one, by its folder: a second checkout without a remote is another one.",
        Example(_TWO, "plan b", (*_REPOSITORIES, "launcher apply a --yes --wait")),
        "Give the jobs of this repository a project of their own. If it is the same work that has moved, "
        "`--take-over` makes the job this repository's.",
        ("echo 'project = \"b\"' >b/launcher.toml", "launcher plan b"),
    ),
    ReasonExplanation(
        "duplicate_job",
        "Two of the launches that a plan is asked for have the same project, target and name. Among job "
        "files `duplicate-job` says so earlier; this is for plans that are made in Python.",
        Example({JOB: _QUICK, "twice.py": _PYTHON}, "", ("python twice.py",)),
        "Pass each launch once, or give one of them another name.",
        (f"launcher plan {JOB}",),
    ),
    ReasonExplanation(
        "unknown_need",
        "A job needs another one by a name that no file of the command declares, and no job of that name has "
        "ever run in this project and target.",
        Example({JOB: _NEEDS}, f"plan {JOB}"),
        "Correct the name, or pass the file of that job as well. With `--select`, a `+` in front of a job "
        "selects what it needs.",
        (f"printf {_PREPARE} >prepare.launcher.yaml", "launcher plan ."),
    ),
    ReasonExplanation(
        "needs_cycle",
        "Jobs need each other in a circle, so that none of them could ever start. Among job files "
        "`needs-cycle` says so earlier; this is for plans that are made in Python.",
        Example({JOB: _QUICK, "twice.py": _CIRCLE}, "", ("python twice.py",)),
        "Remove one of the needs.",
        (f"launcher plan {JOB}",),
    ),
    ReasonExplanation(
        "attempt_changed",
        "A saved plan was made for one latest attempt of each job. By now another one is there, or it has "
        "ended: the job was applied, cancelled or run since. The message says what was expected, what was "
        "found and who made it.",
        Example({JOB: _QUICK}, "apply plan.json", (_SAVE, f"launcher apply {JOB} --yes --wait")),
        "Make a new plan and look at it again.",
        (_SAVE, "launcher apply plan.json"),
    ),
    ReasonExplanation(
        "already_applied",
        "All that the saved plan says has been done, by the apply that the message names. A plan starts each "
        "of its jobs once, however they end.",
        Example({JOB: _QUICK}, "apply plan.json", (_SAVE, "launcher apply plan.json --wait")),
        "Nothing is to be done. To run a job again, make a plan that says so.",
        (f"{_SAVE} --rerun train", "launcher apply plan.json"),
    ),
    ReasonExplanation(
        "expired",
        "A saved plan is good for 24 hours. An older one was approved in a world that has moved on.",
        Example({JOB: _QUICK}, "apply plan.json", (_SAVE, "sleep 25h")),
        "Make a new plan.",
        (_SAVE, "launcher apply plan.json"),
    ),
    ReasonExplanation(
        "not_yet_valid",
        "The plan says that it was made at a time that is more than five minutes ahead of the clock here. "
        "One of the two clocks is wrong, and with it the plan's age.",
        Example({}, "apply plan.json", ("scp builder:jobs/plan.json .",)),
        "Set the clocks (`timedatectl` shows whether they are synchronized), then make a new plan.",
        (_SAVE, "launcher apply plan.json"),
    ),
    ReasonExplanation(
        "other_engine",
        "A saved plan is for the engine whose apps it was compared with. For local schedulers that is one "
        "machine and one state folder, for Docker one daemon.",
        Example({JOB: _QUICK}, "apply plan.json", (_SAVE, "export LAUNCHER_HOME=$PWD/elsewhere")),
        "Plan where you apply: on that machine, with that `LAUNCHER_HOME` or `DOCKER_HOST`.",
        (_SAVE, "launcher apply plan.json"),
    ),
    ReasonExplanation(
        "other_origin",
        "The jobs of the plan come from one repository, and it is applied in another one, whose files are "
        "not those that were planned.",
        Example(_TWO, "apply plan.json --root b", (*_REPOSITORIES, "launcher plan a --out plan.json")),
        "Apply it in a checkout of the repository that it was made in, or name that with --root.",
        ("launcher apply plan.json --root a",),
    ),
)
