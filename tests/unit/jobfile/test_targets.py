"""Targets and defaults: what merges, replaces and is removed; every target is checked, each problem once."""

from pathlib import Path

import pytest

from launcher.specs import JobKey, digest, document
from tests.corpus.test_messages import FOLDER, read
from tests.unit.jobfile.words import HEAD, compile_text, labels, launch, lines, places


def test_the_target_is_part_of_the_identity_and_not_of_the_digest(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}}\n"
    plain, dev = launch(tmp_path, text), launch(tmp_path, text, target="dev")
    assert (plain.key, dev.key) == (JobKey("default", "default", "job"), JobKey("default", "dev", "job"))
    assert digest(document(plain)) == digest(document(dev))


# Variables


MISTAKES = [case for _, case in read(FOLDER / "targets.txt") if case is not None and "ok: {}" in case.text]


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_an_overlay_is_found_there_whatever_target_was_asked_for(tmp_path, case):
    targets = (None, "ok", "dev")
    found = {target: places(compile_text(tmp_path, case.text, target=target)) for target in targets}
    assert found["ok"] == found["dev"] == found[None] != []


def test_a_value_that_only_another_target_lacks_is_not_missed(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {a: {entrypoint: x, args: [$<var.v>]}}\n"
    text += "targets: {dev: {vars: {v: {default: here}}}, prod: {}}\n"
    assert launch(tmp_path, text, target="dev").app.roles[0].args == ["here"]
    assert places(compile_text(tmp_path, text, target="prod")) == ["3:8 unset-variable"]


def test_a_base_that_is_complete_only_under_a_target_is_valid_under_that_target(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {image: x}}\ntargets: {dev: {roles: {a: {entrypoint: run}}}}\n"
    assert launch(tmp_path, text, target="dev").app.roles[0].entrypoint == "run"
    assert places(compile_text(tmp_path, text)) == ["3:9 missing-field"]


# Which target


@pytest.mark.parametrize(
    ("asked", "label"), [("dve", "did you mean `dev`?"), ("elsewhere", ""), ("Dev", "did you mean `dev`?")]
)
def test_an_unknown_target_is_an_error_with_the_nearest_name(tmp_path, asked, label):
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}, prod: {}}\n"
    compiled = compile_text(tmp_path, text, target=asked)
    assert lines(compiled) == [f"4:1 unknown-target the file declares no target `{asked}`"]
    assert labels(compiled) == [label]
    assert compiled.diagnostics[0].hint == "targets: dev, prod"


def test_the_target_default_is_the_job_without_an_overlay(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}}\n"
    assert launch(tmp_path, text, target="default") == launch(tmp_path, text)
    compiled = compile_text(tmp_path, text.replace("dev", "default"))
    assert places(compiled) == ["4:11 invalid-name"]


# Defaults
