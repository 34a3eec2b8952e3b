"""Put an app's workspace on a scheduler: into images, by the scheduler's workspace mixin, or run in place.

Nothing here edits the caller's app, and a dry run leaves no files behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

from launcher.dataclass import dataclass, replace
from launcher.errors import SchedulerError
from launcher.specs.app import AppDef, AppDryRunInfo, CfgVal
from launcher.specs.launch import WorkspaceRef
from launcher.workspace.api import Workspace, in_order, merged
from launcher.workspace.context import content_digest, source_path
from launcher.workspace.ignore import WorkspaceError


@dataclass(frozen=True, slots=True)
class BoundWorkspace:
    """A folder of files that travels with an app: its absolute path, and the digest of its contents."""

    folder: str
    digest: str


def bind_workspace(workspace: object) -> BoundWorkspace:
    """Bind a folder, absolute or not, to its digest. Raises WorkspaceError; SchedulerError for no path."""
    if isinstance(workspace, BoundWorkspace):
        return workspace
    if not isinstance(workspace, (str, os.PathLike)):
        raise SchedulerError(f"a workspace is the path of a folder, not {workspace!r}")
    folder = os.path.abspath(os.path.expanduser(os.fspath(workspace)))
    return BoundWorkspace(folder, content_digest(folder))


def has_mixin(scheduler: Any) -> bool:
    """Whether the scheduler derives from `launcher.workspace.WorkspaceMixin`."""
    return hasattr(scheduler, "build_workspace_and_update_roles")


def dryrun_with(
    scheduler: Any, app: AppDef, cfg: Mapping[str, CfgVal], workspace: object
) -> AppDryRunInfo[Any]:
    """Dry-run with a workspace; `built` gives the info to schedule. Raises SchedulerError, WorkspaceError."""
    if scheduler.builds_workspaces:
        return _in_images(scheduler, app, cfg, workspace)
    if has_mixin(scheduler):
        info: AppDryRunInfo[Any] = scheduler.submit_dryrun(app, cfg)
        given, text = as_workspace(workspace), repr(info)

        def build(asked: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
            if repr(asked) != text:
                raise SchedulerError(
                    f"{scheduler.backend} makes a new request after building the workspace: edits are lost",
                    hint="edit the AppDef, or override `Role.pre_proc`, which sees every request",
                )
            return _by_mixin(scheduler, app, cfg, given)

        return info.completed(build=build)
    if scheduler.workspace_option:
        cfg = _in_place(scheduler, cfg, as_workspace(workspace))
        in_place: AppDryRunInfo[Any] = scheduler.submit_dryrun(app, cfg)
        return in_place
    raise SchedulerError(f"{scheduler.backend} cannot build workspaces", hint=scheduler.no_workspace_hint)


def built_with(
    scheduler: Any, app: AppDef, cfg: Mapping[str, CfgVal], workspace: object
) -> AppDryRunInfo[Any]:
    """The request to schedule, with its workspace built. Raises the errors of `dryrun_with` and the build."""
    if has_mixin(scheduler) and not scheduler.builds_workspaces:
        return _by_mixin(scheduler, app, cfg, as_workspace(workspace))
    return dryrun_with(scheduler, app, cfg, workspace).built()


def as_workspace(workspace: object) -> Workspace:
    """A Workspace from a folder, text or a Workspace. Raises WorkspaceError, or SchedulerError for others."""
    if isinstance(workspace, Workspace):
        return workspace
    if isinstance(workspace, BoundWorkspace):
        return Workspace({workspace.folder: ""})
    if isinstance(workspace, os.PathLike):
        return Workspace({os.fspath(workspace): ""})
    if not isinstance(workspace, str):
        raise SchedulerError(f"a workspace is the path of a folder, or a Workspace, not {workspace!r}")
    is_path = os.path.exists(os.path.expanduser(workspace))
    return Workspace({workspace: ""}) if is_path else Workspace.from_str(workspace)


def workspace_for(scheduler: Any, workspace: WorkspaceRef) -> Workspace | BoundWorkspace | None:
    """The workspace of a bound launch as `dryrun_with` takes it.

    None when the workspace is already in the run options, or the scheduler ignores workspaces. A scheduler
    that runs in one folder gets several projects, too, and refuses them.
    """
    builds = scheduler.builds_workspaces or has_mixin(scheduler)
    if workspace.projects:
        runs_in_place = scheduler.run_opts().get("cwd") is not None
        projects = {each.path: each.target for each in workspace.projects}
        return in_order(projects) if builds or runs_in_place else None
    return BoundWorkspace(workspace.path, workspace.digest) if builds else None


@contextmanager
def bound(workspace: object, digest: str = "") -> Iterator[BoundWorkspace]:
    """The workspace as one folder: its only project, or a copy of all. `digest`: as the build compares it."""
    if isinstance(workspace, BoundWorkspace):
        yield workspace
        return
    given = as_workspace(workspace)
    only = _only_folder(given)
    with merged(given) if only is None else nullcontext(only) as folder:
        yield BoundWorkspace(folder, digest or content_digest(folder))


def dryrun_in_images(
    scheduler: Any, app: AppDef, cfg: Mapping[str, CfgVal], workspace: BoundWorkspace
) -> AppDryRunInfo[Any]:
    """The request for an app in images that hold the workspace, with notes about them."""
    info: AppDryRunInfo[Any] = scheduler.submit_dryrun(scheduler.workspace_app(app, cfg, workspace), cfg)
    notes = getattr(info.request, "notes", None)
    if notes is not None:
        notes.extend(scheduler.workspace_notes(app, cfg, workspace))
    return info


def _only_folder(workspace: Workspace) -> str | None:
    """The folder that is the whole workspace; None when several projects have to be combined."""
    if not workspace.is_unmapped_single_project():
        return None
    path = source_path(str(workspace))
    return path if os.path.isdir(path) else None


def _in_images(
    scheduler: Any, app: AppDef, cfg: Mapping[str, CfgVal], workspace: object
) -> AppDryRunInfo[Any]:
    with bound(workspace) as found:
        digest, info = found.digest, dryrun_in_images(scheduler, app, cfg, found)

    def build(asked: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
        with bound(workspace, digest) as again:
            scheduler.build_workspace(app, cfg, again)
        return asked

    return info.completed(build=build)


def _by_mixin(
    scheduler: Any, app: AppDef, cfg: Mapping[str, CfgVal], workspace: Workspace
) -> AppDryRunInfo[Any]:
    """The request for a copy of the app, with the workspace in its roles; builds the workspace now."""
    placed = replace(app, roles=deepcopy(app.roles))
    scheduler.build_workspace_and_update_roles(placed.roles, workspace, scheduler.resolved(cfg))
    info: AppDryRunInfo[Any] = scheduler.submit_dryrun(placed, cfg)
    return info


def _in_place(scheduler: Any, cfg: Mapping[str, CfgVal], workspace: Workspace) -> dict[str, CfgVal]:
    """The run options with the working folder. Raises SchedulerError for more than one folder."""
    option, folder = scheduler.workspace_option, _only_folder(workspace)
    if folder is None:
        raise no_place_for(scheduler, workspace)
    given = cfg.get(option)
    if given is not None and os.path.realpath(os.path.expanduser(str(given))) != os.path.realpath(folder):
        raise WorkspaceError(
            f"the workspace is {folder}, and the run option `{option}` is {given}",
            hint="give only one of them",
        )
    return {**cfg, option: folder}


def no_place_for(scheduler: Any, workspace: object) -> SchedulerError:
    """The error for a workspace of several projects on a scheduler that runs in one folder."""
    return SchedulerError(
        f"{scheduler.backend} runs apps in one folder, and this workspace is put together: {workspace}",
        hint="give it one folder, or use local_docker",
    )
