"""Turn an AppDef into a request for this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from launcher.schedulers.local import rundir
from launcher.schedulers.local.images import ImageProvider, provider_of
from launcher.schedulers.local.popen import PopenRequest
from launcher.schedulers.local.request import build_request
from launcher.specs.app import AppDef, CfgVal


def request(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    *,
    backend: str,
    session: str,
    state_dir: str,
    provider: Callable[[Mapping[str, CfgVal]], ImageProvider] | None = None,
    extra_paths: Sequence[str] = (),
) -> PopenRequest:
    """The request under the symbolic id.

    Args:
        provider: decides where roles run, instead of the backend's own provider.

    Reads the current folder. Raises ImageError for a missing working folder.
    """
    images = (provider or provider_of(backend))(cfg)
    made = build_request(
        app,
        cfg,
        scheduler=backend,
        session=session,
        apps_dir=rundir.apps_dir(state_dir),
        images=images,
        extra_paths=extra_paths,
    )
    for role in app.roles:
        images.check(role)
    return made
