"""Gather the facts of many apps with one look at the queue."""

import json
import os
import re
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from launcher.schedulers.slurm.site.agent.site import (
    NAME,
    SECOND_LOOK_S,
    Folder,
    Site,
    is_removed,
    is_sealed,
    need_of,
    replace,
)
from launcher.schedulers.slurm.site.agent.slurm import OVER, OpError, Row, code_and_signal
from launcher.schedulers.slurm.site.shared import ARRAY_SCRIPT, OUTPUT, Json, array_name, last_output

Rows = Dict[str, List[Row]]
"""App id → its rows of squeue."""

_FILES = ("attempt.json", "created", "submitted", "started", "cancel", "outcome")
_FEW = 8  # apps whose own files are read sooner than the cache of all
FAILED = {"BOOT_FAIL", "FAILED"}  # states whose exit code gives the reason


def observe(site: Site, op: Json) -> Json:
    """The facts of the requested apps: `app_ids`, or all live ones, and the latest of `latest_of`.

    With `queue`, apps with an outcome have their rows, too: their jobs may not be gone yet. With `look`
    false, Slurm is not asked, else by two calls of squeue and one of sacct. `queued`: see `queued_apps`.

    Raises OpError where Slurm does not answer, with facts by files alone, whose `unanswered` says why.
    """
    asked, settled = op.get("app_ids"), set(op.get("settled") or ())
    rows: Optional[Rows] = None
    if op.get("queued"):
        with suppress(OpError):  # if Slurm fails, `look` asks again
            rows = rows_by_app(site)
    queued = [] if rows is None else queued_apps(site, rows, op["queued"])
    answered = {app_id for group in queued for app_id in group["jobs"]}
    every = site.app_ids()
    there = every if asked is None else sorted(set(asked).intersection(every))
    ids = [each for each in there if each not in answered]
    ended = Ended(site, ids)
    wanted = [each for each in ids if each not in settled]
    if asked is None and not op.get("ended"):
        latest = ended.latest([tuple(key) for key in op.get("latest_of") or ()])
        wanted = [each for each in wanted if each not in ended.stamps or each in latest]
    live = [each for each in wanted if each not in ended.stamps or op.get("queue")]
    apps: Dict[str, Json] = {}
    for app_id in wanted:
        if app_id in ended.stamps:
            _add(apps, app_id, ended.facts, app_id, bool(op.get("replicas")))
    if live:
        _add_live(site, op, live, rows, apps)
    ended.save()
    return {"apps": apps, "queued": queued}


def _add(apps: Dict[str, Json], app_id: str, read: Callable[..., Json], *args: Any) -> None:
    """Add the facts that `read` returns; none for an app that is gone by now, or whose files are damaged."""
    apps.pop(app_id, None)
    with suppress(OpError):
        apps[app_id] = read(*args)


def _add_live(
    site: Site, op: Json, app_ids: Sequence[str], rows: Optional[Rows], apps: Dict[str, Json]
) -> None:
    """Add the facts of apps that may be live, as `observe` says."""
    replicas, why = bool(op.get("replicas")), None  # type: bool, Optional[OpError]
    if op.get("look", True):
        try:
            apps.update(look(site, app_ids, replicas, rows))
            return
        except OpError as error:
            why = error
    for app_id in app_ids:
        _add(apps, app_id, read_app, site, app_id, replicas)
    if why is not None:
        for app_id in apps.keys() & set(app_ids):
            apps[app_id]["unanswered"] = str(why)
        raise OpError(why.kind, str(why), apps=apps) from why


