"""Submit an app: take its id, write its files, submit its held job, release it. Ask Slurm before that."""

import errno
import json
import os
import time
from functools import lru_cache, partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from launcher.holding.events import skipped
from launcher.holding.journal import is_full
from launcher.schedulers.appfolder import remove_tree, token
from launcher.schedulers.slurm.site.agent.removal import cancel_jobs, dismantle
from launcher.schedulers.slurm.site.agent.site import Folder, Site, checked, is_removed, need_of
from launcher.schedulers.slurm.site.agent.slurm import (
    BUSY,
    FORGOTTEN,
    SUBMIT_S,
    TRIES,
    OpError,
    one_line,
    refusal,
)
from launcher.schedulers.slurm.site.shared import OUTPUT, Json, script_of

Live = Callable[[], Set[Tuple[str, str]]]
"""A function that returns the live jobs, see `known`; asks Slurm once."""
Ask = Callable[[str], Tuple[str, str]]
"""A function that returns the state and the job of a needed app, see `need_of`."""


def reserve(site: Site, op: Json) -> Json:
    """Take an app id: a new directory, or a complete one of a dead owner with the same digest."""
    path, owner, record = site.path(op["app_id"]), op["owner"], op["record"]
    checked(str(owner.get("nonce")))
    for _ in range(TRIES):
        try:
            folder = Folder(path)
        except FileNotFoundError:
            if _make(site, path, owner, record):
                return {"resumed": False}
            continue
        with folder:
            try:
                found = _take_over(site, folder, owner, record, op.get("dead", ()))
                if found and site.live_job(folder) is None:
                    found = None  # its job was cancelled or lost: the submission cannot be resumed
                if not folder.is_in_place():
                    continue  # files during another client's removal looked like those of a dead owner
                if found is not None:
                    return {"resumed": found}
                dismantle(site, folder)
            except FileNotFoundError:
                if folder.is_in_place():
                    raise  # otherwise another client removes it
    raise OpError("reserved", "other clients take {} at this moment".format(op["app_id"]), state="reserved")


def _make(site: Site, path: str, owner: Json, record: Json) -> bool:
    """Make an app directory with its owner in it; False when it exists already."""
    generation = "{}.{}".format(owner["nonce"], token())
    temp = os.path.join(site.apps, f".new-{os.path.basename(path)}-{generation}")
    try:
        os.mkdir(temp, 0o700)
    except FileNotFoundError:
        os.makedirs(site.apps, 0o700, exist_ok=True)
        os.mkdir(temp, 0o700)
    try:
        with Folder(temp) as folder:
            folder.add("id", generation)
            folder.add("attempt.json", json.dumps(record))
            folder.add("owner", json.dumps(owner))
        os.rename(temp, path)
        return True
    except OSError as error:
        remove_tree(temp)
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        with Folder(path) as there:  # the rename may have been made, and NFS have lost the reply
            return bool(there.text("id") == generation)
    except BaseException:
        remove_tree(temp)
        raise


def _take_over(site: Site, folder: Folder, owner: Json, record: Json, dead: Sequence[str]) -> Optional[bool]:
    """Take over a directory; returns whether its submission is resumed. None: the directory is to be removed.

    Raises OpError reserved when the app has been started, or its owner is not among the dead ones.
    """
    present, _, successor = folder.owner()
    _refuse_started(folder)
    if present is not None and present["nonce"] == owner["nonce"]:
        return "created" in folder.names()
    removal = folder.json("started") if "started" in folder.names() else None
    if removal is not None and not is_removed(removal):  # it was started just now
        raise folder.reserved(None)
    if removal is not None and removal["nonce"] in (*dead, owner["nonce"]):
        return None  # its removal was interrupted
    if removal is not None:
        raise folder.reserved(removal, "reserved", quiet_s=folder.age_s("started"))
    if present is not None and present["nonce"] not in dead:
        raise folder.reserved(present, quiet_s=folder.quiet_s())
    if not folder.link(successor, json.dumps(owner)):
        present = folder.owner()[0]
        raise folder.reserved(present, quiet_s=0.0)
    _refuse_started(folder)
    before = folder.json("attempt.json") or {}
    about = folder.json("submitting") or {}
    if "array" in about and "created" not in folder.names():  # its files were all written before the array
        for job in [row.job for row in site.rows(folder.identity) if row.held][:1]:
            note_task(folder, about, job)
    if "created" in folder.names() and before.get("digest") and before.get("digest") == record.get("digest"):
        return True
    return None


