"""The Docker workspace under the name that users know; it is built by the Docker scheduler's code."""

from __future__ import annotations

from launcher.schedulers.docker.images.workspace import DockerWorkspaceMixin

__all__ = ["DockerWorkspaceMixin"]
