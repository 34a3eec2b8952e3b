"""Every public name says what it is: what `__all__` of a public package has, and its public methods."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

PACKAGES = ("", ".specs", ".schedulers", ".runner", ".workspace", ".components")
MODULES = (".schedulers.api", ".schedulers.ids", ".schedulers.devices", ".runner.config", ".errors")
"""Public too, by the functions and classes that they define."""


def public() -> Iterator[tuple[str, Any]]:
    """Name and value of every class and function that users may import from us."""
    for package in (import_module(f"launcher{name}") for name in PACKAGES):
        yield package.__name__, package
        for name in package.__all__:
            yield f"{package.__name__}.{name}", getattr(package, name)
    for module in (import_module(f"launcher{name}") for name in MODULES):
        yield module.__name__, module
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
                yield f"{module.__name__}.{name}", value


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of ours defines itself."""
    for name, value in vars(kind).items():
        plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, getattr(kind, name) if not isinstance(plain, property) else plain


def documented() -> dict[str, Any]:
    found = {}
    for name, value in public():
        if inspect.ismodule(value):
            found[name] = value
        elif (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("launcher"):
            found[name] = value
            if inspect.isclass(value):
                found.update({f"{name}.{method}": of for method, of in methods(value)})
    return found


DOCUMENTED = documented()


def described(value: Any) -> str:
    """Return the docstring; "" for one that Python has made up."""
    text = (value.__doc__ if inspect.isclass(value) else inspect.getdoc(value)) or ""
    made_up = (f"{getattr(value, '__name__', '')}(", "An enumeration", "str(object", "int([x")
    return "" if text.startswith(made_up) else text


def test_the_public_api_has_its_known_names():
    assert {"launcher.load_job", "launcher.specs.Role", "launcher.runner.Runner.wait"} <= DOCUMENTED.keys()


def test_a_public_name_has_a_docstring_that_says_something():
    texts = {name: described(value) for name, value in DOCUMENTED.items()}
    assert {name: text for name, text in texts.items() if len(text.split()) < 3} == {}
    firsts = {name: text.partition("\n\n")[0].rstrip() for name, text in texts.items()}
    assert {
        name: text for name, text in firsts.items() if not text.endswith((".", ":", "::", ")", "`"))
    } == {}
