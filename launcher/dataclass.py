"""A replacement of the standard library's `dataclass` for our own classes, which loads faster.

The standard one compiles a function for each method of a class, half a millisecond in all, 0.8 with `frozen`.
A command loads a hundred such classes and makes instances of some. Here all classes share their methods, and
the constructor of a class is compiled when it is first called.

It works as the standard one for fields, and for `replace`, `asdict` and `fields` of `dataclasses`. It takes
no InitVar, and no class may inherit from a class that it made: AppDef and Role, which users may extend, use
the standard one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    import inspect  # `dataclasses` has loaded it already
    from functools import cache
    from operator import attrgetter
    from reprlib import recursive_repr

    _set = object.__setattr__
    _missing = object()

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True, repr=True):
        def made(cls):
            own = {name: vars(cls)[name] for name in ("__eq__", "__hash__", "__repr__") if name in vars(cls)}
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            methods = {"__init__": _first_constructor(cls, frozen), "__signature__": _Signature()}
            if repr:
                methods["__repr__"] = _represent
            if eq:
                methods |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
            if frozen:
                methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
            if frozen and slots:
                methods |= {"__getstate__": _state, "__setstate__": _set_state}
            for name, method in (methods | own).items():
                setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)

    def _first_constructor(cls, frozen):
        def __init__(self, /, *args, **kwargs):
            cls.__init__ = _constructor(cls, frozen)
            cls.__init__(self, *args, **kwargs)

        return __init__

    class _Signature:
        """The signature of a class's constructor, for the tools that read it."""

        def __get__(self, instance, cls):
            whole = inspect.signature(_constructor(cls, frozen=False))
            return whole.replace(parameters=[*whole.parameters.values()][1:])

    def _constructor(cls, frozen):
        """The constructor of a class, as the standard library writes it."""
        names = {"_set": _set, "_missing": _missing}
        slots = vars(cls).get("__slots__", ())
        parameters, keywords, body = [], [], []
        for field in dataclasses.fields(cls):
            name, default, factory = field.name, field.default, field.default_factory
            parameter = value = name
            if factory is not dataclasses.MISSING:
                names[f"_new_{name}"] = factory
                parameter = f"{name}=_missing"
                value = f"_new_{name}() if {name} is _missing else {name}" if field.init else f"_new_{name}()"
            elif default is not dataclasses.MISSING:
                names[f"_default_{name}"] = default
                parameter = f"{name}=_default_{name}"
                value = name if field.init else f"_default_{name}"
            elif not field.init:
                continue
            if field.init:
                (keywords if field.kw_only else parameters).append(parameter)
            if frozen and name in slots:
                names[f"_set_{name}"] = vars(cls)[name].__set__  # half the time of `_set`
                body.append(f"_set_{name}(self, {value})")
            else:
                body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        star = ["*"] if keywords else []
        head = f"def __init__({', '.join(['self', *parameters, *star, *keywords])}):"
        exec("\n ".join([head, *(body or ["pass"])]), names)
        made = names["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        return made

    @cache
    def _compared(cls):
        """A function from an instance to the values that are compared."""
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        return attrgetter(*names) if names else lambda self: ()

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(self.__class__)
        return values(self) == values(other)

    def _hash(self):
        return hash(_compared(self.__class__)(self))

    @recursive_repr()
    def _represent(self):
        shown = (
            f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
        )
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _refuse_to_set(self, name, value):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self):
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _set_state(self, state):
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            _set(self, field.name, value)
