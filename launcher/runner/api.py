"""Make a Runner for all schedulers; the import path of the Runner in TorchX, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.errors import LauncherError
from launcher.runner.runner import Runner
from launcher.schedulers.registry import get_scheduler_factories
from launcher.specs.app import NONE

__all__ = ["NONE", "Runner", "get_runner"]

DEFAULT_SESSION = "launcher"
_KNOWN = ("name", "component_defaults", "detach", "queue", "readonly")
"""The keywords of launcher that a caller may misspell; a plug-in's scheduler may take any other."""


def get_runner(
    name: str | None = None,
    component_defaults: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    detach: bool = False,
    queue: bool = False,
    **scheduler_params: Any,
) -> Runner:
    """Return a Runner for all schedulers, built in and of installed packages.

        with get_runner() as runner:
            handle = runner.run(app, "local_cwd")
            print(runner.wait(handle))

    Args:
        name: the session in the handles of its apps; `launcher` without it.
        component_defaults: component name → parameter → value, as `launcher.runner.config.load_sections`
            gives.
        detach: whether apps outlive this process.
        queue: whether apps wait in line for what they ask of this machine; see `Runner`.
        scheduler_params: keywords for every scheduler's factory, which is called on first use.

    Raises LauncherError for a keyword that misspells a known one, which would be ignored silently.
    """
    unknown = [name for name in scheduler_params if name not in _KNOWN]
    if unknown:
        from difflib import get_close_matches

        for param in unknown:
            for meant in get_close_matches(param.lower(), _KNOWN, n=1, cutoff=0.8):
                raise LauncherError(f"get_runner has no keyword `{param}`", hint=f"did you mean `{meant}`?")
    return Runner(
        name or DEFAULT_SESSION,
        get_scheduler_factories(),
        component_defaults,
        scheduler_params,
        detach=detach,
        queue=queue,
    )
