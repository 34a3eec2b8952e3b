"""Our exceptions for callers that never read `.hint`."""

import sys
import traceback

import pytest

from launcher.errors import LauncherError


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks have notes since Python 3.11")
def test_a_traceback_shows_the_hint_behind_the_message() -> None:
    error = LauncherError("there is no `a`", hint="did you mean `b`?")
    assert "".join(traceback.format_exception(error)).endswith("there is no `a`\nhint: did you mean `b`?\n")
    assert str(error) == "there is no `a`"


def test_without_a_hint_there_is_no_note() -> None:
    assert not hasattr(LauncherError("there is no `a`"), "__notes__")
