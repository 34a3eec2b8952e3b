"""Submit many apps as one job array: a task for each of them, all held."""

import json
import os
import re
import shutil
import time
from typing import Dict, List, Sequence

from launcher.schedulers.appfolder import AppFolder, token
from launcher.schedulers.slurm.site.agent.folder import Json, OpError, checked
from launcher.schedulers.slurm.site.agent.site import Site
from launcher.schedulers.slurm.site.agent.submit import note_task, own, sbatch
from launcher.schedulers.slurm.site.owners import ARRAY_SCRIPT, TASKS, Owner, array_name

LIMITED = re.compile(r"submit limit|QOS policy|QOSMaxSubmit|AssocMaxSubmit", re.IGNORECASE)


def create_array(site: Site, op: Json) -> Json:
    """Write all files of apps, and submit a held array; app id → error for apps that other clients took.

    The files are complete, and the tasks are recorded, before Slurm knows of the array: after a kill each
    task is either adopted with its app or cancelled. Raises OpError refused: then nothing was submitted.
    """
    argv, apps = sbatch(op["argv"]), op["apps"]
    about = {"array": checked(op["array"]), "program": site.program(op["program"])}
    path = os.path.join(site.arrays, op["array"])
    lost: Dict[str, str] = {}
    owners = [_write(site, app, dict(about, at=time.time(), task=k), lost) for k, app in enumerate(apps)]
    _make_folder(site, path, owners, op["script"])
    job = _submit(site, argv, path, len(apps))
    foreign = [k for k, app in enumerate(apps) if not _note(site, app, job, k, lost)]
    site.slurm.cancel([f"{job}_{k}" for k in foreign])
    return {"job": job, "lost": lost}


def copy_workspace(site: Site, op: Json) -> Json:
    """Copy the workspace of one app into the folders of other apps, each as a whole."""
    source = os.path.join(site.path(op["app_id"]), "workspace")
    for app_id in op["to"]:
        with site.open(app_id) as folder:
            part = os.path.join(folder.path, ".workspace-" + token())
            shutil.copytree(source, part, symlinks=True)
            os.rename(part, os.path.join(folder.path, "workspace"))
    return {}


def _make_folder(site: Site, path: str, owners: Sequence[Owner], script: str) -> None:
    """Make the folder of an array as a whole."""
    temp = os.path.join(site.arrays, ".new-" + os.path.basename(path))
    os.makedirs(site.arrays, 0o700, exist_ok=True)
    os.mkdir(temp, 0o700)
    for k, (app_id, _) in enumerate(owners):  # Slurm opens the output of a task through its number
        os.symlink(os.path.join("..", "..", "apps", app_id), os.path.join(temp, str(k)))
    folder = AppFolder(temp)
    folder.write(TASKS, "".join("{} {}\n".format(*owner) for owner in owners))
    folder.write(ARRAY_SCRIPT, script, 0o700)
    os.rename(temp, path)


def _write(site: Site, app: Json, about: Json, lost: Dict[str, str]) -> Owner:
    """Write the files of an app. The generation is "-" when another client has the app by now."""
    generation = "-"
    try:
        with site.open(app["app_id"]) as folder:
            own(folder, app["nonce"])
            folder.write("app.json", app["app"])
            if app.get("secret"):
                folder.write("secrets", json.dumps(app["secret"]))
            folder.write("submitting", json.dumps(about))
            generation = folder.text("id") or generation
    except OpError as error:
        lost[app["app_id"]] = str(error)
    return str(app["app_id"]), generation


def _submit(site: Site, argv: Sequence[str], path: str, count: int) -> str:
    options = ["--hold", "--parsable", "--job-name=" + array_name(os.path.basename(path))]
    options += ["--output=" + os.path.join(path, "%a", "slurm.out"), "--open-mode=append"]
    try:
        return site.slurm.submit([*argv, *options, os.path.join(path, ARRAY_SCRIPT)], path)
    except OpError as error:
        if error.kind == "refused":
            AppFolder(path).remove()
            raise OpError("refused", str(error) + _limits(site, count, str(error))) from error
        raise


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


def _note(site: Site, app: Json, job: str, k: int, lost: Dict[str, str]) -> bool:
    """Record that an app has its task; False when another client has removed the app."""
    if app["app_id"] in lost:
        return False
    try:
        with site.open(app["app_id"]) as folder:
            own(folder, app["nonce"])
            note_task(folder, folder.json("submitting") or {}, f"{job}_{k}")
    except OpError as error:
        lost[app["app_id"]] = str(error)
        return False
    return True
