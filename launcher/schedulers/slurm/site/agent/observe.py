"""The facts of many apps, by one look at the queue."""

import time
from typing import Dict, List, Sequence

from launcher.schedulers.slurm.site.agent.ended import Ended
from launcher.schedulers.slurm.site.agent.facts import add_facts, read_app
from launcher.schedulers.slurm.site.agent.folder import Json, OpError
from launcher.schedulers.slurm.site.agent.rows import OVER, Row, code_and_signal
from launcher.schedulers.slurm.site.agent.site import SECOND_LOOK_S, Site

FAILED = {"BOOT_FAIL", "FAILED"}  # the exit code says why


def observe(site: Site, op: Json) -> Json:
    """The facts of the apps that are asked for: `app_ids`, or all live ones, and the latest of `latest_of`.

    With `queue`, the rows of apps that have an outcome, too: their jobs may not be gone yet. With `look`
    false, what the app directories say, and nothing of Slurm.

    Two squeue and one sacct at most for each look, whatever the number of apps.
    """
    asked, settled = op.get("app_ids"), set(op.get("settled") or ())
    every = site.app_ids()
    ids = every if asked is None else sorted(set(asked).intersection(every))
    ended = Ended(site, ids if asked is not None else every)
    wanted = [each for each in ids if each not in settled]
    if asked is None and not op.get("ended"):
        latest = ended.latest([tuple(key) for key in op.get("latest_of") or ()])
        wanted = [each for each in wanted if each not in ended.stamps or each in latest]
    live = [each for each in wanted if each not in ended.stamps or op.get("queue")]
    apps: Dict[str, Json] = {}
    errors: Dict[str, str] = {}
    for app_id in wanted:
        if app_id in ended.stamps:
            add_facts(apps, errors, app_id, ended.facts, app_id, bool(op.get("replicas")))
    out: Json = {"apps": apps}
    if not op.get("look", True):
        for app_id in live:
            add_facts(apps, errors, app_id, read_app, site, app_id, op.get("replicas"))
    elif live:
        try:
            apps.update(look(site, live, errors, bool(op.get("replicas"))))
        except OpError as error:
            for app_id in live:
                add_facts(apps, errors, app_id, read_app, site, app_id, op.get("replicas"))
            raise OpError(error.kind, str(error), apps=apps, errors=errors) from error
    ended.save()
    return dict(out, errors=errors) if errors else out


def look(
    site: Site, app_ids: Sequence[str], errors: Dict[str, str], replicas: bool = False
) -> Dict[str, Json]:
    """The facts of apps that may be live.

    The queue is read first: an app that is not in it then has written its outcome, unless it died.
    """
    apps: Dict[str, Json] = {}
    _look(site, app_ids, replicas, apps, errors)
    unexplained = [app_id for app_id, facts in apps.items() if _is_unexplained(facts)]
    if unexplained:
        time.sleep(SECOND_LOOK_S)
        _look(site, unexplained, replicas, apps, errors)
        for app_id in unexplained:
            if app_id in apps and _is_unexplained(apps[app_id]):
                apps[app_id]["vanished"] = True
    for app_id, facts in apps.items():
        if facts["vanished"] and facts["outcome"] is None:
            _add_events(site, app_id, facts)
    return apps


def _add_events(site: Site, app_id: str, facts: Json) -> None:
    """Add what the conductor of an app has recorded before it died."""
    try:
        with site.open(app_id) as folder:
            facts["events"] = folder.events()
    except OpError:
        pass  # it is being removed


def _look(
    site: Site, app_ids: Sequence[str], replicas: bool, apps: Dict[str, Json], errors: Dict[str, str]
) -> None:
    by_app: Dict[str, List[Row]] = {}
    for row in site.slurm.rows():
        by_app.setdefault(row.app_id, []).append(row)
    for app_id in app_ids:
        apps.pop(app_id, None)
        add_facts(apps, errors, app_id, read_app, site, app_id, replicas, by_app.get(app_id, []))
    _explain(site, [facts for facts in apps.values() if _has_left(facts)])


def _has_left(facts: Json) -> bool:
    """Whether its job should be in the queue, and is not."""
    if facts["outcome"] is not None or facts["queue"] or facts["job"] is None:
        return False
    return facts["started"] is None or "job" in facts["started"]


def _is_unexplained(facts: Json) -> bool:
    return (_has_left(facts) and facts["ended"] is None) or _is_queued_again(facts)


def _is_queued_again(facts: Json) -> bool:
    """Whether a job that has run the app, and may not be requeued, waits to run it again.

    Its controller was killed, and came back with what it had written down before the start. Seen twice: the
    job may start between the look at the queue and the look at the folder.
    """
    cfg = (facts["attempt"].get("document") or {}).get("cfg") or {}
    waits = facts["queue"] and all(row["state"] == "PENDING" for row in facts["queue"])
    has_run = "job" in (facts["started"] or {}) and facts["outcome"] is None
    return bool(waits) and has_run and cfg.get("on_preempted") != "requeue"


def _explain(site: Site, left: List[Json]) -> None:
    """Add how the jobs of these apps ended that have left the queue."""
    failed = [facts for facts in left if facts["ended"] is not None and facts["ended"]["state"] in FAILED]
    if failed:
        exits = site.slurm.column("exit_code", [facts["job"] for facts in failed])
        for facts in failed:
            facts["ended"]["exit"] = code_and_signal(exits.get(facts["job"], ""))
    forgotten = {facts["job"]: facts["attempt"].get("app_id") for facts in left if facts["ended"] is None}
    accounts = site.slurm.accounts(forgotten) if forgotten else {}
    for facts in left:
        found = accounts.get(facts["job"])
        if found is not None and found["state"] in OVER:
            facts["ended"] = found
        facts["vanished"] = facts["ended"] is not None and facts["submitted"] is not None