def look(
    site: Site, app_ids: Sequence[str], replicas: bool = False, rows: Optional[Rows] = None
) -> Dict[str, Json]:
    """The facts of apps that may be live. `rows`: the queue, where it has been read already.

    The queue is read first: an app that is not in it then has written its outcome, unless it died.
    """
    apps: Dict[str, Json] = {}

    def read(ids: Sequence[str], rows: Rows) -> None:
        for app_id in ids:
            _add(apps, app_id, read_app, site, app_id, replicas, rows.get(app_id, []))
        _explain(site, [facts for facts in apps.values() if _has_left(facts)], rows)

    read(app_ids, rows_by_app(site) if rows is None else rows)
    unexplained = [app_id for app_id, facts in apps.items() if _is_unexplained(facts)]
    if unexplained:
        time.sleep(SECOND_LOOK_S)
        read(unexplained, rows_by_app(site))
        for app_id in unexplained:
            if app_id in apps and _is_unexplained(apps[app_id]):
                apps[app_id]["vanished"] = True
    for facts in filter(_cannot_start, apps.values()):
        facts.update(vanished=True, ended={"end": time.time()})
    for app_id, facts in apps.items():
        if facts["vanished"] and facts["outcome"] is None:
            with suppress(OpError), site.open(app_id) as folder:  # it may be being removed
                facts.update(events=folder.events(), said=last_output(folder.path))
    return apps


def _has_left(facts: Json) -> bool:
    """Whether the app's job should be in the queue, and is not."""
    if facts["outcome"] is not None or facts["queue"] or facts["job"] is None:
        return False
    return facts["started"] is None or "job" in facts["started"]


def _is_unexplained(facts: Json) -> bool:
    return (_has_left(facts) and facts["ended"] is None) or _is_queued_again(facts)


def _is_queued_again(facts: Json) -> bool:
    """Whether a job that has run the app, and must not be requeued, waits to run it again.

    A killed controller came back with an older state. Two looks must see this: the job may start between the
    look at the queue and the look at the folder.
    """
    cfg = (facts["attempt"].get("document") or {}).get("cfg") or {}
    waits = facts["queue"] and all(row["state"] == "PENDING" for row in facts["queue"])
    has_run = "job" in (facts["started"] or {}) and facts["outcome"] is None
    return bool(waits) and has_run and cfg.get("on_preempted") != "requeue"


def _cannot_start(facts: Json) -> bool:
    """Whether an app waits for an app that did not succeed, which Slurm may notice only much later."""
    waits = facts["submitted"] is not None and facts["started"] is None and facts["outcome"] is None
    unmet = [state for state in facts["needs"].values() if state not in ("", "succeeded", "removed")]
    return bool(waits and unmet and facts["queue"]) and all(
        row["state"] == "PENDING" for row in facts["queue"]
    )


def _explain(site: Site, left: List[Json], rows: Rows) -> None:
    """Add the ends of the jobs of these apps, which have left the queue. `rows`: all of the queue."""
    failed = [facts for facts in left if facts["ended"] is not None and facts["ended"]["state"] in FAILED]
    if failed:
        exits = site.slurm.column("exit_code", [facts["job"] for facts in failed])
        for facts in failed:
            facts["ended"]["exit"] = code_and_signal(exits.get(facts["job"], ""))
    names = {
        facts["job"]: array_name(facts["array"]) if facts["array"] else str(facts["attempt"].get("app_id"))
        for facts in left
    }
    accounts = site.slurm.accounts(names) if names else {}
    for facts in left:
        found = accounts.get(facts["job"])
        if found is not None and found["state"] in OVER:
            facts["ended"] = dict(found, **(facts["ended"] or {}))
        elif facts["ended"] is None and _is_cancelled_task(site, facts, rows):
            facts["ended"] = {"state": "CANCELLED", "end": time.time()}
        facts["vanished"] = facts["ended"] is not None and facts["submitted"] is not None


def _is_cancelled_task(site: Site, facts: Json, rows: Rows) -> bool:
    """Whether an app was cancelled in the queue as a task of an array that Slurm knows, without that task.

    Slurm keeps no record of such a task, and shows an array whose tasks were all cancelled as one job.
    """
    if not facts["array"] or facts["started"] is not None:
        return False
    job = facts["job"].partition("_")[0]
    script = os.path.join(site.arrays, facts["array"], ARRAY_SCRIPT)
    every = (row for of_app in rows.values() for row in of_app)
    is_known = any((row.job.partition("_")[0], row.command) == (job, script) for row in every)
    return is_known and not os.path.exists(os.path.join(facts["folder"], OUTPUT))


# -- apps that a client knows to be queued: a plan may ask for thousands -------------------------------------


def rows_by_app(site: Site) -> Rows:
    """Ask Slurm for the jobs of all apps. Raises OpError."""
    by_app: Rows = {}
    for row in site.slurm.rows():
        by_app.setdefault(row.app_id, []).append(row)
    return by_app


