"""Bind a launch to one checkout and one user. Paths become absolute; nothing else changes.

A launch keeps `$<job.dir>`, `~` and relative paths as written, so that two checkouts have the same digest.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from launcher.dataclass import replace
from launcher.specs.app import AppDef, AppDryRunInfo, Role
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
"""Scheduler options whose values are folders, relative to the folder of the job file."""


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

    @property
    def runs_in_place(self) -> bool:
        """Whether replicas run in the folder of the workspace, of which no copy is made."""
        return self.workspace is not None and self.cfg.get("cwd") == self.workspace.path


def bind_launch(
    launch: Launch, *, opts: runopts, home: str, cfg: Mapping[str, Any] | None = None
) -> BoundLaunch:
    """Bind a launch for the user whose home is `home` to a scheduler with the run options `opts`.

    Args:
        cfg: run options in place of those of the launch.

    Raises InvalidRunConfigException for a timeout that the scheduler cannot keep, or that is given twice.
    """
    directory, workspace = launch.directory, launch.workspace
    if workspace is not None:
        absolute = partial(bind_workspace, directory=directory, home=home)
        projects = tuple(each._replace(path=absolute(each.path)) for each in workspace.projects)
        path = "" if projects else absolute(workspace.path)
        workspace = workspace._replace(path=path, projects=projects)
    given = launch.cfg if cfg is None else cfg
    return BoundLaunch(
        launch=launch,
        app=bind(launch.app, directory=directory, home=home),
        cfg=bind_options(launch, given, opts=opts, home=home, timeout_s=launch.timeout_s),
        workspace=workspace,
    )


def bind_options(
    launch: Launch, cfg: Mapping[str, Any], *, opts: runopts, home: str, timeout_s: int | None = None
) -> dict[str, Any]:
    """Return the run options `cfg` of a launch as `bind_launch` makes them, with its time limit if given."""
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

    def with_secrets(role: Role) -> Role:
        """Return the role with absolute paths of its secrets' files."""
        files = {
            name: _absolute(substitute(value.name, values), directory, home)
            for name, value in role.env.items()
            if isinstance(value, Secret) and value.kind == "file"
        }
        found = {name: Secret(f"file:{path}") for name, path in files.items()}
        return replace(role, env={**role.env, **found}) if found else role

    roles = [_bind_role(with_secrets(role), open_text, fixed_text, home) for role in app.roles]
    return replace(app, roles=roles, metadata=map_text(app.metadata, fixed_text))


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


def _rooted(source: str, home: str) -> str:
    """Return a bind source with `~` replaced, and with `$<job.dir>` in front when it is relative."""
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
    # A path that starts with a macro stays: only the run knows the folder of `$<img_root>/..`.
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
    """Return the `cfg` for a scheduler with these options: with `timeout_s` and `cwd`, folders absolute.

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
        if opts.get("timeout_s") is None:
            hint = "remove `timeout`, or choose another one"
            raise InvalidRunConfigException("this scheduler has no timeout", "timeout_s", bound, hint=hint)
        if bound.get("timeout_s") not in (None, timeout_s):
            twice = f"the timeout is given twice: {timeout_s} s and {bound['timeout_s']} s"
            raise InvalidRunConfigException(twice, "timeout_s", bound)
        bound["timeout_s"] = timeout_s
    return bound


def bind_workspace(path: str, *, directory: str, home: str) -> str:
    """Return the absolute folder of a workspace that a job file in `directory` names as `path`."""
    return _absolute(substitute(path, {"job.dir": directory}), directory, home)


def _absolute(path: str, directory: str, home: str | None) -> str:
    if home is not None and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    return posixpath.normpath(posixpath.join(directory, path))
