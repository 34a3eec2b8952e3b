"""The request of the local scheduler, derived from an AppDef by pure functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy

from launcher.dataclass import replace
from launcher.errors import SchedulerError
from launcher.schedulers.local import rundir
from launcher.schedulers.local.popen import LOGS, PopenRequest, ReplicaParam, check, notes
from launcher.schedulers.replica_request import (
    Surroundings,
    binder,
    handle_of,
    host_variables,
    option,
    retries_of,
    rules_of_roles,
    without_output,
)
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.macros import SYMBOLIC_APP_ID, escape, hosts_of
from launcher.specs.outputs import SYMBOLIC_OUTPUT
from launcher.text import path_names, plural

FILES = {"stdout": rundir.STDOUT, "stderr": rundir.STDERR, "combined": rundir.COMBINED}
"""The field of `ReplicaParam` → the name of its log file."""
ENV_CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
HOST = "localhost"


def build_request(
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    *,
    scheduler: str,
    session: str,
    apps_dir: str,
    images: ImageProvider,
    extra_paths: Sequence[str] = (),
) -> PopenRequest:
    """Build the request for `app` under the symbolic app id.

    Reads no clock or environment, and only `images` reads the disk.

    Args:
        cfg: resolved run options.
        apps_dir: absolute folder of the records of all apps.
        images: decides where each role runs.
        extra_paths: folders in front of each replica's PATH.

    Raises InvalidRunConfigException for options out of range, RejectedAppError for an app that cannot run.
    """
    check(app, cfg)
    app_dir = _app_dir(apps_dir)
    request = PopenRequest(
        app_id=SYMBOLIC_APP_ID,
        log_dir=_log_dir(cfg, images, session, app_dir),
        role_params={},
        role_log_dirs={},
        handle=handle_of(scheduler, session),
        app_dir=app_dir,
        role_retries=retries_of(app),
        timeout_s=option(cfg, "timeout_s", int),
        grace_s=option(cfg, "grace_s", float, 0.0),
        log_max_mb=option(cfg, "log_max_mb", int),
        notes=notes(app, scheduler),
        role_rules=rules_of_roles(app),
    )
    _add_replicas(request, app, cfg, images, [*map(escape, extra_paths)])
    if requested_gpus(app):
        _show_gpus(request, app)
    return request


def _add_replicas(
    request: PopenRequest,
    app: AppDef,
    cfg: Mapping[str, CfgVal],
    images: ImageProvider,
    extra_paths: Sequence[str],
) -> None:
    around = Surroundings(
        handle=request.handle,
        scratch=os.path.join(request.app_dir, "scratch"),
        output=SYMBOLIC_OUTPUT,
        hosts=dict.fromkeys(host_variables(app), HOST),
        values=hosts_of({role.name: HOST for role in app.roles}),
    )
    own = request.separate_streams
    made = os.path.join(request.log_dir if own else request.app_dir, "torchelastic")
    for role, name in zip(app.roles, path_names([role.name for role in app.roles]), strict=True):
        dirs = [os.path.join(request.log_dir, name, str(k)) for k in range(role.num_replicas)]
        request.role_log_dirs[role.name] = dirs
        request.role_params[role.name] = params = []
        if type(images).fetch_role is not ImageProvider.fetch_role:
            role = deepcopy(role)  # the provider may edit the role
        img_root = images.fetch_role(role)
        for (_, filled), folder in zip(replace(around, img_root=img_root).replicas(role), dirs, strict=True):
            out, err, both = (os.path.join(folder, each) for each in FILES.values())
            param = images.get_replica_param(
                img_root, filled, out if own else None, err if own else None, both
            )
            cwd = escape(param.cwd) if param.cwd else None
            env = around.environment(
                {**param.env, "PATH": _path(param.env, cwd, cfg, extra_paths)},
                error_file=os.path.join(folder, rundir.ERROR_FILE),
                logs=os.path.join(made, name),
            )
            params.append(replace(param, cwd=cwd, env=env))


def check_edits(request: PopenRequest, apps_dir: str) -> None:
    """Raise SchedulerError when a field of a dry run's request was edited without effect.

    `apps_dir` is the absolute folder of the records of all apps.
    """
    if (request.app_id, request.app_dir) != (SYMBOLIC_APP_ID, _app_dir(apps_dir)):
        raise SchedulerError(
            "`app_id` and `app_dir` of a request cannot be edited: `schedule` makes them anew"
        )
    for role, params in request.role_params.items():
        folders = request.role_log_dirs.get(role, [])
        if len(params) != len(folders):
            raise SchedulerError(
                f"role `{role}` of a request has {plural(len(params), 'replica')}"
                f" and {plural(len(folders), 'log folder')}",
                hint="make the dry run of an app with this role and `num_replicas`",
            )
        for k, (param, folder) in enumerate(zip(params, folders, strict=True)):
            for name, file in FILES.items():
                written, path = getattr(param, name), os.path.join(folder, file)
                if written not in (None, path):
                    raise SchedulerError(
                        f"`{name}` of {role}/{k} is {written}, and its log folder has {path}",
                        hint="give the option `log_dir`, or edit `role_log_dirs` and the three files alike",
                    )


def bind_request(
    request: PopenRequest, app_id: str, outputs: Mapping[str, str] | None = None
) -> PopenRequest:
    """The request under a real app id: a new value, macros and escapes resolved.

    Args:
        outputs: macro → absolute folder, for `$<output_dir>` and the macros of needs; None for an app without
            a job, which gets no variable for an output folder.
    """
    bind = binder(app_id, outputs)

    def bound(param: ReplicaParam) -> ReplicaParam:
        env = param.env if outputs else without_output(param.env)
        return ReplicaParam(**bind({**vars(param), "env": env}))

    return replace(
        request,
        app_id=app_id,
        log_dir=bind(request.log_dir),
        role_params={role: [*map(bound, params)] for role, params in request.role_params.items()},
        role_log_dirs=bind(request.role_log_dirs),
        handle=bind(request.handle),
        app_dir=bind(request.app_dir),
        role_retries=dict(request.role_retries),
        role_rules=dict(request.role_rules),
        role_gpus=dict(request.role_gpus),
        notes=list(request.notes),
    )


def _path(
    env: Mapping[str, str], cwd: str | None, cfg: Mapping[str, CfgVal], extra_paths: Sequence[str]
) -> str:
    """The PATH of a replica, to be put in front of the inherited one."""
    parts = [*extra_paths, env.get("PATH", "").strip(":")]
    if cwd:
        parts = [cwd, *parts] if cfg.get("prepend_cwd") else [*parts, cwd]
    return ":".join(part for part in parts if part)


def _app_dir(apps_dir: str) -> str:
    return os.path.join(escape(apps_dir), SYMBOLIC_APP_ID)


def _log_dir(cfg: Mapping[str, CfgVal], images: ImageProvider, session: str, app_dir: str) -> str:
    given = cfg.get("log_dir")
    if not given:
        return os.path.join(app_dir, LOGS)
    absolute = os.path.join(images.default_cwd, os.path.expanduser(str(given)))
    return os.path.join(escape(os.path.normpath(absolute)), escape(session), SYMBOLIC_APP_ID)


def _show_gpus(request: PopenRequest, app: AppDef) -> None:
    """Let each replica of a role that asks for GPUs see the GPUs that are dealt to it when its turn comes."""
    if sys.platform != "linux":
        wanted = plural(requested_gpus(app), "GPU is", "GPUs are")
        request.notes.append(f"{wanted} asked for; each replica sees all that this host has")
        return
    from launcher.turns.line import GPU_IDS

    for role in app.roles:
        if role.resource.gpu > 0:
            request.role_gpus[role.name] = role.resource.gpu
            for param in request.role_params[role.name]:
                param.env.setdefault(ENV_CUDA_VISIBLE_DEVICES, GPU_IDS)


def without_gpus(request: PopenRequest) -> PopenRequest:
    """The request of an app without a turn: each replica sees all GPUs. A new value."""
    if not request.role_gpus:
        return request
    from launcher.turns.line import GPU_IDS

    hidden = (ENV_CUDA_VISIBLE_DEVICES, GPU_IDS)

    def bare(param: ReplicaParam) -> ReplicaParam:
        return replace(param, env=dict(item for item in param.env.items() if item != hidden))

    params = {role: [*map(bare, each)] for role, each in request.role_params.items()}
    return replace(request, role_params=params, role_gpus={})


def requested_gpus(app: AppDef) -> int:
    """The number of GPUs that all replicas of all roles request."""
    return sum(role.num_replicas * max(role.resource.gpu, 0) for role in app.roles)


# -- images ----------------------------------------------------------------------------------------------


class ImageError(SchedulerError, ValueError):
    """The image of a role is not a folder that replicas can run in."""


class ImageProvider:
    """Turns a role's image into a folder and a command line.

    A user's class, given to `LocalScheduler`, is called with the options alone. Its `fetch_role` gets a copy
    of the role and may edit it.

    Args:
        cfg: the resolved run options.
        cwd: absolute working folder when the options name none; the current one by default.
    """

    _cwd: str | None = None

    def __init__(self, cfg: Mapping[str, CfgVal], cwd: str | None = None) -> None:
        self.cfg = cfg
        self._cwd = cwd

    @property
    def default_cwd(self) -> str:
        return os.getcwd() if self._cwd is None else self._cwd

    def fetch(self, image: str) -> str:
        """The folder that replaces `$<img_root>`."""
        raise ImageError(f"{type(self).__name__} says nothing of where images are")

    def fetch_role(self, role: Role) -> str:
        return self.fetch(role.image)

    def get_cwd(self, image: str) -> str | None:
        """The absolute folder that replicas run in; None for `default_cwd`."""
        return None

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """The executable: a path, or a name that the replica's PATH is searched for."""
        return os.path.join(img_root, role.entrypoint)

    def check(self, role: Role) -> None:
        """Raise ImageError when replicas of the role cannot run on this machine in its present state."""
        cwd = self.get_cwd(role.image) or self.default_cwd
        _usable_folder(cwd, f"role `{role.name}`: the working folder {cwd}")

    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        """The command line of a replica of `role`; its macros are already filled in."""
        cwd = self.get_cwd(role.image) or self.default_cwd
        argv = [self.get_entrypoint(img_root, role), *role.args]
        return ReplicaParam(argv, dict(role.env), stdout, stderr, combined, cwd)


