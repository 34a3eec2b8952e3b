"""`.pre-commit-hooks.yaml`: our hooks are for exactly the files that we take for job files, and they run."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from launcher.jobfile.compile.discover import SUFFIXES

HOOKS = YAML(typ="safe").load((Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml").read_text())
BY_ID = {hook["id"]: hook for hook in HOOKS}


def test_there_is_a_hook_to_validate_and_one_to_format():
    assert [*BY_ID] == ["launcher-validate", "launcher-fmt"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_is_for_the_files_that_a_directory_stands_for(hook):
    assert all(re.search(hook["files"], f"jobs/train{suffix}") for suffix in SUFFIXES)
    assert not any(
        re.search(hook["files"], name) for name in ("launcher.toml", "a.yaml", "x.launcher.yaml.bak")
    )


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_passes_on_a_good_file_and_fails_on_a_bad_one(hook, scenario):
    program, *argv = hook["entry"].split()
    assert program == "launcher"
    scenario.launcher(*argv, scenario.job("true"))
    scenario.launcher(*argv, scenario.write("bad.launcher.yaml", "a: [\n"), code=6)
