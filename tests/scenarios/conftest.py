"""What scenarios on any engine have in common."""

from collections.abc import Iterator

import pytest

from tests.github.fake import FakeGitHub


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    """A server of GitHub that keeps its state for one test."""
    with FakeGitHub() as fake:
        yield fake
