"""Build images of workspaces for schedulers of other packages, under the import path of TorchX.

launcher itself does not import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.schedulers.docker.client.engine import Engine, connect
from launcher.schedulers.docker.image_build import build_workspace
from launcher.schedulers.docker.images import WORKSPACE_REPOSITORY
from launcher.schedulers.workspaces import bind_workspace
from launcher.specs.app import AppDef, CfgVal, Role
from launcher.specs.runopts import InvalidRunConfigException, runopts
from launcher.workspace.api import WorkspaceMixin

__all__ = ["DockerWorkspaceMixin"]


class DockerWorkspaceMixin(WorkspaceMixin[dict[str, tuple[str, str]]]):
    """Builds the workspace into an image on top of the role's image.

    The image is named after its content, `launcher-workspace:HASH`: the same files on the same image are
    built once. Where the workspace has no Dockerfile, its files are copied into the image's working
    folder; where that is `/`, /workspace becomes it.

    ::

        class Mine(DockerWorkspaceMixin, Scheduler[Request]): ...

    Args:
        docker_client: the engine to build at; without it the one that DOCKER_HOST or the Docker context
            names, connected on first use. The other arguments are the scheduler's.
    """

    def __init__(self, *args: Any, docker_client: Engine | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__engine = docker_client

    @property
    def _docker_engine(self) -> Engine:
        if self.__engine is None:
            made = connect()
            assert isinstance(made, Engine)
            self.__engine = made
        return self.__engine

    def workspace_opts(self) -> runopts:
        opts = runopts()
        opts.add("image_repo", str, "repository that `push_images` pushes images to")
        opts.add("quiet", bool, "do not report pulling and building", default=False)
        return opts

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Build the image of the workspace on `role.image`, and set it as the role's image. Pushes nothing.

        Raises WorkspaceError, BuildFailed, EngineError, with nothing of it left behind.
        """
        # A `workdir` would be an option of another scheduler, with a meaning that is unknown here.
        local = {key: value for key, value in cfg.items() if key not in ("image_repo", "workdir")}
        app = AppDef("workspace", [role])
        made = build_workspace(self._docker_engine, app, local, bind_workspace(workspace))
        role.image = made.roles[0].image

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, tuple[str, str]]:
        """Set the pushed names of workspace images in their roles. Returns local image → (repository, tag).

        Contacts no engine. Raises InvalidRunConfigException without `image_repo`.
        """
        found: dict[str, tuple[str, str]] = {}
        for role in app.roles:
            repository, _, tag = role.image.partition(":")
            if repository != WORKSPACE_REPOSITORY:
                continue
            repo = cfg.get("image_repo")
            if not repo:
                raise InvalidRunConfigException(
                    f"role `{role.name}` runs an image that was built here; nothing says where to push it",
                    "image_repo",
                    cfg,
                    hint="set the run option `image_repo`",
                )
            found[role.image] = (str(repo), tag)
            role.image = f"{repo}:{tag}"
        return found

    def push_images(self, images_to_push: Mapping[str, tuple[str, str]]) -> None:
        """Tag and push the images that `dryrun_push_images` returned. Raises EngineError."""
        for image, (repo, tag) in images_to_push.items():
            self._docker_engine.tag(image, f"{repo}:{tag}")
            self._docker_engine.push(f"{repo}:{tag}")

    def close(self) -> None:
        """Close the connection to the engine, and the scheduler."""
        engine, self.__engine = self.__engine, None
        if engine is not None:
            engine.close()
        others = getattr(super(), "close", None)
        if others is not None:
            others()
