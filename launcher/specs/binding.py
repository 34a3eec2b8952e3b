"""Bind a launch to one checkout and one user. Paths become absolute; nothing else changes.

A launch keeps `$<job.dir>`, `~` and relative paths as written, so that two checkouts have the same digest.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from launcher.specs.app import AppDef, Role
from launcher.specs.dryrun import AppDryRunInfo
from launcher.specs.launch import Launch, WorkspaceRef
from launcher.specs.macros import (
    OUTPUT_DIR,
    escape,
    find_macros,
    job_of_output,
    map_role,
    map_text,
    substitute,
    substitute_partial,
)
from launcher.specs.mounts import BindMount, DeviceMount, VolumeMount
from launcher.specs.runopts import InvalidRunConfigException, runopts
from launcher.specs.secret import Secret

_JOB_DIR = "$<job.dir>"
_ROOTED = frozenset({"job.dir", "img_root", "base_img_root", OUTPUT_DIR})
"""Macros that stand for an absolute folder, beside the output folders of needs."""

_PATH_OPTIONS = ("cwd", "log_dir")
"""Scheduler options that are folders, relative to the job file's."""


class BoundLaunch(NamedTuple):
    """A launch bound to one checkout, one user and its scheduler: made once, checked, then created.

    Attributes:
        launch: as compiled.
        app, cfg: with absolute paths. Run macros stay: the scheduler fills in the app id, which it reserves.
        workspace: with absolute paths.
        info: the scheduler's request; None without a dry run.
    """

    launch: Launch
    app: AppDef
    cfg: Mapping[str, Any]
    workspace: WorkspaceRef | None = None
    info: AppDryRunInfo[Any] | None = None


def bind_launch(
    launch: Launch, *, opts: runopts, home: str, cfg: Mapping[str, Any] | None = None
) -> BoundLaunch:
    """Bind a launch for the user whose home is `home` to a scheduler with the run options `opts`.

    Args:
        cfg: run options in place of those of the launch.

    Raises InvalidRunConfigException for a timeout that the scheduler cannot keep, or that is given twice.
    """
    directory, workspace = launch.directory, launch.workspace
    given = launch.cfg if cfg is None else cfg
    return BoundLaunch(
        launch=launch,
        app=bind(launch.app, directory=directory, home=home),
        cfg=_bind_options(launch, given, opts, home, timeout_s=launch.timeout_s),
        workspace=_bind_folders(workspace, directory, home) if workspace is not None else None,
    )


def bind_options(launch: Launch, *, opts: runopts, home: str) -> dict[str, Any]:
    """The run options that `bind_launch` gives the launch, without those that a scheduler may refuse."""
    return _bind_options(launch, launch.cfg, opts, home, timeout_s=None)


def _bind_options(
    launch: Launch, cfg: Mapping[str, Any], opts: runopts, home: str, *, timeout_s: int | None
) -> dict[str, Any]:
    workspace = launch.workspace
    return bind_cfg(
        cfg,
        opts=opts,
        timeout_s=timeout_s,
        directory=launch.directory,
        home=home,
        workspace=workspace.path or None if workspace is not None else None,
    )


def bind(app: AppDef, *, directory: str, home: str) -> AppDef:
    """A new AppDef for a job file in `directory`, run by the user whose home is `home` (both absolute).

    `$<job.dir>` becomes `directory` everywhere; run macros stay, with their escapes, where they may stand.
    Sources of bind mounts and files with secrets become absolute.
    """
    values = {"job.dir": directory}
    open_text, fixed_text = partial(substitute_partial, values=values), partial(substitute, values=values)
    return replace(
        app,
        roles=[
            _bind_role(_with_secrets(role, directory, home), open_text, fixed_text, home)
            for role in app.roles
        ],
        metadata=map_text(app.metadata, fixed_text),
    )


