"""A component is called with arguments of the types its signature says, within a limit of time."""

import typing
from typing import Dict, List, Optional, Tuple  # noqa: UP035  # the spellings of old are supported too

import pytest

from launcher.components import (
    ComponentArgumentException,
    ComponentResultException,
    component_args_from_str,
    materialize_appdef,
    parse_args,
)
from launcher.components.calls import TIMEOUT, TIMEOUT_S, timeout_s
from launcher.components.signature import ComponentSignatureException
from launcher.errors import UsageError
from launcher.specs import AppDef


def every(
    text: str,
    number: int = 1,
    rate: float = 0.5,
    flag: bool = False,
    maybe_number: Optional[int] = None,  # noqa: UP045
    maybe_rate: float | None = None,
    maybe_text: str | None = None,
    words: Optional[List[str]] = None,  # noqa: UP006, UP045
    numbers: list[int] = [],  # noqa: B006
    sizes: Dict[str, int] | None = None,  # noqa: UP006
    pair: Tuple[str, int] = ("a", 1),  # noqa: UP006
    many: tuple[float, ...] = (),
) -> AppDef:
    """A component with an argument of every type."""
    return AppDef("every", metadata={"text": text})


def rest(first: str, *args: str, last: str = "z", x: int = 0) -> AppDef:
    return AppDef("rest")


def given(function, *words, defaults=None, config=None):
    return vars(parse_args(function, words, defaults, config))


@pytest.mark.parametrize(("word", "name", "value"), [
    ("--number=3", "number", 3), ("--number=-3", "number", -3), ("--rate=1e-3", "rate", 0.001),
    ("--rate=3", "rate", 3.0), ("--maybe_number=3", "maybe_number", 3),
    ("--maybe_number=", "maybe_number", None), ("--maybe_rate=3", "maybe_rate", 3.0),
    ("--maybe_text=3", "maybe_text", "3"), ("--maybe_text=", "maybe_text", ""),
    ("--words=a, b", "words", ["a", "b"]), ("--words=", "words", None),
    ("--numbers=1,2", "numbers", [1, 2]), ("--numbers=", "numbers", []),
    ("--sizes=a=1,b=2", "sizes", {"a": 1, "b": 2}), ("--sizes=", "sizes", None),
    ("--pair=b,2", "pair", ("b", 2)), ("--many=1,2.5", "many", (1.0, 2.5)),
])  # fmt: skip
def test_text_is_read_as_the_type_of_its_argument(word, name, value):
    got = given(every, "--text", "t", word)[name]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("spelling", "value"), [
    *((word, True) for word in ("true", "1", "YES", "on")),
    *((word, False) for word in ("false", "0", "No", "off")),
])  # fmt: skip
def test_a_flag_has_several_spellings(spelling, value):
    for words in ([f"--flag={spelling}"], [f"--fl={spelling}"], ["--flag", spelling]):
        assert given(every, "--text=t", *words, defaults={"flag": str(not value)})["flag"] is value


@pytest.mark.parametrize(("words", "output"), [
    ([], "`text` (str) is required"),
    (["--text=t", "--flag=maybe"], "`flag`: want true or false, got `maybe`"),
    (["--text=t", "--number=x"], "`number`: want a number (int), got `x`"),
    (["--text=t", "--maybe_number=x"], "`maybe_number`: want a number (int), got `x`"),
    (["--text=t", "--numbers=1,x"], "`numbers`: want a number (int), got `x`"),
    (["--text=t", "--sizes=a"], "`sizes`: `a` has no `key=value` pair"),
    (["--text=t", "--pair=a"], "`pair`: want 2 values, got 1"),
    (["--text"], "`--text` needs a value"),
    (["--text", "--number", "3"], "`--text` needs a value"),
    (["--text=t", "--m=1"], "`--m` fits more than one argument"),
    (["--text=t", "word"], "`word` belongs to no argument"),
])  # fmt: skip
def test_a_wrong_argument_is_refused_by_name(words, output):
    with pytest.raises(ComponentArgumentException, match="component `every`") as caught:
        parse_args(every, words)
    assert output in str(caught.value)


def test_an_unknown_argument_is_refused_with_the_nearest_one():
    with pytest.raises(ComponentArgumentException) as caught:
        parse_args(every, ["--text=t", "--nunber", "3"])
    assert caught.value.hint == "did you mean `number`?"
    assert "`--nunber`" in str(caught.value)


