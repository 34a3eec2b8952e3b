"""What a dry run hands back."""

from __future__ import annotations

from launcher.specs import AppDryRunInfo


def test_it_prints_the_request_by_the_given_function():
    seen: list[object] = []

    def fmt(request: object) -> str:
        seen.append(request)
        return "a request"

    request = {"a": 1}
    info = AppDryRunInfo(request, fmt)
    assert info.request is request
    assert repr(info) == "a request"
    assert seen == [request]


def test_the_references_back_are_empty_until_a_scheduler_sets_them():
    info = AppDryRunInfo(1, str)
    assert (info._app, info._cfg, info._scheduler) == (None, {}, None)
    assert str(info) == "1"
