"""Plans write fields and values as job files do."""

from typing import Any

import pytest

from launcher.jobfile.model.types import memory_mib, seconds
from launcher.plan.diff import Change, is_workspace_digest, show_at
from launcher.plan.step import Reason
from launcher.specs.secret import HIDDEN

GIB = 2**30


@pytest.mark.parametrize(("path", "old", "new", "line"), [
    ("timeout_s", 180, 40, "~ timeout: 3m → 40s"),
    ("timeout_s", 5400, 90061, "~ timeout: 1h30m → 1d1h1m1s"),
    ("roles.main.resource.cpu_millis", 1000, 1500, "~ roles.main.resource.cpu: 1 → 1.5"),
    ("roles.main.resource.memory_bytes", 4 * GIB, GIB // 2, "~ roles.main.resource.memory: 4GiB → 512MiB"),
    ("roles.main.resource.capabilities.gpu_type", "a", "b", '~ roles.main.resource.gpu_type: "a" → "b"'),
    ("roles.main.resource.capabilities.zone", 1, 2, "~ roles.main.resource.capabilities.zone: 1 → 2"),
    ('roles["a.b"].resource.cpu_millis', 1000, 250, '~ roles["a.b"].resource.cpu: 1 → 0.25'),
    ("roles.main.retry_policy", "ROLE", "REPLICA", '~ roles.main.retry_policy: "role" → "replica"'),
    ("roles.main.args[0]", "${rank0_env}", "$<app_id>", '~ roles.main.args[0]: "$<rank0_env>" → "$<app_id>"'),
    ("roles.main.args[0]", "${app_id}", "$<app_id>", '~ roles.main.args[0]: "${app_id}" → "$<app_id>"'),
    ("roles.main.args[0]", "$${app_id}", "${HOME}", '~ roles.main.args[0]: "$${app_id}" → "${HOME}"'),
    ("roles.main.args[0]", "größe", "日本\x1b", '~ roles.main.args[0]: "größe" → "日本\\u001b"'),
    # A field that only looks like one of these belongs to the user.
    ("roles.main.env.timeout_s", "1", "2", '~ roles.main.env.timeout_s: "1" → "2"'),
    ("roles.main.metadata.resource.cpu_millis", 1, 2, "~ roles.main.metadata.resource.cpu_millis: 1 → 2"),
    ("cfg.timeout_s", 180, 40, "~ cfg.timeout_s: 180 → 40"),
])  # fmt: skip
def test_a_change_is_shown_in_the_words_of_job_files(path: str, old: Any, new: Any, line: str) -> None:
    assert str(Change("~", path, old, new)) == line
    assert str(Reason("spec_changed", path, old, new)) == line.removeprefix("~ ").replace(": ", " ", 1)


def test_a_reason_with_hidden_values_says_so_once() -> None:
    hidden = Reason("spec_changed", "roles.main.env.TOKEN", HIDDEN, HIDDEN)
    assert str(hidden) == f"roles.main.env.TOKEN {HIDDEN}"


def test_added_and_removed_values_are_shown_as_such() -> None:
    assert str(Change("+", "timeout_s", new=7200)) == "+ timeout = 2h"
    assert str(Change("-", "roles.main.resource.cpu_millis", old=2000)) == "- roles.main.resource.cpu = 2"


def test_the_digest_of_a_workspace_is_short() -> None:
    old, new = (f"ws1:sha256:{digit * 64}" for digit in "ab")
    assert str(Change("~", "workspace.digest", old, new)) == "~ workspace files: ws1:aaaaaaaa → ws1:bbbbbbbb"
    path = 'workspace.projects["../lib"]'
    assert str(Change("+", f"{path}.digest", new=new)) == '+ workspace["../lib"] files = ws1:bbbbbbbb'
    assert str(Change("~", f"{path}.target", "a", "b")) == '~ workspace["../lib"]: "a" → "b"'


@pytest.mark.parametrize(("path", "is_digest"), [
    ("workspace.digest", True), ('workspace.projects["../lib"].digest', True), ("workspace.path", False),
    ("workspace.projects.lib.target", False), ("roles.main.env.digest", False),
])  # fmt: skip
def test_the_path_of_a_workspace_digest_is_recognised(path: str, is_digest: bool) -> None:
    assert is_workspace_digest(path) is is_digest


def test_a_timeout_and_an_amount_of_memory_that_are_shown_can_be_written_into_the_file() -> None:
    for amount in (1, 59, 60, 3600, 86400, 90061, 604800):
        assert seconds(show_at("timeout_s", amount)) == amount
    for mib in (1, 512, 1000, 4096, 1908):
        assert memory_mib(show_at("roles.main.resource.memory_bytes", mib << 20)) == mib
