"""`launcher fmt`: format job files in memory, verify their digests, then replace them atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from launcher.cli.console import Console
from launcher.cli.render.findings import note, problems_json
from launcher.dataclass import dataclass
from launcher.errors import JobFileError, LauncherError
from launcher.files import PROJECT_FILE, make_like, new_file, remove_leftovers
from launcher.jobfile.compile.discover import find_files
from launcher.jobfile.compile.files import Environment, compile_files
from launcher.jobfile.format import Unformattable, format_text
from launcher.jobfile.text.document import Source, read_source
from launcher.jobfile.text.parse import parse
from launcher.specs import canonical
from launcher.text import paint, plural

if TYPE_CHECKING:
    from launcher.cli.render.findings import Problem

USAGE = "fmt [FILE…] [--check] [--json]"
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
    parser.option("--check", "write nothing; show the changes and exit with 1 if there are any")
    parser.option("--json", "print one JSON object, with the changes")


def run(args: Any, console: Console) -> int:
    found, refused = prepare(args.files or ["."])
    if args.json and not found and len(refused) == 1:
        raise refused[0][1]
    changed = [rewrite for rewrite in found if rewrite.is_change]
    written: list[Rewrite] = []
    for rewrite in changed:
        if args.check:
            if not args.json:
                show_diff(rewrite, console, "formatted")
            continue
        try:
            write(rewrite)
        except LauncherError as error:
            refused.append((rewrite.file, error))
            continue
        written.append(rewrite)
        if not args.json:
            console.print(f"formatted {rewrite.file}")
    unchanged = len(found) - len(changed)
    done = changed if args.check else written
    _report(len(done), unchanged, refused, console, is_check=args.check)
    code = WOULD_CHANGE if args.check and changed else 0
    if refused:
        code = max(error.exit_code for _, error in refused)
    if args.json:
        changes = [{"file": each.file, "diff": "\n".join(_diff(each, "formatted"))} for each in done]
        value = {"exit": code, "written": not args.check, "changed": changes, "unchanged": unchanged}
        value |= {"problems": problems_json(refused)}
        console.json(value)
    return code


def _report(
    changed: int, unchanged: int, refused: Sequence[Problem], console: Console, *, is_check: bool
) -> None:
    console.flush()
    for _, error in refused:
        if isinstance(error, JobFileError):
            note(error.diagnostics, console)
        else:
            console.error(error)
    verb = "would change" if is_check else "formatted"
    parts = [f"{plural(changed, 'file')} {verb}"] if changed else []
    parts += [f"{plural(unchanged, 'file')} unchanged"] if unchanged else []
    if parts:
        console.note(", ".join(parts))


def _diff(rewrite: Rewrite, what: str) -> Iterator[str]:
    """Yield the lines of the diff without line ends. `what` says how the new text was made: "formatted"."""
    from difflib import unified_diff

    old, new = rewrite.before.splitlines(keepends=True), rewrite.after.splitlines(keepends=True)
    for line in unified_diff(old, new, rewrite.file, f"{rewrite.file} ({what})"):
        yield line.rstrip("\r\n")
        if not line.endswith("\n"):
            yield r"\ no newline at the end of the file"


def show_diff(rewrite: Rewrite, console: Console, what: str) -> None:
    """Print the change of a file; `what` as in `_diff`."""
    styles = {"---": "bold", "+++": "bold", "@@ ": "cyan", "+": "green", "-": "red"}
    for line in _diff(rewrite, what):
        style = next((style for start, style in styles.items() if line.startswith(start)), "")
        console.print(paint(line, style, console.color))


BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A file, its text and its formatted text. `file` is the path as typed, `path` the absolute path."""

    file: str
    path: str
    before: str
    after: str

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def prepare(paths: Sequence[str]) -> tuple[list[Rewrite], list[Problem]]:
    """Format every job file in `paths`; return the results, and the files that cannot be formatted, with why.

    Raises JobFileError for a directory without job files.
    """
    files, missing = find_files(paths, os.getcwd())
    if missing:
        raise JobFileError(missing[0].message, diagnostics=missing)
    done: list[Rewrite] = []
    refused: list[Problem] = []
    for found in files:
        try:
            done.append(_prepared(found.file, found.path))
        except LauncherError as error:
            refused.append((found.file, error))
    return done, refused


def _prepared(file: str, path: str) -> Rewrite:
    if file.lower().endswith(".json"):
        raise Unformattable(f"{file}: cannot format JSON", hint="fmt formats YAML and TOML")
    source = read_source(file, path)
    if not isinstance(source, Source):
        raise JobFileError(source.message, diagnostics=[source])
    document = parse(source)
    if document.problems:
        raise JobFileError(document.problems[0].message, diagnostics=document.problems)
    return Rewrite(file, path, source.text, format_text(source, document))


def write(rewrite: Rewrite, check: Callable[[str], object] | None = None) -> None:
    """Replace the file atomically, after verifying the jobs that the new text defines.

    A link stays a link; the file keeps its mode and owner where the user may set them.

    Args:
        check: called with the path of the new file, beside the old one; raises LauncherError for a new one
            that may not replace it. By default, one that gives a job another digest.

    Raises Unformattable when a digest would change, LauncherError when the folder cannot be written.
    """
    path = os.path.realpath(rewrite.path)
    folder, name = os.path.split(path)
    # Hidden, so that no command reads it as a job file.
    beside = os.path.join(folder, f".{os.getpid()}-{name}")
    try:
        with open(path, "rb") as stream:
            data = stream.read()
        mark = BOM if data.startswith(BOM) else b""
        if data != mark + rewrite.before.encode():
            verb = "formatted" if check is None else "edited"
            raise Unformattable(f"{rewrite.file}: the file changed while it was {verb}", hint="try again")
        remove_leftovers(os.path.join(folder, "."), f"-{name}")
        with open(new_file(beside, 0o666), "wb") as stream:
            stream.write(mark + rewrite.after.encode())
            stream.flush()
            os.fsync(stream.fileno())
        make_like(path, beside)
        if name != PROJECT_FILE:
            if check is not None:
                check(beside)
            elif _digests(beside) != _digests(path):
                problem = f"{rewrite.file}: cannot be formatted: the digest of its job would change"
                raise Unformattable(problem, hint="nothing was changed")
        os.replace(beside, path)
    except OSError as error:
        raise LauncherError(f"cannot write {rewrite.file}: {error.strerror or error}") from error
    finally:
        if os.path.lexists(beside):
            os.unlink(beside)


def _digests(path: str) -> list[str]:
    """The digests of the jobs of one file; none for an invalid file. Unset variables get placeholders.

    Calls no component of the checkout: formatting must not run code.
    """
    compiled = compile_files([path], environment=Environment(components=False), placeholders=True)
    return [canonical.digest_of(launch) for launch in compiled.launches]
