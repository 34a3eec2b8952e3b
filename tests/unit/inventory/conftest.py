"""The ledger of the tests of lists and searches."""

import pytest

from launcher.state.store import Store


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A function that puts attempts into the ledger; the current directory has the project `default`."""
    monkeypatch.chdir(tmp_path)

    def put(*attempts):
        with Store.open() as store:
            for one in attempts:
                store.record(one)

    return put
