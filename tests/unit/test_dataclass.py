"""Classes of `launcher.dataclass` behave as those of the standard library."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.dataclass import dataclass

PACKAGE = Path(launcher.__path__[0])
KINDS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for kw_only in (False, True)
]


def point(make: Callable[..., Any], options: dict[str, bool]) -> Any:
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)
        note: str = dataclasses.field(default="", compare=False, repr=False)
        total: int = dataclasses.field(init=False, default=7)
        seen: list[int] = dataclasses.field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.x + sum(self.y))

    Point.__qualname__ = "Point"
    return make(**options)(Point)


@pytest.fixture(params=KINDS, ids=lambda kind: " ".join(name for name in kind if kind[name]) or "plain")
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return point(dataclass, request.param), point(dataclasses.dataclass, request.param)


def outcome(act: Callable[[Any], Any], made: Any) -> Any:
    try:
        return act(made)
    except Exception as error:
        return type(error), str(error).replace("__init__()", "Point.__init__()").rpartition("Point.")[2]


ACTS: list[Callable[[Any], Any]] = [
    lambda made: repr(made(x=1)),
    lambda made: repr(made(1, [2])),
    lambda made: repr(made()),
    lambda made: repr(made(x=1, z=2)),
    lambda made: made(x=1).y is made(x=1).y,
    lambda made: made(x=1, note="a") == made(x=1, note="b"),
    lambda made: made(x=1) == made(x=2),
    lambda made: made(x=1) == 1,
    lambda made: isinstance(hash(made(x=1)), int),
    lambda made: setattr(made(x=1), "x", 2),
    lambda made: delattr(made(x=1), "note"),
    lambda made: hasattr(made(x=1), "__dict__"),
    lambda made: repr(dataclasses.replace(made(x=1), y=[5])),
    lambda made: dataclasses.asdict(made(x=1, y=[2])),
    lambda made: [field.name for field in dataclasses.fields(made)],
    lambda made: made.__match_args__,
    lambda made: [(each.name, each.kind) for each in inspect.signature(made).parameters.values()],
    lambda made: copy.copy(made(x=1, y=[3])).y,
    lambda made: copy.deepcopy(made(x=1, y=[3])).total,
]
"""Each is given a class."""


def test_a_generated_class_behaves_as_the_standard_class(both: tuple[Any, Any]) -> None:
    ours, standard = ([outcome(act, made) for act in ACTS] for made in both)
    assert ours == standard


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str = "r"


def test_an_instance_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Pair(1))) == Pair(1)


def test_two_fields_of_equal_values_hash_alike() -> None:
    assert len({Pair(1), Pair(1), Pair(2)}) == 2


def test_a_method_of_the_class_stays() -> None:
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


def classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(launcher.__path__, "launcher."):
        if not module.name.endswith("__main__") and ".site." not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name:
                    yield value


def test_no_class_inherits_from_a_class_that_shares_its_methods() -> None:
    ours = {each for each in classes() if getattr(each, "__repr__", None) is Pair.__repr__}
    assert len(ours) > 50
    assert not [each for each in classes() if ours & {*each.__mro__[1:]}]


def test_only_classes_that_users_instantiate_are_standard_dataclasses() -> None:
    standard = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.MULTILINE)
    }
    assert standard == {f"specs/{name}.py" for name in ("app", "mounts", "probe", "runopts")}