def _bind_role(
    role: Role, open_text: Callable[[str], str], fixed_text: Callable[[str], str], home: str
) -> Role:
    rooted = [
        replace(mount, src_path=_rooted(mount.src_path, home)) if isinstance(mount, BindMount) else mount
        for mount in role.mounts
    ]
    bound = map_role(replace(role, mounts=rooted) if rooted else role, open_text)
    return replace(
        bound,
        image=fixed_text(role.image),
        cfg=map_text(role.cfg, fixed_text),
        mounts=[_fixed_mount(mount, fixed_text) for mount in bound.mounts],
    )


def _with_secrets(role: Role, directory: str, home: str) -> Role:
    """Return the role with absolute paths of its secrets' files."""
    found = {
        name: Secret(f"file:{_absolute(substitute(value.name, {'job.dir': directory}), directory, home)}")
        for name, value in role.env.items()
        if isinstance(value, Secret) and value.kind == "file"
    }
    return replace(role, env={**role.env, **found}) if found else role


def _rooted(source: str, home: str) -> str:
    """A bind source with `~` replaced, and with `$<job.dir>` in front when it is relative."""
    if source == "~" or source.startswith("~/"):
        return escape(home) + source[1:]
    if source.startswith("/") or any(
        start == 0 and (name in _ROOTED or job_of_output(name)) for name, start, _ in find_macros(source)
    ):
        return source
    return f"{_JOB_DIR}/{source}"


def _fixed_mount(
    mount: BindMount | VolumeMount | DeviceMount, fixed_text: Callable[[str], str]
) -> BindMount | VolumeMount | DeviceMount:
    mount = replace(mount, dst_path=fixed_text(mount.dst_path))
    # A path that starts with a macro stays: `$<img_root>/..` is known only at the run.
    if isinstance(mount, BindMount) and mount.src_path.startswith("/"):
        return replace(mount, src_path=posixpath.normpath(mount.src_path))
    return mount


def bind_cfg(
    cfg: Mapping[str, Any],
    *,
    opts: runopts,
    timeout_s: int | None,
    directory: str,
    home: str | None = None,
    workspace: str | None = None,
) -> dict[str, Any]:
    """The `cfg` for a scheduler with these options: with `timeout_s` and `cwd`, folders absolute.

    `cwd` is the `workspace` (relative to the job file's `directory`), else that directory, unless the options
    say otherwise. `home` replaces a leading `~`.
    Raises InvalidRunConfigException for a timeout that the scheduler cannot keep, or that is given twice.
    """
    bound: dict[str, Any] = map_text(dict(cfg), lambda text: substitute(text, {"job.dir": directory}))
    if opts.get("cwd") is not None and bound.get("cwd") is None:
        bound["cwd"] = directory if workspace is None else substitute(workspace, {"job.dir": directory})
    for name in _PATH_OPTIONS:
        if opts.get(name) is not None and isinstance(bound.get(name), str):
            bound[name] = _absolute(bound[name], directory, home)
    if timeout_s is not None:
        bound["timeout_s"] = _timeout(bound, opts, timeout_s)
    return bound


def bind_workspace(path: str, *, directory: str, home: str) -> str:
    """The absolute folder of a workspace that a job file in `directory` names as `path`."""
    return _absolute(substitute(path, {"job.dir": directory}), directory, home)


def _bind_folders(workspace: WorkspaceRef, directory: str, home: str) -> WorkspaceRef:
    def absolute(path: str) -> str:
        return bind_workspace(path, directory=directory, home=home)

    projects = tuple(each._replace(path=absolute(each.path)) for each in workspace.projects)
    path = "" if projects else absolute(workspace.path)
    return workspace._replace(path=path, projects=projects)


def _timeout(cfg: Mapping[str, Any], opts: runopts, timeout_s: int) -> int:
    if opts.get("timeout_s") is None:
        raise InvalidRunConfigException(
            "this scheduler has no timeout", "timeout_s", cfg, hint="remove `timeout`, or choose another one"
        )
    if cfg.get("timeout_s") not in (None, timeout_s):
        raise InvalidRunConfigException(
            f"the timeout is given twice: {timeout_s} s and {cfg['timeout_s']} s", "timeout_s", cfg
        )
    return timeout_s


def _absolute(path: str, directory: str, home: str | None) -> str:
    if home is not None and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return posixpath.normpath(posixpath.join(directory, path))