def test_an_argument_behind_two_dashes_is_refused_with_what_to_leave_out():
    with pytest.raises(ComponentArgumentException, match="`--text` belongs to no argument") as caught:
        parse_args(every, ["--", "--text", "t"])
    assert str(caught.value.hint).startswith("leave out `--`")


def test_all_problems_are_named_at_once():
    with pytest.raises(ComponentArgumentException) as caught:
        parse_args(every, ["--number=x", "--rate=y"])
    assert [problem.name for problem in caught.value.problems] == ["number", "rate", "text"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["b", "--last", "c"], {"args": ["b", "--last", "c"], "last": "z"}),
        (["--", "--last", "--", "c"], {"args": ["--last", "--", "c"], "last": "z"}),
        (["--last=a", "--last=b"], {"last": "b"}),
        *(([*each], {"x": -3}) for each in (("-x", "-3"), ("-x=-3",), ("--x=-3",), ("-x-3",))),
    ],
    ids=["a bare word and all behind it", "two dashes", "a repeated argument", *["one letter"] * 4],
)
def test_words_go_to_their_arguments(words, found):
    assert given(rest, "--first", "a", *words).items() >= found.items()
    assert given(every, "--text=t", "--maybe-number", "3")["maybe_number"] == 3


def test_star_args_have_the_type_of_their_annotation():
    def numbers(*values: int) -> AppDef: ...

    assert given(numbers, "1", "2")["values"] == [1, 2]


def test_component_args_have_positions_star_args_and_keywords():
    got = component_args_from_str(rest, ["--first", "a", "-x", "3", "b", "c"])
    assert got == ({"first": "a"}, ["b", "c"], {"last": "z", "x": 3})
    assert got.kwargs == {"last": "z", "x": 3}


def test_values_win_in_the_order_command_line_document_configuration_signature():
    defaults = {"number": "2", "rate": "2", "words": "2"}
    got = given(every, "--text=t", "--number=4", defaults=defaults, config={"number": 3, "rate": 3})
    assert (got["number"], got["rate"], got["words"], got["flag"]) == (4, 3.0, ["2"], False)


def test_a_configured_default_of_star_args_is_split_at_blanks():
    assert given(rest, "--first=a", defaults={"args": "a b --c"})["args"] == ["a", "b", "--c"]
    assert given(rest, "--first=a", "d", defaults={"args": "a b --c"})["args"] == ["d"]


def test_an_unknown_argument_from_configuration_is_reported_as_such():
    with pytest.raises(ComponentArgumentException, match="no argument `lost`, and configuration sets it"):
        given(rest, "--first=a", defaults={"lost": "b"})


def test_a_configured_default_may_be_a_value_of_its_type():
    assert given(rest, "--first=a", defaults={"x": 3, "args": ["b c", "d"]})["x"] == 3
    with pytest.raises(ComponentArgumentException, match="`x`: want int, got a list"):
        given(rest, "--first=a", defaults={"x": [3]})


@pytest.mark.parametrize("words", ["--first a", None, {"first": "a"}, ["--x", 3]])
def test_arguments_that_are_no_list_of_words_are_refused(words):
    for call in (parse_args, materialize_appdef):
        with pytest.raises(ComponentArgumentException, match="arguments are a list of words, got "):
            call(rest, words)


def test_a_document_gives_values_of_their_types():
    config = {"text": "t", "maybe_number": 3, "rate": 1, "sizes": {"a": 1}, "pair": ["b", 2], "flag": True}
    got = given(every, config=config)
    assert (got["maybe_number"], got["rate"], got["sizes"], got["pair"]) == (3, 1.0, {"a": 1}, ("b", 2))


@pytest.mark.parametrize(("name", "value", "output"), [
    ("number", 1.5, "want int, got 1.5"), ("number", True, "want int, got true"),
    ("flag", 1, "want bool, got 1"), ("text", 3, "want str, got 3"), ("words", [1], "want str, got 1"),
    ("number", None, "want int, got nothing"), ("nunber", 3, "there is no argument `nunber`"),
])  # fmt: skip
def test_a_document_with_a_wrong_value_is_refused(name, value, output):
    with pytest.raises(ComponentArgumentException) as caught:
        parse_args(every, [], None, {"text": "t", name: value})
    assert output in str(caught.value)


