"""`launcher describe`: everything that is known of one app, its document included."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from launcher.cli.apps import App
    from launcher.cli.console import Console

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
    from launcher.cli.apps import whole
    from launcher.cli.inspect_app import inspect

    app = whole(args.app)
    found = inspect(app)
    about = _about(app)
    if args.json:
        from json import dumps

        console.print(dumps({**found.to_json(), **about}, indent=2, ensure_ascii=False))
        return 0
    from launcher.cli.render.status_text import status_text

    console.print(status_text(found, color=console.color))
    facts = {name: value for name, value in about.items() if name != "document" and value}
    for name, value in facts.items():
        console.print(f"{name}: {value}" if not isinstance(value, dict) else f"{name}: {_inline(value)}")
    if about.get("document"):
        console.print("\n" + _document_text(about["document"], console.color))
    return 0


def _about(app: App) -> dict[str, Any]:
    """Origin and document, from the ledger or from the local record."""
    from launcher.state.ledger import Ledger

    with Ledger.open(readonly=True) as ledger:
        attempt = ledger.by_app_id(app.app_id)
    if attempt is None or attempt.handle != app.handle:
        return _from_local(app)
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


def _from_local(app: App) -> dict[str, Any]:
    from launcher.cli.inventory import LOCAL

    if app.scheduler not in LOCAL:
        return {}
    from launcher import paths
    from launcher.schedulers.local import attemptfile, rundir

    record = attemptfile.read(rundir.app_dir(paths.local(), app.app_id)) or {}
    return {name: record[name] for name in ("metadata", "digest", "document") if record.get(name)}


def _inline(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={text}" for key, text in value.items())


def _document_text(document: Mapping[str, Any], color: bool) -> str:
    """The document as lines `path = value`; literals under sensitive-looking names are left out."""
    from launcher.cli.console import paint
    from launcher.plan.diff import diff

    lines = [str(change).removeprefix("+ ") for change in diff({}, document)]
    return "\n".join([paint("document:", "dim", color), *(f"  {line}" for line in lines)])
