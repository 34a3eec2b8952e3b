"""App handles, and the exceptions for handles and unknown names."""

import pytest
from hypothesis import given, strategies as st

from launcher.errors import LauncherError
from launcher.specs import (
    MalformedAppHandleException,
    ParsedAppHandle,
    UnknownAppException,
    UnknownSchedulerException,
    make_app_handle,
    parse_app_handle,
)


@pytest.mark.parametrize(("handle", "parts"), [
    ("local_cwd://vision/train-1-k3fwx", ("local_cwd", "vision", "train-1-k3fwx")),
    ("local_docker://vision.prod/train", ("local_docker", "vision.prod", "train")),
    ("s:///id", ("s", "", "id")),
    ("s://a b/c:d", ("s", "a b", "c:d")),
])  # fmt: skip
def test_a_handle_has_three_parts(handle, parts):
    assert parse_app_handle(handle) == parts
    assert ParsedAppHandle(scheduler_backend=parts[0], session_name=parts[1], app_id=parts[2]) == parts
    assert make_app_handle(*parts) == handle


@pytest.mark.parametrize("handle", [
    *("", "a", "a/b", "a://", "a://b", "a://b/", "a:///", "://b/c", "a:/b/c"),
    *("a://b/c/d", "a://b/c/", "a://b://c/d", "local:///App/", "a:b://c/d", "a/b://c/d"),
    *("a://b/c\n", " a://b/c", "a://b/c "),
])  # fmt: skip
def test_a_malformed_handle_is_refused(handle):
    with pytest.raises(MalformedAppHandleException, match="is not an app handle") as caught:
        parse_app_handle(handle)
    assert repr(handle)[1:-1] in str(caught.value)
    assert isinstance(caught.value, LauncherError)
    assert isinstance(caught.value, ValueError)


NAME = st.text("ab.-_ 1", min_size=1).filter(lambda name: name == name.strip())


@given(NAME, st.just("") | NAME, NAME)
def test_parsing_returns_the_parts_of_a_handle(backend, session, app_id):
    assert parse_app_handle(make_app_handle(backend, session, app_id)) == (backend, session, app_id)


@given(st.text("ab:/", max_size=12))
def test_any_text_is_parsed_as_a_handle_or_refused(text):
    try:
        assert make_app_handle(*parse_app_handle(text)) == text
    except MalformedAppHandleException:
        pass


def test_errors_name_the_scheduler_with_the_nearest_one_and_the_app():
    error = UnknownSchedulerException("local_cdw", ["local_cwd", "local_dir"])
    assert isinstance(error, KeyError)
    assert (str(error), error.hint) == ("there is no scheduler `local_cdw`", "did you mean `local_cwd`?")
    assert UnknownSchedulerException("x").hint is None
    assert str(UnknownAppException("s://n/a")) == "there is no app `s://n/a`"
    assert issubclass(UnknownAppException, LauncherError)
