"""A Procfile as a job: each process type is a role."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from launcher.convert.draft import Draft, label
from launcher.errors import LauncherError
from launcher.jobfile.text.document import Source

_LINE = re.compile(r"(?P<name>[A-Za-z0-9_-]+):\s*(?P<command>\S.*)")
_RELEASE = "release"
_FIRST_PORT = 5000
_PORT = re.compile(r"\$(?:PORT\b|\{PORT\b)")


def is_procfile(text: str) -> bool:
    """Whether a text has lines of processes, and otherwise only comments."""
    matches = [match for _, match in _lines(text)]
    return bool(matches) and None not in matches


def _lines(text: str) -> Iterator[tuple[int, re.Match[str] | None]]:
    """Yield the number and the match of each line that is neither empty nor a comment."""
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if line and not line.startswith("#"):
            yield number, _LINE.fullmatch(line)


def _processes(source: Source) -> dict[str, str]:
    """Return process type → command. Raises LauncherError for text that is no Procfile."""
    found: dict[str, str] = {}
    hint = "each line is `NAME: COMMAND`, empty, or a comment"
    for number, match in _lines(source.text):
        if match is None:
            raise LauncherError(f"{source.file}:{number}: this line is no `NAME: COMMAND`", hint=hint)
        if found.setdefault(match["name"], match["command"]) != match["command"]:
            raise LauncherError(f"{source.file}:{number}: process `{match['name']}` stands twice")
    if not found:
        raise LauncherError(f"{source.file} has no process", hint=hint)
    return found


def convert(source: Source, name: str = "") -> Draft:
    """Return the draft of the job. Raises LauncherError for text that is not a Procfile."""
    given = _processes(source)
    folder = os.path.basename(os.path.dirname(os.path.abspath(source.file)))
    draft = Draft(source.file, {"name": name or label(folder)})
    draft.put(("roles",), {})
    names = {each: label(each) for each in given}
    if len(set(names.values())) < len(names):
        raise LauncherError(f"{source.file}: two names of processes differ in letters that roles do not have")
    for index, (each, command) in enumerate(given.items()):
        _role(names[each], command, _FIRST_PORT + 100 * index, draft)
        if each != _RELEASE and _RELEASE in given:
            draft.put(("roles", names[each], "depends_on"), {_RELEASE: "succeeded"})
    draft.note(
        (), "It ends when each role has ended with 0, or one has failed; foreman ends with the first one."
    )
    draft.note((), "A file `.env` is not read: name each variable that the commands need in `env`.")
    return draft


def _role(role: str, command: str, port: int, draft: Draft) -> None:
    draft.put(("roles", role), {})
    draft.script(role, command, "-c")
    if _PORT.search(command):
        draft.put(("roles", role, "env", "PORT"), str(port))
        draft.note(("roles", role, "env", "PORT"), "the port that foreman gives this process")
        draft.put(("roles", role, "port_map"), {"http": port})
