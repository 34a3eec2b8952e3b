"""Keys in formatted files have the order of the models, with the few exceptions that fields name."""

import json
from pathlib import Path

import pytest

from launcher.jobfile.format.style import ITEM, PROJECT, fields

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "schemas" / "job-v1.schema.json").read_text())

JOB = "version name description project vars scheduler cfg workspace component args roles metadata timeout"
JOB += " lifecycle enabled defaults matrix targets"
ROLE = "image entrypoint args env num_replicas min_replicas max_retries retry_policy resource port_map mounts"
ROLE += " metadata"


@pytest.mark.parametrize(("path", "order"), [
    ((), JOB), (("roles", "main"), ROLE), (("defaults", "role"), ROLE), (("targets", "dev"), JOB),
    (("targets", "dev", "roles", "main"), ROLE),
    (("roles", "main", "resource"), "cpu gpu memory memMB devices capabilities tags"),
    (("roles", "main", "mounts", ITEM), "type src dst read_only permissions"),
    (("vars", "x"), "type from_env default min max choices help"),
    (("lifecycle",), "on_change on_failed on_cancelled on_lost max_attempts protect rerun_on"),
], ids=lambda value: ".".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_the_order_of_released_fields_stays(path, order):
    found = fields(path)
    assert [name for name in found if name in order.split()] == order.split()


@pytest.mark.parametrize("path", [("roles",), ("vars",), ("cfg",), ("roles", "main", "env"), ("targets",)])
def test_names_keep_the_order_that_the_user_wrote(path):
    assert fields(path) is None


def test_every_field_of_the_published_schema_has_its_place():
    assert {*SCHEMA["properties"]} - {*fields(())} == set()


def test_no_field_stands_twice():
    assert len(PROJECT) == len({*PROJECT})
