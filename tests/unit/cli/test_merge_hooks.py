"""Our hooks in a `.pre-commit-config.yaml` of others: what was there stays, byte for byte."""

from textwrap import indent

import pytest
from ruamel.yaml import YAML

from launcher.cli.merge_hooks import HOOKS, IDS, with_hooks

THEIRS = """\
# top
repos:
{pad}- repo: https://example.org/x
{pad}  rev: v1  # why
{pad}  hooks:
{pad}    - id: a
{pad}      args: [b]   # trailing
"""
BEHIND = "\n# about the next\nci:\n  skip: [a]\n"


@pytest.mark.parametrize("pad", ["", "  ", "    "])
@pytest.mark.parametrize("behind", ["", "\n\n", "# end\n", BEHIND])
def test_they_stand_behind_the_others_as_deep_as_those(pad, behind):
    before = THEIRS.format(pad=pad) + behind
    assert with_hooks(before) == THEIRS.format(pad=pad) + indent(HOOKS, pad) + behind


@pytest.mark.parametrize("head", ["", "# nothing yet\n", "ci:\n  skip: [a]\n"])
@pytest.mark.parametrize("repos", ["", "repos: []\n", "repos:\n"])
def test_a_file_without_hooks_gets_the_list(head, repos):
    assert with_hooks(head + repos) == head + "repos:\n" + indent(HOOKS, "  ")


def test_lines_end_as_they_did_and_the_last_one_is_ended():
    after = with_hooks(THEIRS.format(pad="").replace("\n", "\r\n").rstrip())
    assert after.count("\r\n") == after.count("\n") == len(after.splitlines())


def test_what_has_them_stays_as_it_is_however_they_were_edited():
    ours = "repos:\n" + indent(HOOKS.replace("validate --no-components", "validate --strict"), "  ")
    assert with_hooks(ours) == ours
    fmt_alone = "repos:\n- repo: https://example.org/l\n  rev: v1\n  hooks: [{id: launcher-fmt}]\n"
    assert with_hooks(fmt_alone) == fmt_alone
    found = YAML(typ="safe").load(ours)["repos"][0]["hooks"]
    assert {hook["id"] for hook in found} == IDS


@pytest.mark.parametrize(
    "before",
    [
        "repos: [{repo: local, hooks: []}]\n",
        "- a\n",
        "repos: {a: b}\n",
        "repos: [\n",
        "repos: []\nci: {}\n",
        "repos:\n- repo: local\n  hooks:\n  - id: a\n    entry: |\n      x\n      # text\n",
    ],
)
def test_what_cannot_be_merged_is_left_to_the_user(before):
    assert with_hooks(before) is None
