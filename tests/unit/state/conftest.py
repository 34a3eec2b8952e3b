"""The fixture that gives a test its ledger."""

from collections.abc import Iterator

import pytest

from launcher.state.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened
