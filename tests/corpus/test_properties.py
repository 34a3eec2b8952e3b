"""A job has one digest however it is written: in YAML or TOML, with keys in any order, formatted or not."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st

from launcher.jobfile.format import format_text
from launcher.jobfile.text.document import Source
from launcher.jobfile.text.parse import parse
from launcher.specs import digest, document
from tests.corpus.words import FOLDER, jobs_of

NAMES = st.sampled_from(["a", "b", "trainer", "side-car", "0", "x1"])
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0$"), max_size=12),
    st.sampled_from(["$<app_id>", "n=$<var.n>", "$<var.n>", "$$<x>", "$HOME", "${HOME:-x}", "$$", "a $( b"]),
    st.sampled_from(
        ["true", "null", "~", "3.10", "0x1F", "2026-01-02", "a: b", "# no", "- x", "it's", '"', "{"]
    ),
)
NUMBER = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = TEXT | NUMBER | st.booleans()
KEY = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="$="), min_size=1, max_size=6
).filter(lambda key: not key.startswith("x-"))
ANY = st.recursive(
    TEXT | st.integers(-5, 5) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=5,
)
ROLE = st.fixed_dictionaries(
    {"entrypoint": st.sampled_from(["python", "./run it", "$<job.dir>/x"])},
    optional={
        "image": st.sampled_from(["", "python:3.12", "repo/x:$<var.n>"]),
        "args": st.lists(SCALAR, max_size=4),
        "env": st.dictionaries(KEY, SCALAR, max_size=3),
        "num_replicas": st.integers(1, 4) | st.just("$<var.n>"),
        "min_replicas": st.just(1),
        "max_retries": st.integers(0, 3),
        "retry_policy": st.sampled_from(["application", "replica", "role"]),
        "resource": st.fixed_dictionaries({}, optional={"cpu": st.just(0.5), "memory": st.just("4GiB")}),
        "port_map": st.dictionaries(KEY, st.integers(1, 65535), max_size=2),
        "metadata": st.dictionaries(KEY, ANY, max_size=2),
        "mounts": st.just(
            [{"type": "bind", "src": "a", "dst": "/a"}, "type=device,src=/dev/fuse,dst=/dev/fuse"]
        ),
    },
)
JOB = st.fixed_dictionaries(
    {"version": st.just(1), "name": st.just("job"), "vars": st.just({"n": {"type": "int", "default": 2}}),
        "roles": st.dictionaries(NAMES, ROLE, min_size=1, max_size=3)},
    optional={
        "description": TEXT.filter(
            lambda text: "app_id" not in text and text != "$<var.n>"
        ),  # that is a number
        "timeout": st.sampled_from([90, "2h"]),
        "metadata": st.dictionaries(KEY, TEXT.filter(lambda text: "app_id" not in text), max_size=2),
        "cfg": st.just({"log_dir": "logs", "prepend_cwd": True}),
        "enabled": st.booleans(),
        "lifecycle": st.just({"on_failed": "rerun", "rerun_on": ["every_apply"]}),
        "defaults": st.fixed_dictionaries({"role": st.just({"env": {"COMMON": 1}, "max_retries": 1})}),
        "matrix": st.fixed_dictionaries({"lr": st.just([0.1, 1]), "seed": st.just({"range": [0, 2]})}),
        "targets": st.just({"dev": {"timeout": "1m"}}),
    },
)  # fmt: skip


def digests(text: str, suffix: str) -> dict[str, str]:
    """Return the digest of each job of a text without errors, by job."""
    path = FOLDER / "good" / f"job.launcher.{suffix}"
    source = Source(str(path), "toml" if suffix == "toml" else "yaml", text)
    return {each.key.job: digest(document(each)) for each in jobs_of(path, source)}


def quoted(text: str) -> str:
    """Text in double quotes, the same in YAML and TOML."""
    plain = (c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(plain)}"'


def flow(value: Any, colon: str) -> str:
    """Return a value on one line; `colon` is what stands between a key and its value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)}{colon}{flow(v, colon)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item, colon) for item in value) + "]"
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def as_toml(job: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {flow(value, ' = ')}\n" for key, value in job.items())


def as_yaml(value: Any, indent: str = "") -> str:
    """Return block YAML; lists, scalars and empty mappings are on one line."""
    lines = ""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            lines += f"{indent}{quoted(key)}:\n{as_yaml(inner, indent + '  ')}"
        else:
            lines += f"{indent}{quoted(key)}: {flow(inner, ': ')}\n"
    return lines


def shuffled(value: Any, chance: random.Random, path: tuple[str, ...] = ()) -> Any:
    """Return the value with the keys of every mapping in another order, but for the roles."""
    if isinstance(value, list):
        return [shuffled(item, chance, (*path, "-")) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    if path != ("roles",):
        chance.shuffle(keys)
    return {key: shuffled(value[key], chance, (*path, key)) for key in keys}


@pytest.mark.slow
@given(JOB)
def test_yaml_and_toml_of_one_job_give_one_digest(job: dict[str, Any]) -> None:
    assert digests(as_yaml(job), "yaml") == digests(as_toml(job), "toml")


@pytest.mark.slow
@given(JOB, st.integers())
def test_the_order_of_keys_changes_nothing(job: dict[str, Any], seed: int) -> None:
    other = shuffled(job, random.Random(seed))
    assert digests(as_yaml(other), "yaml") == digests(as_yaml(job), "yaml")
    assert digests(as_toml(other), "toml") == digests(as_toml(job), "toml")


@pytest.mark.slow
@given(JOB, st.sampled_from(["yaml", "toml"]))
def test_formatting_keeps_every_digest_and_a_second_run_changes_nothing(job, suffix):
    text = as_toml(job) if suffix == "toml" else as_yaml(job)
    made = formatted(text, suffix)
    assert digests(made, suffix) == digests(text, suffix)
    assert formatted(made, suffix) == made


def formatted(text: str, suffix: str) -> str:
    source = Source(f"job.launcher.{suffix}", "toml" if suffix == "toml" else "yaml", text)
    return format_text(source, parse(source))
