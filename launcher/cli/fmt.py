"""`launcher fmt`: format job files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launcher.cli.console import Console
from launcher.cli.rewrite import Rewrite, prepare, write
from launcher.errors import JobFileError, LauncherError
from launcher.jobfile import render
from launcher.text import paint, plural

USAGE = "fmt [FILE…] [--check]"
HELP = """\
Format job files: keys in a fixed order, one kind of quotes, two spaces of
indentation. Comments stay, and so does the order of roles, arguments and other
names of your own.

A directory stands for every *.launcher.yaml, .launcher.yml and .launcher.toml
file below it; the default is the current directory. Formatting never changes
the digest of a job: fmt verifies that before it writes a file."""
EXAMPLES = """\
  launcher fmt
  launcher fmt jobs/train.launcher.yaml
  launcher fmt --check jobs/    # in CI: a diff and exit code 1"""

WOULD_CHANGE = 1


def add_arguments(parser: Any) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="job files or directories")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; show the changes and exit with 1 if there are any",
    )


def run(args: Any, console: Console) -> int:
    found, refused = prepare(args.files or ["."])
    changed = [rewrite for rewrite in found if rewrite.is_change]
    written: list[Rewrite] = []
    for rewrite in changed:
        if args.check:
            _show_diff(rewrite, console)
            continue
        try:
            write(rewrite)
        except LauncherError as error:
            refused.append(error)
            continue
        written.append(rewrite)
        console.print(f"formatted {rewrite.file}")
    unchanged = len(found) - len(changed)
    _report(len(changed) if args.check else len(written), unchanged, refused, console, is_check=args.check)
    if refused:
        return max(error.exit_code for error in refused)
    return WOULD_CHANGE if args.check and changed else 0


def _report(
    changed: int, unchanged: int, refused: Sequence[LauncherError], console: Console, *, is_check: bool
) -> None:
    console.flush()
    for error in refused:
        if isinstance(error, JobFileError):
            console.note(render(error.diagnostics, color=console.err_color) + "\n")
        else:
            console.error(error)
    verb = "would change" if is_check else "formatted"
    parts = [f"{plural(changed, 'file')} {verb}"] if changed else []
    parts += [f"{plural(unchanged, 'file')} unchanged"] if unchanged else []
    if parts:
        console.note(", ".join(parts))


def _show_diff(rewrite: Rewrite, console: Console) -> None:
    from difflib import unified_diff

    styles = {"---": "bold", "+++": "bold", "@@ ": "cyan", "+": "green", "-": "red"}
    old, new = rewrite.before.splitlines(keepends=True), rewrite.after.splitlines(keepends=True)
    for line in unified_diff(old, new, rewrite.file, f"{rewrite.file} (formatted)"):
        style = next((style for start, style in styles.items() if line.startswith(start)), "")
        console.print(paint(line.rstrip("\r\n"), style, console.color))
        if not line.endswith("\n"):
            console.print(r"\ no newline at the end of the file")
