"""A replacement of the standard library's `dataclass` for our own classes, which loads faster.

The standard module loads `inspect`, and with it half of a bare interpreter's time; it compiles a function for
each method of a class, half a millisecond in all, 0.8 with `frozen`. A command loads a hundred such classes
and makes instances of some. Here all classes share their methods, the constructor of a class is compiled when
it is first called, and the standard library makes its own fields of a class when a tool asks for them.

It works as the standard one for fields, for what users derive from a class, and for `replace`, `asdict` and
`fields` of `dataclasses`. It takes no InitVar, and no class that it makes may inherit from another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import (
        MISSING as MISSING,
        asdict as asdict,
        dataclass as dataclass,
        field as field,
        fields as fields,
        replace as replace,
    )
    from typing import Any

    def filler(
        cls: Any, names: Sequence[str], *, convert: Callable[[Any], Any] | None = None
    ) -> Callable[[Sequence[Any]], Any]: ...

else:
    from functools import cache
    from operator import attrgetter
    from reprlib import recursive_repr

    _set = object.__setattr__

    class _Missing:
        """Stands for a missing default. Signatures show it for fields with a new value per instance."""

        def __repr__(self):
            return "<factory>"

    MISSING = _Missing()

    class field:
        """A field of a class: its default and what its methods do with it. See `dataclasses.field`."""

        __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "metadata", "name", "repr")
        __slots__ += ("type",)

        def __init__(
            self,
            *,
            default=MISSING,
            default_factory=MISSING,
            init=True,
            repr=True,
            compare=True,
            metadata=None,
            kw_only=None,
        ):
            self.default = default
            self.default_factory = default_factory
            self.init = init
            self.repr = repr
            self.compare = compare
            self.metadata = metadata or {}
            self.kw_only = kw_only

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True, repr=True):
        def made(cls):
            if hasattr(cls, "__own_fields__"):
                raise TypeError(f"{cls.__qualname__} derives from a class with fields: {cls.__bases__}")
            own = {name: vars(cls)[name] for name in ("__eq__", "__hash__", "__repr__") if name in vars(cls)}
            declared = _declared(cls, kw_only)
            if slots:
                cls = _with_slots(cls, [each.name for each in declared])
            methods = {
                "__own_fields__": declared,
                "__match_args__": tuple(each.name for each in declared if each.init and not each.kw_only),
                "__dataclass_fields__": _Standard("__dataclass_fields__", cls, frozen),
                "__dataclass_params__": _Standard("__dataclass_params__", cls, frozen),
                "__init__": _first_constructor(cls, frozen),
                "__signature__": _Signature(cls),
                "__replace__": replace,
            }
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

    def fields(given):
        """The fields of a class or instance, in order; of a class of the standard library its own ones."""
        cls = given if isinstance(given, type) else given.__class__
        owner = next((each for each in cls.__mro__ if "__dataclass_fields__" in vars(each)), cls)
        own = vars(owner).get("__own_fields__")
        if own is not None:
            return own
        import dataclasses

        return dataclasses.fields(given)

    def replace(given, /, **changes):
        """A copy of an instance with other values of some fields, as `dataclasses.replace` makes it."""
        cls = given.__class__
        names, values, fixed = _arguments(cls)
        for name in fixed.intersection(changes) if fixed else ():
            what = f"field {name} is declared with init=False, it cannot be specified with replace()"
            raise ValueError(what)
        return cls(**(dict(zip(names, values(given), strict=True)) | changes))

    def asdict(given):
        """The fields of an instance as a dict, as `dataclasses.asdict` makes it, but without copies of values
        that are no containers."""
        return {field.name: _plain(getattr(given, field.name)) for field in fields(given)}

    def _plain(value):
        cls = value.__class__
        if hasattr(cls, "__own_fields__") or hasattr(cls, "__dataclass_fields__"):
            return asdict(value)
        if isinstance(value, dict):
            return {_plain(key): _plain(each) for key, each in value.items()}
        if hasattr(value, "_fields"):
            return cls(*map(_plain, value))
        return cls(map(_plain, value)) if isinstance(value, list | tuple) else value

    @cache
    def filler(cls, names, *, convert=None):
        """Return a function from the values of these fields to an instance, twice as fast as the constructor.

        It has a statement for each field; the other fields get their defaults, and `__post_init__` is not
        called.

        Args:
            convert: converts each value that is a tuple.
        """
        known = {"cls": cls, "new": object.__new__, "convert": convert, "set_field": _set}
        parts = [f"part{number}" for number in range(len(names))]
        values = [f"convert({part}) if type({part}) is tuple else {part}" for part in parts]
        pairs = [*zip(names, parts, values if convert else parts, strict=True)]
        body = [f"{', '.join(parts)}, = values", "made = new(cls)"]
        if hasattr(cls, "__slots__"):
            known |= {f"set_{part}": vars(cls)[name].__set__ for name, part, _ in pairs}
            body += [f"set_{part}(made, {value})" for _, part, value in pairs]
        else:
            items = ", ".join(f"{name!r}: {value}" for name, _, value in pairs)
            body.append(f"vars(made).update({{{items}}})")
        for each in fields(cls):
            if each.name not in names:
                known[f"default_{each.name}"] = each.default
                body.append(f"set_field(made, {each.name!r}, default_{each.name})")
        exec("\n ".join(["def filled(values):", *body, "return made"]), known)
        return known["filled"]

    @cache
    def _arguments(cls):
        """Return the names of the fields that a constructor takes, a function from an instance to their
        values, and the names of the other fields.
        """
        names = [field.name for field in fields(cls) if field.init]
        fixed = frozenset(field.name for field in fields(cls) if not field.init)
        return names, _values_of(names), fixed

    def _declared(cls, kw_only):
        """Return a class's declared fields, with names, types and defaults. Takes defaults off the class."""
        found = []
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if str(kind).startswith(("ClassVar", "typing.ClassVar")):
                continue
            value = vars(cls).get(name, MISSING)
            each = value if isinstance(value, field) else field(default=value)
            if type(each.default).__hash__ is None or type(each.default).__module__ == "dataclasses":
                hint = "`default_factory` of launcher.dataclass.field makes a new one for each instance"
                raise ValueError(f"{cls.__qualname__}.{name}: {type(each.default)} is no default: {hint}")
            each.name, each.type = name, kind
            each.kw_only = kw_only if each.kw_only is None else each.kw_only
            if value is each and each.default is MISSING:
                delattr(cls, name)
            elif value is each:
                setattr(cls, name, each.default)
            found.append(each)
        return tuple(found)

    def _with_slots(cls, names):
        inside = {name: value for name, value in vars(cls).items() if name not in names}
        inside.pop("__dict__", None)
        inside.pop("__weakref__", None)
        made = type(cls)(cls.__name__, cls.__bases__, {**inside, "__slots__": tuple(names)})
        made.__qualname__ = cls.__qualname__
        return made

    class _Standard:
        """The facts of the standard library about a class, made when a tool asks for them."""

        def __init__(self, name, cls, frozen):
            self._name, self._cls, self._frozen = name, cls, frozen

        def __get__(self, instance, cls):
            import dataclasses

            inside = {"__module__": self._cls.__module__, "__qualname__": self._cls.__qualname__}
            inside["__annotations__"] = {each.name: each.type for each in self._cls.__own_fields__}
            for each in self._cls.__own_fields__:
                names = ("default", "default_factory", "init", "repr", "compare", "metadata", "kw_only")
                given = {name: getattr(each, name) for name in names if getattr(each, name) is not MISSING}
                inside[each.name] = dataclasses.field(**given)
            twin = type(self._cls.__name__, (), inside)
            made = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=self._frozen)(twin)
            for name in ("__dataclass_fields__", "__dataclass_params__"):
                setattr(self._cls, name, getattr(made, name))
            return getattr(made, self._name)

    def _first_constructor(cls, frozen):
        def __init__(self, /, *args, **kwargs):
            cls.__init__ = _constructor(cls, frozen)
            cls.__init__(self, *args, **kwargs)

        return __init__

    class _Signature:
        """The signature of a class's constructor, for the tools that read it."""

        def __init__(self, cls):
            self._cls = cls

        def __get__(self, instance, cls):
            if cls.__init__ is not self._cls.__init__:
                raise AttributeError("__signature__")  # the class is derived from this one
            from inspect import signature

            whole = signature(_constructor(self._cls, frozen=False))
            return whole.replace(parameters=[*whole.parameters.values()][1:])

    def _constructor(cls, frozen):
        """The constructor of a class, as the standard library writes it."""
        names = {"_set": _set, "_missing": MISSING}
        slots = vars(cls).get("__slots__", ())
        parameters, keywords, body = [], [], []
        for field in cls.__own_fields__:
            name, default, factory = field.name, field.default, field.default_factory
            parameter = value = name
            if factory is not MISSING:
                names[f"_new_{name}"] = factory
                parameter = f"{name}=_missing"
                value = f"_new_{name}() if {name} is _missing else {name}" if field.init else f"_new_{name}()"
            elif default is not MISSING:
                names[f"_default_{name}"] = default
                parameter = f"{name}=_default_{name}"
                value = name if field.init else f"_default_{name}"
            elif not field.init:
                continue
            if field.init:
                (keywords if field.kw_only else parameters).append(parameter)
            if frozen and name in slots:
                names[f"_set_{name}"] = vars(cls)[name].__set__  # takes half the time of `_set`
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
        made.__annotations__ = {each.name: each.type for each in cls.__own_fields__ if each.init}
        made.__annotations__["return"] = None
        return made

    @cache
    def _compared(cls):
        """Return a function from an instance to the values that are compared."""
        return _values_of([field.name for field in cls.__own_fields__ if field.compare])

    def _values_of(names):
        """Return a function from an instance to a tuple of the values of these fields."""
        if len(names) < 2:
            return lambda given: tuple(getattr(given, name) for name in names)
        return attrgetter(*names)

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        values = _compared(self.__class__)
        return values(self) == values(other)

    def _hash(self):
        return hash(_compared(self.__class__)(self))

    @recursive_repr()
    def _represent(self):
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in self.__own_fields__ if field.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _refuse_to_set(self, name, value):
        _check_derived(self, name, "assign to")
        _set(self, name, value)

    def _refuse_to_delete(self, name):
        _check_derived(self, name, "delete")
        object.__delattr__(self, name)

    def _check_derived(self, name, act):
        """Raise FrozenInstanceError, except for a name that a user's subclass adds."""
        if "__own_fields__" in vars(self.__class__) or any(each.name == name for each in self.__own_fields__):
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {act} field {name!r}")

    def _state(self):
        return [getattr(self, field.name) for field in self.__own_fields__]

    def _set_state(self, state):
        for field, value in zip(self.__own_fields__, state, strict=True):
            _set(self, field.name, value)
