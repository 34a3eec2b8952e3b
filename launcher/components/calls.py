"""Call the components that job files name: built-in ones here, all others in a process with a time limit.

A component file is code from a checkout, which may be untrusted. The process returns the app as data, and its
process group is killed at the end of the compile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.errors import UsageError
from launcher.files import is_below
from launcher.text import DURATION_EXAMPLES, is_number, seconds_in

# Imported with the first component, since job files without components do not need it.
if TYPE_CHECKING:
    from launcher.components.evaluate import Call, Evaluation
    from launcher.components.process import ComponentProcess

ALLOWED = "LAUNCHER_COMPONENTS"
TIMEOUT = "LAUNCHER_COMPONENT_TIMEOUT"
TIMEOUT_S = 30.0
_LONGEST_S = 86400.0


def are_allowed(environ: Mapping[str, str]) -> bool:
    """Whether LAUNCHER_COMPONENTS lets job files call components that are not built in.

    Raises UsageError for anything but `always`, `never` and "".
    """
    said = environ.get(ALLOWED, "")
    if said not in ("", "always", "never"):
        raise UsageError(f"{ALLOWED} is `{said}`", hint="want `never`, `always`, or nothing")
    return said != "never"


class Calls:
    """The calls of one compile. A process is started for the first component that is not built in.

    Args:
        is_allowed: False refuses such components, and imports none of them.
    """

    def __init__(self, is_allowed: bool = True) -> None:
        self.is_allowed = is_allowed
        self._process: ComponentProcess | None = None
        self._late = ""

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def answer(self, call: Call, root: str) -> Evaluation | None:
        """The result of a call, with all problems; None for a component that is not allowed.
        A component file may not leave the folder `root`."""
        from launcher.components.evaluate import evaluate, failed
        from launcher.components.finder import builtin_component

        name = call.component
        ours = builtin_component(name) if ":" not in name else None
        if ours is not None:
            return evaluate(lambda: ours, call)
        if not self.is_allowed:
            return None
        outside = _outside(name, call.folder, root)
        if outside:
            hint = "copy it into the repository, or install it as a package"
            return failed(name, "invalid-value", outside, hint=hint)
        if self._late:
            return failed(name, "invalid-value", f"`{name}` was not called: {self._late}")
        return self._sent(call)

    def _sent(self, call: Call) -> Evaluation:
        from json import dumps, loads

        from launcher.components.evaluate import Evaluation, failed
        from launcher.components.process import ComponentProcess, DiedError

        name = call.component
        limit = timeout_s(os.environ)
        try:
            if self._process is None:
                self._process = ComponentProcess(limit)
            return Evaluation.from_json(loads(self._process.ask(dumps(call.to_json()).encode())))
        except DiedError as death:
            why = str(death)
        except TimeoutError:
            self._late = f"component `{name}` took longer than {limit:g} s"
            self._stop()
            hint = f"set {TIMEOUT} to more if it needs that, such as 2m"
            return failed(name, "invalid-value", f"{self._late} and was killed", hint=hint)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            why = "answered with something else than an app"
        except OSError as error:
            why = f"cannot be called: {error.strerror or error}"
        self._stop()
        return failed(name, "invalid-value", f"component `{name}` {why}")

    def _stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


def timeout_s(environ: Mapping[str, str]) -> float:
    """The seconds in LAUNCHER_COMPONENT_TIMEOUT. Raises UsageError for anything but a duration."""
    said = environ.get(TIMEOUT) or str(TIMEOUT_S)
    limit = float(said) if is_number(said) else seconds_in(said)
    if not limit or limit > _LONGEST_S:
        hint = f"want a duration such as {DURATION_EXAMPLES}, at most 24h"
        raise UsageError(f"{TIMEOUT} is `{said}`", hint=hint)
    return limit


def _outside(name: str, folder: str, root: str) -> str:
    """The reason why a component file is outside the checkout; "" when it is inside, built in, or missing."""
    from launcher.components.linter import PACKAGE, locate

    path, colon, _ = name.rpartition(":")
    if not colon:
        return ""
    try:
        real = os.path.realpath(locate(path, folder))
    except (FileNotFoundError, ValueError):
        return ""  # the finder reports the problem
    if any(is_below(real, os.path.realpath(top)) for top in (root, PACKAGE)):
        return ""
    return f"the component file {path} lies outside of the repository"
