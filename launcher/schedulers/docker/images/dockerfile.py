"""The Dockerfile of a workspace, its own or the default one, parsed for its base images and arguments."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from launcher.files import read_regular
from launcher.workspace.context import unreadable

NAMES = ("Dockerfile.launcher", "Dockerfile.torchx", "Dockerfile")
_FILES = "workspace"
# A path in an argument needs no escapes. WORKDIR creates the folder, and replicas run in it.
_OURS = f"ARG IMAGE\nFROM $IMAGE\nARG FOLDER\nWORKDIR $FOLDER\nCOPY {_FILES}/ .\n".encode()

_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)
_ARG = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE | re.MULTILINE)
_IMAGE = re.compile(r"\$(?:IMAGE\b|\{IMAGE(?::[-+][^}]*)?\})")
_WITH_IMAGE = re.compile(r"^(?!\s*#).*\$\{?IMAGE\b", re.MULTILINE)


class Dockerfile(NamedTuple):
    """`below`: folder of the context that the default one copies the files from, "" for a workspace's own."""

    name: str
    content: bytes
    below: str = ""

    @property
    def text(self) -> str:
        """The content, with U+FFFD for bytes that are not UTF-8."""
        return self.content.decode("utf-8", "replace")

    @property
    def takes_image(self) -> bool:
        """Whether it uses the role's image, as IMAGE."""
        return _WITH_IMAGE.search(self.text) is not None

    @property
    def arguments(self) -> set[str]:
        """The names that its ARG lines declare."""
        lines = _ARG.findall(self.text.replace("\\\n", " "))
        return {word.partition("=")[0] for line in lines for word in line.split()}

    def bases(self, image: str) -> list[str]:
        """Its base images, with `image` for IMAGE; without those whose names only the engine can expand."""
        stages: set[str] = {"scratch"}
        found: list[str] = []
        for named, stage in _FROM.findall(self.text):
            base = _IMAGE.sub(lambda _: image, named)
            if "$" not in base and base.lower() not in stages and base not in found:
                found.append(base)
            stages.add(stage.lower())
        return found


def dockerfile_of(folder: str) -> Dockerfile:
    """The workspace's own Dockerfile, else the default one, which copies the files to where replicas run."""
    for name in NAMES:
        path = os.path.join(folder, name)
        try:
            return Dockerfile(name, read_regular(path))
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as error:
            raise unreadable(path, error) from error
    return Dockerfile("Dockerfile", _OURS, _FILES)


def begins_stage(step: str) -> bool:
    """Whether a step of a build is its FROM, which creates no image."""
    return _FROM.match(step) is not None
