"""The info that a dry run returns."""

from launcher.specs import AppDryRunInfo


def test_an_info_prints_the_request_with_the_given_function():
    seen: list[object] = []
    info = AppDryRunInfo({"a": 1}, lambda request: seen.append(request) or "a request")
    assert repr(info) == "a request"
    assert seen == [info.request] == [{"a": 1}]
    assert (info._app, info._cfg, info._scheduler) == (None, {}, None)


def test_a_scheduler_of_torchx_can_complete_an_info_by_the_names_that_it_knows():
    info = AppDryRunInfo(1, str)
    info._app, info._cfg, info._scheduler = "app", {"a": 1}, "mine"
    assert (info.app, info.cfg, info.scheduler) == ("app", {"a": 1}, "mine")


def test_completing_an_info_leaves_it_as_it_was_and_keeps_its_class():
    class Own(AppDryRunInfo[int]):
        def __init__(self, request: int) -> None:
            super().__init__(request, str)
            self.extra = "mine"

    info = Own(1)
    made = info.completed(app="app", cfg={"a": 1}, scheduler="one").completed(scheduler="two")
    assert (made._app, made._cfg, made._scheduler, str(made)) == ("app", {"a": 1}, "two", "1")
    assert isinstance(made, Own)
    assert made.extra == "mine"
    assert (info.app, info.cfg, info.scheduler) == (None, {}, None)


def test_a_build_sees_the_info_as_it_was_edited_and_an_info_without_a_workspace_is_scheduled_as_it_is():
    info = AppDryRunInfo(1, str)
    assert info.built() is info
    asked: list[object] = []
    other = AppDryRunInfo(2, str)
    building = info.completed(build=lambda given: asked.append(given.request) or other)
    building.request = 3
    assert building.built() is other
    assert asked == [3]
