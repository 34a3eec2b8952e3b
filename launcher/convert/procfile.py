"""A Procfile as a job: each process type is a role."""

from __future__ import annotations

import os
import re

from launcher.convert.draft import Draft, label
from launcher.errors import LauncherError
from launcher.jobfile.text.document import Source

_LINE = re.compile(r"(?P<name>[A-Za-z0-9_-]+):\s*(?P<command>\S.*)")
_RELEASE = "release"
_FIRST_PORT = 5000
_PORT = re.compile(r"\$(?:PORT\b|\{PORT\b)")


def processes(text: str) -> dict[str, str] | None:
    """Process type → command; None for text that is no Procfile."""
    found: dict[str, str] = {}
    for line in map(str.strip, text.split("\n")):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        found[match["name"]] = match["command"]
    return found or None


def convert(source: Source, name: str = "") -> Draft:
    """The draft of the job. Raises LauncherError for text that is no Procfile."""
    given = processes(source.text)
    if given is None:
        hint = "each line is `NAME: COMMAND`, empty, or a comment"
        raise LauncherError(f"{source.file} is no Procfile", hint=hint)
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
