"""`launcher describe`: show all details of an app, including its document."""

from __future__ import annotations

from launcher.cli.arguments import add_app

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from launcher.cli.console import Console

USAGE = "describe APP [-t TARGET] [--json]"
HELP = """\
Show all details of an app: its state, where it came from, the attempts of other
jobs that it stands on, and its document: what runs, in the normal form from
which the digest is computed."""
EXAMPLES = """\
  launcher describe train
  launcher describe train@2 --json | jq .document"""


def add_arguments(parser: Any) -> None:
    add_app(parser)
    parser.option("--json", "print one JSON object")


def run(args: Any, console: Console) -> int:
    from launcher.inventory.find import find_app
    from launcher.inventory.status import about, inspect

    app = find_app(args.app, args.target)
    found = inspect(app)
    more = dict(about(app))
    if args.json:
        from launcher.cli.render.apps import status_json

        console.json({**status_json(found), **more})
        return 0
    from launcher.cli.render.status_text import status_text

    document = more.pop("document", None)
    facts = {name.replace("_", " "): _text(value) for name, value in more.items() if value}
    console.print(status_text(found, more=facts, color=console.color))
    if document:
        from launcher.cli.render.document import flat
        from launcher.text import paint

        console.print("\n" + paint("DOCUMENT", "dim", console.color))
        for line in flat(document):
            console.print(line)
    return 0


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, list):  # a list has the states of needs
        return ", ".join(
            f"{each['job']}@{each['attempt']} (edition {each['edition']}"
            f"{', rerun: never' if 'rerun' in each else ''})"
            for each in value
        )
    return str(value)