def queued_apps(site: Site, rows: Rows, known: Mapping[str, float]) -> List[Json]:
    """The known apps that wait in the queue for nothing but their turn, grouped by the state of their rows.

    Each group has a `row`, as in the facts of an app, and `jobs`, a JSON object app id → job. `known` has the
    creation time of each attempt, epoch seconds: another attempt may have the same id.
    """
    groups: Dict[Tuple[Any, ...], Json] = {}
    ours: Dict[str, bool] = {}  # script → whether it is below this job directory
    for app_id, created_at in known.items():
        live = [row for row in rows.get(app_id, ()) if not row.is_over]
        if len(live) != 1 or not NAME.match(app_id):
            continue
        (row,) = live
        if row.state != "PENDING" or row.held or row.dependency:
            continue
        if row.command not in ours:
            ours[row.command] = site.scripts(row)
        if ours[row.command] and is_sealed(f"{site.apps}/{app_id}", created_at):
            group = groups.get(row[2:-1])  # all but its owner, its job and the command, which names both
            if group is None:
                group = groups[row[2:-1]] = {"row": queue_row(row), "jobs": {}}
            group["jobs"][app_id] = row.job
    return list(groups.values())


def queue_row(row: Row) -> Json:
    names = ("job", "state", "reason", "held", "dependency", "start_at")
    return {name: getattr(row, name) for name in names}


# -- the facts of one app: its files, and its rows of the queue ----------------------------------------------


def read_app(site: Site, app_id: str, replicas: Any = False, rows: Optional[List[Row]] = None) -> Json:
    """The facts of one app. rows: this app's rows of squeue, if asked.

    An app whose removal has begun was not submitted, and belongs to the client that removes it: where that
    has died, the next one completes the removal.
    """
    with site.open(app_id) as folder:
        found, remover = _files(folder)
        started, identity = found["started"], folder.identity
        job = None if remover else (started or {}).get("job") or folder.job() or None
        mine = [row for row in rows or () if row.owner == identity]
        live = [row for row in mine if not row.is_over and (job is None or row.job == job)]
        over = [row for row in mine if row.is_over and row.job == job]
        created = found["created"] or {}
        submitted = (found["submitted"] or {}).get("at")
        if submitted is None and remover is None:
            submitted = _released_at(live, started or {})
        needs = created.get("needs", ()) if found["outcome"] is None else ()
        facts: Json = {
            "attempt": found["attempt.json"],
            "folder": folder.path,
            "owner": None if found["submitted"] else _owner(folder, remover),
            "created": created.get("at"),
            "array": created.get("array"),
            "job": job or (live[0].job if live else None),
            "submitted": submitted,
            "started": started,
            "cancel": found["cancel"],
            "outcome": found["outcome"],
            "queue": [queue_row(row) for row in live],
            "ended": _end(over[0]) if over and not live else None,
            "vanished": False,
            "needs": {each: _need_state(site, each) for each in needs},
        }
        if replicas:
            add_replicas(folder, facts)
        return facts


def _files(folder: Folder) -> Tuple[Dict[str, Any], Optional[Json]]:
    """The JSON of the files of an app, None for a missing one; and the owner that removes the app, if any."""
    names = folder.names()
    found: Dict[str, Any] = {name: folder.json(name) if name in names else None for name in _FILES}
    if found["attempt.json"] is None:
        raise OpError("state", f"{folder.path} has no attempt.json")
    if found["started"] is None or not is_removed(found["started"]):
        return found, None
    return dict(found, started=None), found["started"]


def _owner(folder: Folder, remover: Optional[Json]) -> Optional[Json]:
    """The client that submits or removes the app, with the seconds since its last act; None for none."""
    found = remover or folder.owner()[0]
    return found and dict(found, quiet_s=folder.quiet_s())


def _released_at(live: List[Row], started: Json) -> Any:
    """The time at which a client released the job, without a record since it was killed; None if none did."""
    free = [row.submitted_at for row in live if not row.held]
    return free[0] if free else started.get("at")


