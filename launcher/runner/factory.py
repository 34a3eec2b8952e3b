"""The usual way to a Runner: on every scheduler there is."""

from __future__ import annotations

from launcher.runner.runner import Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_SESSION = "launcher"


def get_runner(
    name: str | None = None,
    component_defaults: Mapping[str, Mapping[str, str]] | None = None,
    *,
    detach: bool = False,
    **scheduler_params: Any,
) -> Runner:
    """A Runner on all schedulers there are, ours and those of installed packages.

    ::

        with get_runner() as runner:
            handle = runner.run(app, "local_cwd")
            print(runner.wait(handle))

    Args:
        name: the session in the handles of its apps; `launcher` without it.
        component_defaults: component name → parameter → text; see `launcher.runner.config`.
        detach: whether apps outlive this process.
        scheduler_params: keywords for every scheduler's factory.

    Nothing is read from configuration files here, and no scheduler is made before it is used.
    """
    from launcher.schedulers.registry import get_scheduler_factories

    return Runner(
        name or DEFAULT_SESSION,
        get_scheduler_factories(),
        component_defaults,
        scheduler_params,
        detach=detach,
    )