def test_a_parameter_with_the_default_none_takes_none_though_its_type_does_not_say_so() -> None:
    def component(number: int = None, words: List[str] = None) -> AppDef: ...  # noqa: RUF013, UP006

    assert vars(parse_args(component, ["--number=", "--words="])) == {"number": None, "words": None}
    assert vars(parse_args(component, [], None, {"number": None})) == {"number": None, "words": None}


def test_annotations_that_are_text_are_looked_up():
    namespace: dict[str, typing.Any] = {}
    source = "from __future__ import annotations\nfrom typing import Optional\n"
    source += "def f(n: Optional[int] = None, *rest: float, flags: list[bool] = []) -> AppDef: ...\n"
    exec(source, namespace)
    got = given(namespace["f"], "--n", "3", "--flags", "yes,no", "1")
    assert got == {"n": 3, "rest": [1.0], "flags": [True, False]}


def test_a_type_that_cannot_be_looked_up_is_named():
    def broken(x: "Nowhere") -> AppDef: ...  # noqa: F821

    with pytest.raises(ComponentSignatureException, match="the type of `x` in component `broken`"):
        parse_args(broken, [])


def test_keywords_of_any_name_are_refused():
    def loose(**more: str) -> AppDef: ...

    with pytest.raises(TypeError, match="takes `\\*\\*more`"):
        parse_args(loose, [])


def test_a_default_of_any_class_is_passed_through():
    class Settings:
        pass

    chosen = Settings()

    def f(settings: Settings = chosen) -> AppDef: ...

    f.__annotations__["settings"] = Settings
    assert given(f)["settings"] is chosen
    assert given(f, config={"settings": chosen})["settings"] is chosen


def test_the_app_is_the_value_that_the_component_returns():
    assert materialize_appdef(every, ["--text", "hi"]) == AppDef("every", metadata={"text": "hi"})


def test_a_component_that_returns_no_app_is_refused():
    def wrong() -> AppDef:
        return {}

    with pytest.raises(ComponentResultException, match="returned dict, not an AppDef") as caught:
        materialize_appdef(wrong, [])
    assert isinstance(caught.value, TypeError)


def help_of(capsys, function, defaults=None):
    with pytest.raises(SystemExit) as caught:
        materialize_appdef(function, ["--help"], defaults)
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_shows_every_argument_in_an_order_that_works_and_ends(capsys):
    def f(text: str = "", sizes: dict[str, int] = {}, words: tuple[str, ...] = ()) -> AppDef: ...  # noqa: B006

    shown = help_of(capsys, rest, {"last": "y", "args": ["a b", "c"]}) + help_of(capsys, f)
    for part in (
        *("run rest --first FIRST [--last LAST] [--x X] [ARGS …]\n", "rest TIP", "--first str (required)"),
        *(
            "-x, --x int (default: 0)",
            "--last str (default: y)",
            "args str (default: 'a b' c)",
            "--text str (default: '')",
        ),
        *("--sizes dict[str, int] (default: empty)", "--words tuple[str, …] (default: empty)"),
    ):
        assert part in shown


def test_a_component_may_have_an_argument_named_h():
    def f(h: str = "") -> AppDef: ...

    assert given(f, "-h", "gpu.small")["h"] == "gpu.small"


def test_a_mutable_default_is_copied_for_each_call():
    assert given(every, "--text=t")["numbers"] is not given(every, "--text=t")["numbers"]


@pytest.mark.parametrize(
    ("output", "seconds"), [("", TIMEOUT_S), ("60", 60), ("0.5", 0.5), ("2m", 120), ("1.5h", 5400)]
)
def test_the_time_limit_of_component_calls_is_a_duration(output, seconds):
    assert timeout_s({TIMEOUT: output}) == seconds


@pytest.mark.parametrize("output", ["0", "0s", "-1", "soon", "inf", "nan", "2d", "9" * 20 + "w", "9" * 400])
def test_a_value_that_is_no_duration_is_refused_with_examples(output):
    with pytest.raises(UsageError) as caught:
        timeout_s({TIMEOUT: output})
    assert "such as 90 (seconds), 10s" in (caught.value.hint or "")
