"""Submit many apps as held tasks of job arrays, mostly of one array."""

import json
import os
import re
import shutil
import time
from functools import lru_cache, partial
from itertools import count
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from launcher.schedulers.appfolder import AppFolder, token
from launcher.schedulers.slurm.site.agent.site import Site, checked, need_of
from launcher.schedulers.slurm.site.agent.slurm import AFTERCORR, OpError, spans
from launcher.schedulers.slurm.site.agent.submit import (
    Ask,
    after,
    known,
    note_task,
    own,
    sbatch,
    waits_of,
    write_app,
)
from launcher.schedulers.slurm.site.shared import ARRAY_SCRIPT, TASKS, Json, Owner, array_name

NO_OWNER: Owner = ("-", "-")  # the name for a number without a task: no app has it
LIMITED = re.compile(r"submit limit|QOS policy|QOSMaxSubmit|AssocMaxSubmit", re.IGNORECASE)


def create_array(site: Site, op: Json) -> Json:
    """Write all files of apps, and submit held arrays; app id → error for apps that other clients took.

    All files are there before Slurm knows of an array: after a kill each task is adopted with its app or
    cancelled. Raises OpError refused: then nothing was submitted.
    """
    apps = op["apps"]
    about = {"array": checked(op["array"]), "program": site.program(op["program"])}
    path = os.path.join(site.arrays, op["array"])
    lost: Dict[str, str] = {}
    ask = lru_cache(maxsize=None)(partial(need_of, site))  # all apps see a need in the same state
    members = [_write(site, app, dict(about, at=time.time()), ask, lost) for app in apps]
    there = known(site) if any(each is not None and each.waits for each in members) else set()
    arrays = arrays_of(
        [each and [need[1] for need in each.waits.items() if need in there] for each in members],
        int(op.get("aftercorr") or AFTERCORR),
    )
    if not arrays:
        return {"lost": lost, "jobs": []}
    owners = {k: members[n].owner for _, tasks in arrays for k, n in tasks.items()}  # type: ignore[union-attr]
    _make_folder(site, path, owners, op["script"])
    jobs: List[str] = []
    try:
        for options, tasks in arrays:
            numbers = "--array=" + _numbers(tasks, op.get("at_once"))
            argv = sbatch(array_name(op["array"]), path, "%a")
            jobs.append(site.slurm.submit([*argv, *options, numbers, os.path.join(path, ARRAY_SCRIPT)], path))
    except OpError as error:
        if error.kind != "refused":
            raise
        site.slurm.cancel(jobs)
        AppFolder(path).remove()
        raise OpError("refused", str(error) + _limits(site, len(owners), str(error))) from error
    of_app = {n: f"{job}_{k}" for job, (_, tasks) in zip(jobs, arrays) for k, n in tasks.items()}
    site.slurm.cancel([job for n, job in sorted(of_app.items()) if not _note(site, apps[n], job, lost)])
    return {"lost": lost, "jobs": jobs}


Array = Tuple[List[str], Dict[int, int]]
"""The options of sbatch with the jobs that an array waits for, and task → app."""


def arrays_of(behind: Sequence[Optional[Sequence[str]]], aftercorr: int) -> List[Array]:
    """The arrays for apps, by the jobs that each of them waits for; None for an app without a task.

    Apps that wait for the same jobs are one array. All may share some jobs; an app that waits for these and
    for a task of another array, for which no other app waits, gets the number of that task.

    Args:
        aftercorr: how many tasks of an array Slurm compares with those of another one.
    """
    sets = {n: frozenset(jobs) for n, jobs in enumerate(behind) if jobs is not None}
    shared = frozenset.intersection(*sets.values()) if sets else frozenset()
    alike: Dict[FrozenSet[str], List[int]] = {}
    for n, jobs in sets.items():
        alike.setdefault(jobs - shared, []).append(n)
    taken: Set[int] = set()
    paired: Dict[str, Dict[int, int]] = {}
    for jobs, apps in list(alike.items()):
        array, _, task = next(iter(jobs)).partition("_") if len(jobs) == 1 else ("", "", "")
        if task and len(apps) == 1 and int(task) not in taken:
            taken.add(int(task))
            paired.setdefault(array, {})[int(task)] = apps[0]
            del alike[jobs]
    made: List[Array] = []
    for array, tasks in paired.items():
        for first in range(0, len(tasks), aftercorr):
            numbers = sorted(tasks)[first : first + aftercorr]
            made.append((after(sorted(shared), array), {k: tasks[k] for k in numbers}))
    free = (k for k in count() if k not in taken)
    for jobs, apps in alike.items():
        tasks = {}
        for n in apps:
            k = n if n not in taken else next(free)
            taken.add(k)
            tasks[k] = n
        made.append((after(sorted(shared | jobs)), tasks))
    return made