def note_task(folder: Folder, about: Json, job: str) -> None:
    """Record that an app has been created, as this task of the array in `about`."""
    folder.write("created", json.dumps(dict(about, at=time.time(), job=job)))


def _refuse_started(folder: Folder) -> None:
    """Raise OpError reserved for an app that was submitted, cancelled or withdrawn."""
    if is_decided(folder):
        raise folder.reserved(None)


# -- its files and its job -----------------------------------------------------------------------------------


def create(site: Site, op: Json) -> Json:
    """Write all files and submit a held job; or record `skipped` for a need that has not succeeded."""
    with site.open(op["app_id"]) as folder:
        own(folder, op.get("nonce"))
        names = folder.names()
        if "created" in names:
            return {"job": folder.job()}
        program = site.program(op["program"])
        needs = op.get("needs") or []
        waits, skip = write_app(folder, op, needs, partial(need_of, site))
        if skip is not None:
            return skip
        job = _submit(site, folder, op, waits, "submitting" in names)
        own(folder, op.get("nonce"), lambda: site.slurm.cancel([job]))
        created = {"at": time.time(), "program": program}
        folder.write("created", json.dumps(dict(created, **waits_of(needs, waits))))
        return {"job": job}


def own(folder: Folder, nonce: Optional[str], undo: Callable[[], Any] = lambda: None) -> None:
    """Raise OpError reserved, after `undo`, unless the client of this nonce may still start the app."""
    owner = folder.owner()[0]
    started = folder.json("started")
    is_mine = nonce is None or (owner is not None and owner["nonce"] == nonce)
    if started is not None or not is_mine or not folder.is_in_place():
        undo()
        raise folder.reserved(owner if started is None else None)


def write_app(
    folder: Folder, app: Json, needs: Sequence[Json], ask: Ask
) -> Tuple[Dict[str, str], Optional[Json]]:
    """Write the files of an app; returns app id → job of its open needs, and the answer for a failed one."""
    folder.write("app.json", app["app"])
    if app.get("secret"):
        folder.write("secrets", json.dumps(app["secret"]))
    names = _names(needs)
    found = {app_id: ask(app_id) for app_id in names}
    waits = {app_id: job for app_id, (state, job) in found.items() if not state}
    return waits, _skipped(folder, [(names[app_id], state) for app_id, (state, _) in found.items()])


def waits_of(needs: Sequence[Json], waits: Dict[str, str]) -> Json:
    """The fields of `created` on needs: the app ids, and app id → name of the job of those in `waits`."""
    names = _names(needs)
    return {"needs": list(names), "waits": {app_id: names[app_id] for app_id in waits}}


def _names(needs: Sequence[Json]) -> Dict[str, str]:
    return {each["app_id"]: each.get("job") or each["app_id"] for each in needs}


def _skipped(
    folder: Folder, ends: Sequence[Tuple[str, str]], undo: Callable[[], Any] = lambda: None
) -> Optional[Json]:
    """End an app as skipped, after `undo`, if needs have ended badly; returns the answer then.

    Args:
        ends: the job and the state of each need; the state is "" for one that has not ended.
    """
    message = skipped(ends)
    if not message:
        return None
    undo()
    folder.end_unstarted("skipped", message)
    return {"state": "skipped", "message": message}


def _submit(site: Site, folder: Folder, op: Json, waits: Dict[str, str], again: bool) -> str:
    """The app's held job, new or of an interrupted call. Raises OpError state when an old job is gone."""
    script = script_of(folder.text("id") or "")
    folder.write("submitting", json.dumps({"at": time.time()}))
    job = _adopt(site, folder) if again else None
    if job is None:
        if folder.text("job") is not None:
            raise folder.gone()
        folder.write(script, op["script"], 0o700)
        there = known(site) if waits else set()
        options = after([job for app_id, job in waits.items() if (app_id, job) in there])
        argv = [*sbatch(folder.app_id, folder.path), *options, os.path.join(folder.path, script)]
        job = site.slurm.submit(argv, folder.path)
    try:
        if folder.link("job", job):
            return job
    except FileNotFoundError:  # the directory was removed in the meantime
        site.slurm.cancel([job])
        raise
    winner = folder.text("job") or job
    if winner != job:
        site.slurm.cancel([job])
    return winner


