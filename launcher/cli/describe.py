"""`launcher describe`: everything that is known of one app, its document included."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console
    from launcher.specs.attempt import Attempt
    from launcher.state.records import AppRecord

USAGE = "describe APP [--json]"
HELP = """\
Show everything that is known of an app: its state, where it came from, and the
document that it runs, in the normal form that its digest is made of."""
EXAMPLES = """\
  launcher describe train
  launcher describe train@2 --json | jq .document"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("app", metavar="APP", help="a job's name, JOB@ATTEMPT, an app id or a handle")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.find import whole
    from launcher.inventory.status import inspect

    app = whole(args.app)
    found = inspect(app)
    about = _about(app)
    if args.json:
        from json import dumps

        from launcher.cli.render.apps import status_json

        console.print(dumps({**status_json(found), **about}, indent=2, ensure_ascii=False))
        return 0
    from launcher.cli.render.status_text import status_text

    document = about.pop("document", None)
    facts = {name.replace("_", " "): _text(value) for name, value in about.items() if value}
    console.print(status_text(found, more=facts, color=console.color))
    if document:
        from launcher.cli.render.document import flat
        from launcher.text import paint

        console.print("\n" + paint("DOCUMENT", "dim", console.color))
        for line in flat(document):
            console.print(line)
    return 0


def _about(app: AppRecord) -> dict[str, Any]:
    """Origin and document, from the ledger, from the local record, or from the engine."""
    from launcher.inventory import recorded

    attempt = recorded.attempt(app.app_id)
    if attempt is None or attempt.handle != app.handle:
        from launcher.inventory.ends import LOCAL

        if app.scheduler in LOCAL:
            return _from_local(app)
        attempt = _from_engine(app)
    if attempt is None:
        return {}
    return {
        "origin": attempt.origin,
        "path": attempt.path,
        "commit": attempt.commit,
        "actor": attempt.actor,
        "action": attempt.action,
        "plan_digest": attempt.plan_digest,
        "metadata": dict(attempt.metadata),
        "digest": attempt.digest,
        "document": dict(attempt.document),
    }


def _from_local(app: AppRecord) -> dict[str, Any]:
    from launcher import paths
    from launcher.schedulers.local import attemptfile, rundir

    record = attemptfile.read(rundir.app_dir(paths.local(), app.app_id)) or {}
    return {name: record[name] for name in ("metadata", "digest", "document") if record.get(name)}


def _from_engine(app: AppRecord) -> Attempt | None:
    from launcher.inventory.find import scheduler_of
    from launcher.schedulers.staged import StagedScheduler

    scheduler = scheduler_of(app)
    return scheduler.attempt(app.app_id) if isinstance(scheduler, StagedScheduler) else None


def _text(value: Any) -> str:
    return (
        ", ".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else str(value)
    )
