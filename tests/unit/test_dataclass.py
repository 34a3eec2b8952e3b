"""Classes of `launcher.dataclass` behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import launcher
import launcher.dataclass as ours
from launcher.dataclass import dataclass
from launcher.specs import AppDef, Role

PACKAGE = Path(launcher.__path__[0])
KINDS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for kw_only in (False, True)
]


def point(library: Any, options: dict[str, bool]) -> Any:
    """Return a class that one of the two libraries makes, with its own `field`."""
    field = library.field

    class Point:
        x: int
        y: list[int] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        total: int = field(init=False, default=7)
        seen: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + sum(self.y))

    Point.__qualname__ = "Point"
    return library.dataclass(**options)(Point)


@pytest.fixture(params=KINDS, ids=lambda kind: " ".join(name for name in kind if kind[name]) or "plain")
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return point(ours, request.param), point(dataclasses, request.param)


def outcome(act: Callable[[Any], Any], made: Any) -> Any:
    try:
        return act(made)
    except Exception as error:
        return type(error), str(error).replace("__init__()", "Point.__init__()").rpartition("Point.")[2]


ACTS: list[Callable[[Any], Any]] = [
    lambda made: repr(made(x=1)), lambda made: repr(made(1, [2])), lambda made: repr(made()),
    lambda made: repr(made(x=1, z=2)), lambda made: made(x=1).y is made(x=1).y,
    lambda made: made(x=1, note="a") == made(x=1, note="b"), lambda made: made(x=1) == made(x=2),
    lambda made: made(x=1) == 1, lambda made: isinstance(hash(made(x=1)), int),
    lambda made: setattr(made(x=1), "x", 2), lambda made: delattr(made(x=1), "note"),
    lambda made: hasattr(made(x=1), "__dict__"), lambda made: repr(dataclasses.replace(made(x=1), y=[5])),
    lambda made: dataclasses.asdict(made(x=1, y=[2])),
    lambda made: [field.name for field in dataclasses.fields(made)], lambda made: made.__match_args__,
    lambda made: [(each.name, each.kind) for each in inspect.signature(made).parameters.values()],
    lambda made: copy.copy(made(x=1, y=[3])).y, lambda made: copy.deepcopy(made(x=1, y=[3])).total,
]  # fmt: skip
"""Each is given a class."""
REPLACE = (ours.replace, dataclasses.replace)
FIELDS = (ours.fields, dataclasses.fields)
AS_DICT = (ours.asdict, dataclasses.asdict)


def test_a_generated_class_behaves_as_the_standard_class(both: tuple[Any, Any]) -> None:
    found, wanted = ([outcome(act, made) for act in ACTS] for made in both)
    assert found == wanted


class Cell(NamedTuple):
    value: Any
    count: int


def test_replace_and_fields_do_the_same_as_those_of_the_standard_library(both: tuple[Any, Any]) -> None:
    for made in both:
        value = made(x=1, y=[2])
        wanted = repr(made(x=1, y=[5], note="new"))
        for by in REPLACE:
            assert repr(by(value, y=[5], note="new")) == wanted
            with pytest.raises((TypeError, ValueError), match="total"):
                by(value, total=3)
        names = ("name", "type", "init", "repr", "compare", "kw_only")
        both_ways = [[[getattr(each, n) for n in names] for each in by(made)] for by in FIELDS]
        assert both_ways[0] == both_ways[1]


def test_asdict_does_the_same_as_that_of_the_standard_library(both: tuple[Any, Any]) -> None:
    for made in both:
        inner = made(x=1, y=[2])
        whole = made(x=0, note={"a": (inner, [Cell(inner, 1)]), 2: {3}})
        assert ours.asdict(whole) == dataclasses.asdict(whole)
        assert ours.asdict(whole)["note"]["a"][1] is not whole.note["a"][1]


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str = "r"


def test_instances_survive_pickling_and_hash_by_their_fields() -> None:
    assert pickle.loads(pickle.dumps(Pair(1))) == Pair(1)
    assert len({Pair(1), Pair(1), Pair(2)}) == 2


def test_a_method_that_a_class_defines_is_not_replaced() -> None:
    @dataclass(slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __eq__(self, other: object) -> bool:
            return True

    assert repr(Named("a")) == "<a>"
    assert Named("a") == Named("b")
    assert Named.__hash__ is None


def test_a_class_that_would_lose_the_fields_of_its_base_is_refused() -> None:
    with pytest.raises(TypeError, match="Pair"):

        @dataclass
        class Triple(Pair):
            third: int = 0


@pytest.mark.parametrize("derive", [dataclasses.dataclass, dataclasses.dataclass(kw_only=True)])
def test_users_derive_standard_dataclasses_from_ours(derive: Callable[..., Any]) -> None:
    @derive
    class Trainer(Role):
        epochs: int = 3

    made = Trainer(name="t", image="i", epochs=5)
    assert [each.name for each in dataclasses.fields(made)][-2:] == ["cfg", "epochs"]
    assert "epochs" in inspect.signature(Trainer).parameters
    assert ours.replace(made, image="j") == dataclasses.replace(made, image="j") != made
    assert repr(made).endswith("epochs=5)")
    assert dataclasses.asdict(AppDef("a", [made]))["roles"][0]["epochs"] == 5


def test_a_plain_class_derived_from_a_dataclass_has_its_own_constructor() -> None:
    class Sleeper(Role):
        def __init__(self, seconds: int) -> None:
            super().__init__("sleeper", "", entrypoint="sleep", args=[str(seconds)])

    assert [*inspect.signature(Sleeper).parameters] == ["seconds"]
    assert Sleeper(1).args == ["1"]
    assert Sleeper(1) == Sleeper(1) != Role("sleeper", "", entrypoint="sleep", args=["1"])
    assert ours.fields(Sleeper) == ours.fields(Role)


def test_a_frozen_class_lets_derived_classes_add_attributes() -> None:
    class Named(Pair):
        pass

    made = Named(1)
    made.name = "added"  # type: ignore[attr-defined]
    assert vars(made) == {"name": "added"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.left = 2  # type: ignore[misc]


@pytest.mark.parametrize("default", [[], {}, dataclasses.field(default=1)], ids=["list", "dict", "field"])
def test_a_default_that_instances_would_share_is_refused(default: Any) -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass
        class Shared:
            found: Any = default


FROM_STANDARD = re.compile(
    r"^ *from dataclasses import (?:.*|\([^)]*)\b(dataclass|field|fields|replace)\b", re.MULTILINE
)


def test_no_class_is_made_by_the_standard_module_dataclasses() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert {name for name, text in files.items() if FROM_STANDARD.search(text)} == {"dataclass.py"}