class CWDImageProvider(ImageProvider):
    """local_cwd: the image is ignored; replicas run in the `cwd` option or the current folder."""

    def get_cwd(self, image: str) -> str:
        given = self.cfg.get("cwd")
        return os.path.join(self.default_cwd, os.path.expanduser(str(given))) if given else self.default_cwd

    def fetch(self, image: str) -> str:
        return self.get_cwd(image)

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        return role.entrypoint


class LocalDirectoryImageProvider(ImageProvider):
    """local_dir: the image is an absolute existing folder, and replicas run in it."""

    def fetch(self, image: str) -> str:
        """The image. Raises ImageError, a ValueError, when it is not a folder that replicas can run in."""
        if not os.path.isabs(image):
            raise ImageError(
                f"local_dir runs images that are folders: want an absolute path, got `{image}`",
                hint="set the role's image to the absolute path of a folder, or use local_cwd",
            )
        _usable_folder(image, f"the image {image}")
        return image

    def get_cwd(self, image: str) -> str:
        return self.fetch(image)

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        return role.entrypoint


def _usable_folder(folder: str, what: str) -> None:
    if not os.path.isdir(folder):
        reason = "is not a folder" if os.path.exists(folder) else "does not exist"
        raise ImageError(f"{what} {reason}", hint="local replicas run in a folder of this machine")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ImageError(f"{what} cannot be read", hint="check the permissions of the folder")