def sbatch(name: str, folder: str, task: str = "") -> List[str]:
    """The command for a held job, whose output is a file in a folder, or in that of each `task`, as `%a`."""
    output = os.path.join(folder.replace("%", "%%"), task, OUTPUT)
    own = ["--job-name=" + name, "--output=" + output, "--open-mode=append"]
    return ["sbatch", "--hold", "--parsable", *own]


def known(site: Site, over: bool = True) -> Set[Tuple[str, str]]:
    """(app id, job) of the jobs that Slurm knows, also of ended ones unless `over` is false.

    A dependency names no other job: Slurm would drop it, or wait for another job that has the id by now.
    `_skip_now` judges the apps of such jobs before the start.
    """
    return {(row.app_id, row.job) for row in site.slurm.rows() if over or not row.is_over}


def after(jobs: Sequence[str], array: str = "") -> List[str]:
    """The options of sbatch for a job that waits for `jobs`, each task also for its number in `array`."""
    parts = ["afterok:" + ":".join(jobs)] if jobs else []
    parts += ["aftercorr:" + array] if array else []
    return ["--dependency=" + ",".join(parts), "--kill-on-invalid-dep=yes"] if parts else []


def _adopt(site: Site, folder: Folder) -> Optional[str]:
    """The job that an interrupted call submitted; further jobs are cancelled."""
    jobs = sorted((row.job for row in site.rows(folder.identity) if not row.is_over), key=int)
    known = folder.text("job")
    keep = known if known in jobs else jobs[0] if jobs else None
    site.slurm.cancel([job for job in jobs if job != keep])
    return keep


def is_decided(folder: Folder) -> bool:
    """Whether an app was submitted, cancelled or withdrawn, or has ended."""
    names = folder.names()
    started = folder.json("started") if "started" in names else None
    return bool(names & {"outcome", "submitted"}) or (started is not None and not is_removed(started))


def start(site: Site, ops: Sequence[Json]) -> List[Json]:
    """Release the jobs of apps, all at once. A second call changes nothing."""
    at = time.time()  # before the release: see `_held_by_mistake` in ends.py
    jobs: Dict[str, str] = {}  # app id → its held job
    live = lru_cache(maxsize=None)(partial(known, site, over=False))
    with site.one_look(len(ops)):
        answers = [site.answer(op, partial(_ready, site, op, jobs, live)) for op in ops]
        problems = _release(site, list(jobs.values()))

    def accept(folder: Folder) -> Json:
        job = jobs.get(folder.app_id, "")
        if job in problems and "job" not in (folder.json("started") or {}):  # else it was released before
            raise folder.gone() if FORGOTTEN.search(problems[job]) else OpError("refused", problems[job])
        return _accept(folder, at)

    return [answer or site.answer(op, accept) for op, answer in zip(ops, answers)]


def _ready(site: Site, op: Json, jobs: Dict[str, str], live: Live, folder: Folder) -> Json:
    """Note the job before its release; returns the answer for a failed need, else {}. Raises OpError."""
    if is_decided(folder):
        return {}
    own(folder, op.get("nonce"))
    if "created" not in folder.names():
        raise OpError("state", f"{folder.app_id} has not been created")
    skip = _skip_now(site, folder, live)
    if skip is not None:
        return skip
    row = site.live_job(folder)
    if row is None and "job" not in (folder.json("started") or {}):
        raise folder.gone()
    if row is not None and row.held:
        jobs[folder.app_id] = row.job
    return {}


def _release(site: Site, jobs: Sequence[str]) -> Dict[str, str]:
    """Release held jobs; job → why Slurm refused the release."""
    if not jobs:
        return {}
    code, _, err = site.slurm.run(["scontrol", "release", ",".join(_words(site, jobs))])
    if code and len(jobs) > 1:
        return {job: why for each in jobs for job, why in _release(site, [each]).items()}
    return {jobs[0]: refusal(err)} if code else {}


