"""The contract suite on the example of a plug-in scheduler, without the features that the example lacks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers import StagedScheduler
from tests.contract import conftest, test_cancel, test_observe, test_records, test_staged, test_submit

pytestmark = pytest.mark.slow

BEYOND_THE_EXAMPLE = {
    "test_a_lost_app_leaves_no_process",  # it has no supervisor
    "test_an_attached_app_is_cancelled_when_its_parent_is_killed",
    "test_the_end_of_an_attempt_is_waited_for_and_reaped_once",  # nothing is to be tidied up after an end
    "test_a_failed_replica_fails_the_app_and_stops_its_peers_at_once",
    "test_an_app_over_its_time_limit_has_failed_and_leaves_no_process",
    "test_cancel_leaves_no_process_of_a_replica_that_ignores_the_signal",  # it has no option `grace_s`
    "test_a_replica_may_clean_up_within_the_grace_period",
    "test_a_missing_executable_removes_the_whole_app",  # its message does not show the command line
    "test_the_record_has_the_error_file_of_a_replica",
}
COLLECTED = (test_cancel, test_observe, test_records, test_staged, test_submit)
assert {name for module in COLLECTED for name in vars(module)} >= BEYOND_THE_EXAMPLE
for module in COLLECTED:
    for name, test in vars(module).items():
        if name.startswith("test_") and name not in BEYOND_THE_EXAMPLE:
            globals()[name] = test


class FolderCase(conftest.Case):
    supervised = False

    def rests_of(self, home: Path) -> list[str]:
        folder = home / self.name
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def case(installed: None, tmp_path: Path, launcher_home: Path) -> Iterator[conftest.Case]:
    made = FolderCase("procs", "contract", "", tmp_path)
    yield made
    for listed in made.listed():
        made.scheduler.cancel(listed.app_id)
    made.scheduler.close()


@pytest.fixture
def staged(case: conftest.Case) -> StagedScheduler[Any]:
    assert isinstance(case.scheduler, StagedScheduler)
    return case.scheduler