def add_replicas(folder: Folder, facts: Json) -> None:
    """Add the events of an app, unless its outcome has its replicas; and the records of its wrappers.

    Of a live app only those with an error file; of any other app all: its conductor may have died.
    """
    if not (facts["outcome"] or {}).get("replicas"):
        facts["events"] = folder.events()
        facts["replicas"] = list(_replicas(folder.path, ".error" if facts["queue"] else ".json"))


def _need_state(site: Site, app_id: str) -> str:
    try:
        return need_of(site, app_id)[0]
    except OpError:
        return ""


def _end(row: Row) -> Json:
    """The end of a job that Slurm remembers; the exit code needs another request to Slurm."""
    times = {"start": row.start_at, "end": row.end_at}
    return dict(times, state=row.state, exit="", reason=row.reason, nodes=row.nodes)


def _replicas(path: str, suffix: str) -> Iterator[Json]:
    """The records of replicas, by role and number, that have a file with this suffix."""
    root = os.path.join(path, "replicas")
    for role in sorted(os.listdir(root)) if os.path.isdir(root) else ():
        with Folder(os.path.join(root, role)) as folder:
            numbered = map(re.compile(rf"(\d+)\{suffix}\Z").match, folder.names())
            for k in sorted(int(each.group(1)) for each in numbered if each):
                found = folder.json(f"{k}.json")
                if found is not None:
                    yield found


# -- apps that have ended ------------------------------------------------------------------------------------


class Ended:
    """The apps with an outcome, and the cache of their facts: `<job_dir>/index`.

    A line holds a JSON array [app id, stamp of the outcome file, key, number], a tab, and the facts.
    """

    def __init__(self, site: Site, app_ids: Sequence[str]) -> None:
        self._site = site
        self._path = os.path.join(site.job_dir, "index")
        self.stamps: Dict[str, List[int]] = {}
        for app_id in app_ids:
            try:
                found = os.stat(os.path.join(site.apps, app_id, "outcome"))
            except OSError:
                continue
            self.stamps[app_id] = [found.st_ino, found.st_mtime_ns, found.st_size]
        self._lines: Dict[str, Tuple[List[Any], str]] = {}
        self._known = len(app_ids)
        if len(self.stamps) > _FEW:
            self._load()

    def _load(self) -> None:
        self._known = 0
        try:
            with open(self._path) as file:
                lines = file.read().splitlines()
        except (OSError, ValueError):
            return
        self._known = len(lines)
        for line in lines:
            head, tab, facts = line.partition("\t")
            try:
                header = json.loads(head)
                if tab and self.stamps.get(header[0], header[1]) == header[1]:
                    self._lines[header[0]] = (header, facts)
            except (ValueError, IndexError, TypeError, KeyError):
                continue

    def _line(self, app_id: str) -> Tuple[List[Any], str]:
        if app_id not in self._lines:
            facts = read_app(self._site, app_id)
            if facts["outcome"] is None:
                raise OpError("unknown-app", app_id)
            attempt = facts["attempt"]
            header = [app_id, self.stamps[app_id], attempt.get("key"), attempt.get("number", 0)]
            self._lines[app_id] = (header, json.dumps(facts))
        return self._lines[app_id]

    def facts(self, app_id: str, replicas: bool = False) -> Json:
        found: Json = json.loads(self._line(app_id)[1])
        if replicas:
            with self._site.open(app_id) as folder:
                add_replicas(folder, found)
        return found

    def latest(self, keys: Sequence[Tuple[str, ...]]) -> Set[str]:
        """The ended apps with the highest number of each of these keys."""
        best: Dict[Tuple[str, ...], Tuple[int, str]] = {}
        wanted = set(keys)
        for app_id in self.stamps if wanted else ():
            try:
                _, _, key, number = self._line(app_id)[0]
            except OpError:
                continue
            if key is not None and tuple(key) in wanted:
                best[tuple(key)] = max(best.get(tuple(key), (0, "")), (number, app_id))
        return {app_id for _, app_id in best.values()}

    def save(self) -> None:
        """Write the cache anew when that saves later calls enough time."""
        kept = {each: line for each, line in self._lines.items() if each in self.stamps}
        if len(kept) - self._known >= max(_FEW, self._known // 10):
            replace(
                self._path, "".join(json.dumps(head) + "\t" + text + "\n" for head, text in kept.values())
            )
