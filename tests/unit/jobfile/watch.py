"""A program that compiles job files and prints which looks at the world are not noted, as JSON.

It watches every function of `os` that looks, every file that is opened, every process that is started and
every look at the environment.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from launcher import looks
from launcher.jobfile import Environment, compile_files
from launcher.jobfile.compile import compiled as kept
from launcher.paths import IMPORT_ROOT
from launcher.schedulers.registry import SchedulerRules

LOOKS = ("stat", "lstat", "readlink", "access", "getcwd", "listdir", "scandir", "getlogin", "umask", "uname")
EVENTS = {"open", "os.listdir", "os.scandir", "subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"}
EVENTS |= {"socket.connect", "socket.getaddrinfo", "time.sleep"}
COMPILES: tuple[dict[str, Any], ...] = ({}, {"placeholders": True, "neighbours": True}, {"allow_dirty": True})

CODE = ("importlib", "ruamel")
"""Imports, metadata of packages and files of libraries: the identity of the code covers them."""

SETTINGS = "launcher/paths.py"
"""The place of LAUNCHER_HOME, which schedulers know: variables that are part of the key."""

OWN = os.path.join(IMPORT_ROOT, "launcher", "")
COVERED = {OWN + name for name, *_ in kept._modules(OWN, "")}
"""Files of the package that the identity of the code covers, too."""

strangers: set[str] = set()
is_watching = False


def frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def note(what: str) -> None:
    if not (is_watching and looks.is_noting()):
        return
    above = [*frames()]
    files = [frame.f_code.co_filename for frame in above]
    is_setting = what.startswith("environ") and any(file.endswith(SETTINGS) for file in files)
    if not is_setting and not any(part in file for file in files for part in CODE):
        place = next(each for each in above if "launcher" in each.f_code.co_filename)
        strangers.add(f"{what} in {os.path.basename(place.f_code.co_filename)}: {place.f_code.co_name}")


def audit(event: str, args: tuple[object, ...]) -> None:
    if event in EVENTS and not (event == "open" and args[0] in COVERED):
        note(event)


def watched(name: str, function: Callable[..., object]) -> Callable[..., object]:
    def looked(*args: object, **kwargs: object) -> object:
        note(f"os.{name}")
        return function(*args, **kwargs)

    return looked


class Environ(type(os.environ)):  # type: ignore[misc]
    def __getitem__(self, name: str) -> str:
        note(f"environ[{name!r}]")
        value: str = super().__getitem__(name)
        return value


def compiled(path: str, arguments: dict[str, Any]) -> looks.Notes:
    global is_watching
    schedulers = SchedulerRules()
    environment = Environment(schedulers=schedulers, rules=schedulers.problems, reach=schedulers.unreadable)
    with looks.Notes(b"key") as notes:
        is_watching = True
        try:
            compile_files([path], environment=environment, **arguments)
        finally:
            is_watching = False
    return notes


def main() -> None:
    for name in LOOKS:
        setattr(os, name, watched(name, getattr(os, name)))
    sys.addaudithook(audit)
    os.environ.__class__ = Environ
    asked: set[str] = set()
    for path in sys.argv[1:]:
        for arguments in COMPILES:
            notes = compiled(path, arguments)
            if notes.is_repeatable:
                assert notes.still_hold(dict(notes.asked)), path
                asked |= {question[0].partition(":")[2] for question in notes.asked}
    print(json.dumps({"strangers": sorted(strangers), "asked": sorted(asked)}))


if __name__ == "__main__":
    main()
