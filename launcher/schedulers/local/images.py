"""The image of a role on the local scheduler: ignored (local_cwd), or the working folder (local_dir)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from launcher.errors import SchedulerError
from launcher.schedulers.local.popen import ReplicaParam
from launcher.specs.app import CfgVal, Role


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
        """The folder that `$<img_root>` stands for."""
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


def provider_of(backend: str) -> type[ImageProvider]:
    """The default image provider of the local scheduler of that name."""
    return LocalDirectoryImageProvider if backend == "local_dir" else CWDImageProvider


def _usable_folder(folder: str, what: str) -> None:
    if not os.path.isdir(folder):
        reason = "is not a folder" if os.path.exists(folder) else "does not exist"
        raise ImageError(f"{what} {reason}", hint="local replicas run in a folder of this machine")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ImageError(f"{what} cannot be read", hint="check the permissions of the folder")