def _numbers(tasks: Iterable[int], at_once: Optional[int]) -> str:
    """The tasks in sbatch's form, `0-9,12%4`."""
    numbers = [*tasks]
    return ",".join(spans(numbers)) + (f"%{at_once}" if at_once and at_once < len(numbers) else "")


def copy_workspace(site: Site, op: Json) -> Json:
    """Copy the workspace of one app into the folders of other apps, each as a whole."""
    source = os.path.join(site.path(op["app_id"]), "workspace")
    for app_id in op["to"]:
        with site.open(app_id) as folder:
            part = os.path.join(folder.path, ".workspace-" + token())
            shutil.copytree(source, part, symlinks=True)
            os.rename(part, os.path.join(folder.path, "workspace"))
    return {}


def _make_folder(site: Site, path: str, owners: Dict[int, Owner], script: str) -> None:
    """Make, as a whole, the folder of arrays that have no task number in common."""
    temp = os.path.join(site.arrays, ".new-" + os.path.basename(path))
    os.makedirs(site.arrays, 0o700, exist_ok=True)
    os.mkdir(temp, 0o700)
    for k, (app_id, _) in owners.items():  # Slurm opens the output of a task through its number
        os.symlink(os.path.join("..", "..", "apps", app_id), os.path.join(temp, str(k)))
    folder = AppFolder(temp)
    lines = [owners.get(k, NO_OWNER) for k in range(max(owners, default=-1) + 1)]
    folder.add(TASKS, "".join("{} {}\n".format(*owner) for owner in lines))
    folder.add(ARRAY_SCRIPT, script, 0o700)
    os.rename(temp, path)


class ReadyApp(NamedTuple):
    """An app that is ready for its task. waits: app id → job of the needs that have not ended."""

    owner: Owner
    waits: Dict[str, str]


def _write(site: Site, app: Json, about: Json, ask: Ask, lost: Dict[str, str]) -> Optional[ReadyApp]:
    """Write the files of an app; None when another client has it by now, or when a need has not succeeded."""
    try:
        with site.open(app["app_id"]) as folder:
            own(folder, app["nonce"])
            needs = app.get("needs") or []
            waits, skip = write_app(folder, app, needs, ask)
            if skip is not None:
                return None
            folder.write("submitting", json.dumps(dict(about, **waits_of(needs, waits))))
            return ReadyApp(folder.identity, waits)
    except OpError as error:
        lost[app["app_id"]] = str(error)
        return None


def _limits(site: Site, count: int, refusal: str) -> str:
    """The limit that refuses so many jobs, and the number of jobs in the queue, where Slurm reports them."""
    if not LIMITED.search(refusal):
        return ""
    argv = ["scontrol", "-o", "show", "assoc_mgr", "users=" + site.slurm.user, "flags=assoc"]
    code, out, _ = site.slurm.run(argv)
    found: List[str] = re.findall(r"MaxSubmitJobs=(\d+\(\d+\))", out) if code == 0 else []
    limits = {(int(most), int(used)) for most, _, used in (each[:-1].partition("(") for each in found)}
    if not limits:
        return f"; {count} jobs were to be submitted"
    most, used = min(limits)
    return f"; {count} jobs were to be submitted, MaxSubmitJobs is {most}, and {used} are in the queue"


def _note(site: Site, app: Json, job: str, lost: Dict[str, str]) -> bool:
    """Record that an app has its task; False when another client has removed the app."""
    try:
        with site.open(app["app_id"]) as folder:
            own(folder, app["nonce"])
            note_task(folder, folder.json("submitting") or {}, job)
    except OpError as error:
        lost[app["app_id"]] = str(error)
        return False
    return True
