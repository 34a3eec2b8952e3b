"""The import path of the Docker workspace in TorchX; the Docker scheduler implements it."""

from __future__ import annotations

from launcher.schedulers.docker.image_build import DockerWorkspaceMixin

__all__ = ["DockerWorkspaceMixin"]
