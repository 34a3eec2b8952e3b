"""The real servers and tools of editors, beside a copy of the schema that modelines lead to."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import engines
from tests.editors.lsp import Server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with schemas/ and, two levels down, one for job files, as in this repository."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    (folder / "examples" / "x").mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def server(project: Path) -> Iterator[Server]:
    """yaml-language-server, started once: that takes it longer than all questions together."""
    engines.require("editors")
    argv = [engines.editor_tool("yaml-language-server"), "--stdio"]
    with Server(argv, project / "examples" / "x") as running:
        yield running
