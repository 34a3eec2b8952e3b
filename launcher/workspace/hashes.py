"""Content hashes of files, each file read once."""

from __future__ import annotations

from launcher.workspace.context import file_hash


class FileHashes:
    """The hashes of the files that one plan looks at. Each file is read once, however many jobs name it."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """SHA-256 (hex) of what a regular file holds. Raises OSError, also for a pipe, socket or device."""
        if path not in self._known:
            self._known[path] = file_hash(path).hex()
        return self._known[path]
