"""A workspace bound to the folder that its files lie in."""

from __future__ import annotations


class BoundWorkspace:
    """A folder of files that travels with an app.

    Attributes:
        folder: absolute.
        digest: of what it holds (`launcher.workspace.content_digest`).
    """

    __slots__ = ("digest", "folder")

    def __init__(self, folder: str, digest: str) -> None:
        self.folder = folder
        self.digest = digest
