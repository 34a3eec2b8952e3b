"""References to secrets: their form, and that no code takes them for text."""

import json
import pickle
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import pytest

from launcher.specs import (
    AppDef,
    Launch,
    MalformedSecretException,
    Role,
    Secret,
    app_from_document,
    bind,
    check_app,
    digest,
    document,
    macros,
    renormalise,
)
from launcher.specs.secret import HIDDEN, hide, is_sensitive, reference_in
from tests.unit.specs.strategies import launch_of

VALUES = macros.Values(img_root="/i", app_id="a", replica_id="0", rank0_env="R")


def app(**env: str) -> AppDef:
    return AppDef("train", [Role("main", "", entrypoint="sh", env=env)])


def launch(**env: str) -> Launch:
    return launch_of(app(**env))


def env_of(given: AppDef) -> dict[str, Any]:
    return given.roles[0].env


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [("env:API_KEY", "env", "API_KEY"), ("file:~/.key", "file", "~/.key"), ("file:a:b c", "file", "a:b c")],
)
def test_a_reference_says_where_the_value_is(text: str, kind: str, name: str):
    secret = Secret.parse(text)
    assert (secret.kind, secret.name, str(secret), secret) == (kind, name, text, text)


@pytest.mark.parametrize("text", ["hunter2", "env:A-B", "env:1A", "env:hunter 2", "file:\0", "vault:x", ""])
def test_a_reference_that_names_no_place_is_refused_with_a_remedy_and_not_repeated(text: str):
    with pytest.raises(MalformedSecretException) as failed:
        Secret.parse(text)
    assert failed.value.hint
    assert not text.strip() or text not in f"{failed.value} {failed.value.hint}".replace("env:API_KEY", "")


def test_a_copy_of_a_secret_is_a_secret():
    secret = Secret("env:K")
    assert [type(made) for made in (deepcopy(secret), pickle.loads(pickle.dumps(secret)))] == [Secret] * 2
    assert type(asdict(app(K=secret).roles[0])["env"]["K"]) is Secret
    assert type(str(secret)) is str


def test_macros_mean_nothing_inside_a_reference():
    secret = Secret("file:/x/$$<app_id>/${replica_id}")
    assert VALUES.apply(app(K=secret).roles[0]).env["K"] is secret


def test_binding_makes_files_absolute_and_leaves_variables_alone():
    given = app(
        A=Secret("file:keys/a"), B=Secret("file:~/b"), C=Secret("file:$<job.dir>/../c"), D=Secret("env:D")
    )
    bound = env_of(bind(given, directory="/w/jobs", home="/home/ann"))
    assert bound == {"A": "file:/w/jobs/keys/a", "B": "file:/home/ann/b", "C": "file:/w/c", "D": "env:D"}
    assert {type(value) for value in bound.values()} == {Secret}
    assert env_of(given)["A"] == "file:keys/a"


def test_a_document_holds_the_reference_and_gives_it_back():
    made = document(launch(K=Secret("env:K"), L="env:L"))
    assert made["roles"][0]["env"] == {"K": {"secret": "env:K"}, "L": "env:L"}
    env = env_of(app_from_document(json.loads(json.dumps(made)), "train", {}))
    assert (type(env["K"]), type(env["L"])) == (Secret, str)
    assert renormalise(made) == made
    assert digest(made) != digest(document(launch(K="env:K", L="env:L")))


@pytest.mark.parametrize(
    "value", ["env:K", {"secret": "x"}, {"secret": "env:K", "a": 1}, {"secret": 3}, None]
)
def test_no_other_value_of_a_document_is_a_secret_reference(value: object):
    assert reference_in(value) is None


def test_a_reference_is_shown_where_a_literal_would_be_hidden():
    role = {"env": {"API_KEY": {"secret": "env:API_KEY"}, "HF_TOKEN": "hunter2"}}
    assert hide(role) == {"env": {"API_KEY": {"secret": "env:API_KEY"}, "HF_TOKEN": HIDDEN}}
    assert hide({"secret": "hunter2"}) == {"secret": HIDDEN}


@pytest.mark.parametrize(("secret", "codes"), [
    *(("env:K", []), ("file:$<job.dir>/k", [])),
    *(("nonsense", ["unusable-text"]), ("file:/k/$<app_id>", ["reference-phase"])),
])  # fmt: skip
def test_a_reference_that_cannot_be_read_is_found(secret: str, codes: list[str]):
    assert [problem.code for problem in check_app(app(K=Secret(secret)))] == codes


def test_a_secret_anywhere_but_in_env_is_found():
    given = app()
    role = replace(given.roles[0], args=[Secret("env:K")], entrypoint="sh")
    [problem] = check_app(replace(given, roles=[role]))
    assert (problem.path, problem.code) == (("roles", "main", "args", 0), "unusable-text")


@pytest.mark.parametrize(
    ("name", "is_so"), [("PWD", False), ("OLDPWD", False), ("DB_PWD", True), ("pwd", True)]
)
def test_the_folders_of_a_shell_are_no_passwords(name: str, is_so: bool) -> None:
    """Otherwise PWD would mask the path of a missing file in messages about jobs of that folder."""
    assert is_sensitive(name) is is_so
