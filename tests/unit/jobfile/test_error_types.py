"""Every error of pydantic is reported in our words: proven for every error type, with our own models.

Nothing here names a field: the models are walked, so that a field added to the language is in the proof.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core._pydantic_core import list_all_errors

import launcher.jobfile
from launcher.jobfile.diagnostic import CODES, Diagnostic
from launcher.jobfile.messages.collector import Collector
from launcher.jobfile.messages.wording import _SAYINGS, WANTED, report
from launcher.jobfile.model.job_file import JobFile
from launcher.jobfile.model.types import Model
from launcher.jobfile.text.document import Document, Path, Source, Spot
from tests.unit.jobfile.mutations import VALUES, mutations

ERRORS: Mapping[str, Mapping[str, Any]] = {str(error["type"]): error for error in list_all_errors()}
WORDED = {*WANTED, *_SAYINGS, "missing", "extra_forbidden"}

# The errors that each kind of schema, and each limit on one, can find in values of YAML and TOML.
RAISED: Mapping[str, set[str]] = {
    "model": {"model_type"},
    "model-fields": {"model_attributes_type", "missing", "extra_forbidden"},
    "model-field": set(), "str": {"string_type"}, "str.pattern": {"string_pattern_mismatch"},
    "str.min_length": {"string_too_short"}, "str.max_length": {"string_too_long"}, "int": {"int_type"},
    "int.ge": {"greater_than_equal"}, "int.gt": {"greater_than"}, "int.le": {"less_than_equal"},
    "int.lt": {"less_than"}, "float": {"float_type"}, "float.ge": {"greater_than_equal"},
    "float.gt": {"greater_than"}, "float.le": {"less_than_equal"}, "float.lt": {"less_than"},
    "float.allow_inf_nan": {"finite_number"}, "bool": {"bool_type"}, "list": {"list_type"},
    "list.min_length": {"too_short"}, "list.max_length": {"too_long"}, "dict": {"dict_type"},
    "dict.min_length": {"too_short"}, "dict.max_length": {"too_long"}, "literal": {"literal_error"},
    "none": {"none_required"},
    "tagged-union": {"union_tag_invalid", "union_tag_not_found"},
    **{key: set() for key in ("any", "default", "nullable", "definitions", "definition-ref", "union")},
    # A function of ours raises errors of ours (`problem` of `model/types.py`); the rest is how it is called.
    **{key: set() for key in ("function-before", "function-after", "function-plain", "function-wrap")},
    **{key: set() for key in ("no-info", "with-info")},
}  # fmt: skip
LIMITS = {"pattern", "min_length", "max_length", "ge", "gt", "le", "lt", "multiple_of", "allow_inf_nan"}


def schemas() -> Iterator[Any]:
    """The core schemas of every model and adapter below `launcher.jobfile`."""
    for found in pkgutil.walk_packages(launcher.jobfile.__path__, "launcher.jobfile."):
        for thing in vars(importlib.import_module(found.name)).values():
            if isinstance(thing, TypeAdapter):
                yield thing.core_schema
            elif isinstance(thing, type) and issubclass(thing, Model) and thing is not Model:
                thing.model_rebuild()
                yield thing.__pydantic_core_schema__


def kinds(schema: Any) -> Iterator[str]:
    """Every kind of schema in a core schema, and every limit as `kind.limit`."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str):
            yield kind
            yield from (f"{kind}.{limit}" for limit in LIMITS & schema.keys())
        for key, part in schema.items():
            if key not in ("metadata", "serialization", "config", "default", "expected"):
                yield from kinds(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from kinds(part)


@lru_cache(maxsize=1)
def reachable() -> frozenset[str]:
    """Return the error types that our models can raise."""
    found = {kind for schema in schemas() for kind in kinds(schema)}
    assert found - RAISED.keys() == set(), "say what these can raise"
    return frozenset(error for kind in found for error in RAISED[kind])


# 1. by the list of error types


def test_every_error_type_that_the_models_can_raise_has_words_of_its_own() -> None:
    assert reachable() <= ERRORS.keys()
    assert reachable() - WORDED == set()


def test_every_error_type_with_our_words_exists_in_pydantic() -> None:
    assert WORDED - ERRORS.keys() == set()


@pytest.mark.parametrize(
    ("path", "value"), [(("roles", "main", "num_replicas"), 3), (("scheduler",), "x"), (("vars",), {})]
)
def test_no_error_type_lets_the_words_of_pydantic_through(path: Path, value: Any) -> None:
    """Error types that the models cannot raise today have general words, not pydantic's."""
    for kind in ERRORS:
        for output in say(kind, path, value):
            assert_ours(output)


def say(kind: str, path: Path, value: Any) -> list[Diagnostic]:
    """Return the message about an error of a kind, found in the value at a path."""
    context = dict(ERRORS[kind]["example_context"] or {})
    if "actual_length" in context:
        context["actual_length"] = 3  # the example has none for `too_long`
    if kind in ("value_error", "assertion_error"):
        context["error"] = ValueError("no")
    where = (*path, "absent") if kind == "missing" else path
    detail: Any = {"type": kind, "loc": where, "input": value, "ctx": context}
    wrong = ValidationError.from_exception_data("job", [detail])
    document: dict[str, Any] = {}
    inner = document
    for segment in path[:-1]:
        inner = inner.setdefault(str(segment), {})
    inner[str(path[-1])] = value
    return found_by(wrong, document)


# 2. by making the models raise them

WRONG: tuple[Any, ...] = (*VALUES, 10**9, 0.5, float("inf"), "x", "=", "no such", "0", "A b", ["x", []])
WRONG += ({"x": 1}, {"type": "x"}, {"type": 1}, {"x": {}}, {"": ""}, {"=": "1"}, {"A b": {}})


@pytest.mark.slow
def test_every_wrong_value_in_every_place_is_reported_in_our_words() -> None:
    raised: set[str] = set()
    for _, path, value in mutations(example_of(JobFile), WRONG):
        try:
            JobFile.model_validate(value)
        except ValidationError as error:
            raised |= {found["type"] for found in error.errors(include_url=False)}
            if isinstance(value, dict):  # a text that is no mapping is refused before
                output = found_by(error, value)
                assert output, path
                for diagnostic in output:
                    assert_ours(diagnostic)
    ours = {kind for kind in raised if kind.startswith("job:")}
    assert {kind[4:] for kind in ours} <= CODES.keys()
    assert raised - ours <= reachable()


def test_the_example_that_is_changed_holds_every_field() -> None:
    base = example_of(JobFile)
    assert JobFile.model_fields.keys() == base.keys()
    assert not [error for error in errors(base) if error["type"] == "extra_forbidden"]


# tools


def errors(value: Any) -> list[Any]:
    try:
        JobFile.model_validate(value)
    except ValidationError as error:
        return [*error.errors(include_url=False)]
    return []


def found_by(error: ValidationError, value: dict[str, Any]) -> list[Diagnostic]:
    document = Document(Source("f", "yaml", "text"), value, lambda: Spot(0, 4), [])
    problems = Collector(document)
    report(error.errors(include_url=False), value, problems)
    return problems.found


def assert_ours(found: Diagnostic) -> None:
    assert found.code in CODES
    assert found.message
    assert not found.message.endswith(".")
    for phrase in PHRASES:
        assert phrase not in found.text, found.text


PHRASES = {
    phrase
    for error in ERRORS.values()
    for template in (error["message_template_python"], error.get("message_template_json", ""))
    for phrase in re.split(r"\{[^}]*\}", template or "")
    if len(phrase.split()) > 1 and len(phrase) > 10
}
"""Pydantic's sentences, without what is filled in."""


def example_of(model: type[Model]) -> dict[str, Any]:
    """A value with every field of a model and of the models in it, from the examples of the fields."""
    out = {}
    for name, field in model.model_fields.items():
        made = example(field.annotation)
        out[name] = made if made is not None else (field.examples or [None])[0]
    return out


def example(annotation: Any) -> Any:
    """Return a value of a type that has models in it; None for any other type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return example_of(annotation)
    if origin is Annotated:
        return example(parts[0])
    if origin is dict:
        made = alternatives(parts[1])
        return {f"n{number}": value for number, value in enumerate(made)} if made else None
    if origin is list:
        return alternatives(parts[0]) or None
    if origin in (Union, UnionType):
        return next((made for part in parts if (made := example(part)) is not None), None)
    return None


def alternatives(annotation: Any) -> list[Any]:
    """Return an example of every model in a union."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return [made for part in get_args(annotation) if (made := example(part)) is not None]
    made = example(annotation)
    return [] if made is None else [made]