def _words(site: Site, jobs: Sequence[str]) -> List[str]:
    """The jobs as words for scontrol: an array with all of its tasks among them is one word."""
    given = set(jobs)
    arrays = {job.partition("_")[0] for job in jobs if "_" in job}
    tasks = {each: site.of_array(each) for each in arrays}
    whole = {each for each in arrays if tasks[each] and given.issuperset(tasks[each])}
    return sorted(whole) + [job for job in jobs if job.partition("_")[0] not in whole]


def _accept(folder: Folder, at: float) -> Json:
    names = folder.names()
    is_noted = True
    if not names & {"outcome", "submitted"}:
        try:
            folder.write("submitted", json.dumps({"at": at}))
        except OSError as error:
            if not is_full(error):
                raise
            is_noted = False  # the queue shows that the job was released
    if is_noted:
        for name in names:
            if name == "owner" or name.startswith("owner."):
                folder.unlink(name)
        folder.seal()
    state, created = folder.state(), folder.json("created") or {}
    if state in ("created", "queued"):
        state = "waiting" if created.get("waits") else "queued"
    return {"state": state}


def _skip_now(site: Site, folder: Folder, live: Live) -> Optional[Json]:
    """The answer for an app whose need has not succeeded, or was forgotten by Slurm, which drops the
    dependency on such a job, so that the app's job would start."""
    ends = []
    for app_id, name in ((folder.json("created") or {}).get("waits") or {}).items():
        state, need_job = need_of(site, app_id)
        if not state and (app_id, need_job) not in live():
            state = need_of(site, app_id)[0] or "lost"
        ends.append((name, state))
    return _skipped(folder, ends, partial(cancel_jobs, site, folder))


# -- whether Slurm would take jobs ---------------------------------------------------------------------------

# `sbatch --test-only` is a rehearsal of the scheduler on the nodes that are available now. So it refuses for
# lack of nodes also what sbatch would take and let wait for a node that is down or drained; every other
# refusal is sbatch's own.


NO_NODES = "Requested node configuration is not available"
UP = frozenset({"alloc", "comp", "idle", "mix", "plnd", "resv"})
"""The states of the nodes that `--test-only` counts as available."""
AT_REST = "~#-"
"""Flags after the state of an available node: it is powered down, coming up, or planned for a job."""


def check(site: Site, op: Json) -> Json:
    """Ask about each of `jobs`: a script, the partitions that it names ("" for the default), and whether one
    node has to hold all of it. Answers are {} for a job that Slurm takes, `refused`, or `unchecked`: why."""
    return {"answers": [_answer(site, job) for job in op["jobs"]]}


def _answer(site: Site, job: Json) -> Dict[str, str]:
    try:
        code, out, err = site.slurm.run(["sbatch", "--test-only"], SUBMIT_S, text=job["script"])
        if code == 0:
            return {} if "to start at" in err else {"unchecked": one_line(err or out)}
        why = refusal(err or out)
        doubt = _doubt(site, job) if NO_NODES in err else None
    except OpError as error:
        return {"unchecked": str(error)}
    if BUSY.search(err):
        return {"unchecked": why}
    return {"refused": why} if doubt is None else {"unchecked": f"{why}, and {doubt}"}


def _doubt(site: Site, job: Json) -> Optional[str]:
    """Return why Slurm may take the job later: nodes that are unavailable now; None where these would not do.

    For a job of one node, an unavailable node is no better than an available one of the same kind.
    """
    of_partition = ["-p", job["partition"]] if job["partition"] else []
    argv = ["sinfo", "-h", "-a", "-N", *of_partition, "-o", "%P\x1f%n\x1f%t\x1f%a\x1f%c\x1f%m\x1f%G\x1f%f"]
    nodes = [line.split("\x1f") for line in site.slurm.read(argv).splitlines()]
    wanted = [node for node in nodes if job["partition"] or node[0].endswith("*")]
    away = [node for node in wanted if not _is_available(node)]
    if not wanted:
        return "its partition has no nodes"
    if job["one_node"]:
        kinds = {tuple(node[4:]) for node in wanted if _is_available(node)}
        away = [node for node in away if tuple(node[4:]) not in kinds]
    count = len({node[1] for node in away})
    return (
        f"{count} of its partition's nodes {'is' if count == 1 else 'are'} down or drained" if away else None
    )


def _is_available(node: Sequence[str]) -> bool:
    return node[3] == "up" and node[2].rstrip(AT_REST) in UP
