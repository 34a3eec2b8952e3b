"""The order knows every field of the language, so that a new one cannot be forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from launcher.jobfile import model, model_vars
from launcher.jobfile.formatting import order

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "schemas" / "job-v1.schema.json").read_text())


def names(*kinds: type[BaseModel]) -> set[str]:
    return {field.alias or name for kind in kinds for name, field in kind.model_fields.items()}


@pytest.mark.parametrize(
    ("kinds", "known"),
    [
        ([model.JobFile], order.JOB),
        ([model.RoleSpec], order.ROLE),
        ([model.Resources], order.RESOURCE),
        ([model.BindMount, model.VolumeMount, model.DeviceMount], order.MOUNT),
        ([model.LifecycleSpec], order.LIFECYCLE),
        ([model_vars.IntVar, model_vars.FloatVar, model_vars.StrVar, model_vars.BoolVar], order.VAR),
    ],
    ids=["job", "role", "resource", "mount", "lifecycle", "var"],
)
def test_every_field_has_its_place(kinds, known):
    assert names(*kinds) - {*known} == set()


def test_every_field_of_the_published_schema_has_its_place():
    assert {*SCHEMA["properties"]} - {*order.JOB} == set()


def test_no_field_stands_twice():
    for known in (
        order.JOB,
        order.ROLE,
        order.VAR,
        order.RESOURCE,
        order.MOUNT,
        order.LIFECYCLE,
        order.PROJECT,
    ):
        assert len(known) == len({*known})
