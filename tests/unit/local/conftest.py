"""The fixtures that give a test its supervisors."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import paths
from tests.unit.local.driving import Driven

Supervise = Callable[..., Driven]


@pytest.fixture
def supervise() -> Iterator[Supervise]:
    """`supervise()` starts a supervisor in an app folder of its own (or in that of `app_id`)."""
    made: list[Driven] = []

    def begin(app_id: str = "", **options: Any) -> Driven:
        app_dir = Path(paths.local_app(app_id or f"app-{len(made)}"))
        made.append(Driven(app_dir, **options))
        return made[-1]

    yield begin
    for each in made:
        each.destroy()


@pytest.fixture
def app(supervise: Supervise) -> Driven:
    """A supervisor that waits for its "create"."""
    return supervise()
