"""Old output of jobs in containers, whose logs are removed with them: the same tests."""

from tests.scenarios.test_grep import (  # noqa: F401
    test_gc_can_remove_logs_and_keep_records,
    test_grep_finds_the_lines_of_all_attempts_the_newest_first,
    two,
)
