import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from launcher.plan.diff import align, diff
from tests.unit.plan.patching import patch
from tests.unit.plan.strategies import documents, items, unhurried

BARE = {"name": "trainer", "entrypoint": "python"}


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the changes between two documents with one role each, which has these fields."""
    documents = [{"scheduler": "local_cwd", "roles": [{**BARE, **role}]} for role in (old, new)]
    return [str(change) for change in diff(*documents)]


@pytest.mark.slow
@unhurried
@given(documents(), documents())
def test_applying_the_changes_to_the_old_document_gives_the_new_one(old: Any, new: Any) -> None:
    found = diff(old, new)
    made = patch(old, found)
    assert json.dumps(made, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert all(str(change).isprintable() for change in found)


@unhurried
@given(documents())
def test_equal_documents_have_no_changes(document: Any) -> None:
    assert diff(document, json.loads(json.dumps(document))) == ()


@unhurried
@given(items, st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a", "z"])), max_size=2))
def test_each_inserted_item_is_one_change(old: list[str], insertions: list[tuple[int, str]]) -> None:
    new = list(old)
    for index, item in insertions:
        new.insert(index, item)
    assert [op for op, _, _ in align(old, new)] == ["+"] * len(insertions)


def edit_distance(old: str, new: str) -> int:
    if not old or not new:
        return len(old) + len(new)
    if old[0] == new[0]:
        return edit_distance(old[1:], new[1:])
    rests = (old[1:], new[1:]), (old[1:], new), (old, new[1:])
    return 1 + min(edit_distance(*rest) for rest in rests)


@unhurried
@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_an_alignment_has_the_fewest_edits(old: str, new: str) -> None:
    assert len(align(list(old), list(new))) == edit_distance(old, new)


def test_long_lists_are_aligned_in_good_time() -> None:
    old = [str(n) for n in range(5000)]
    new = [str(n) for n in range(5000, 0, -1)]
    document = {"scheduler": "s", "roles": [{**BARE, "args": old}]}
    wanted = {"scheduler": "s", "roles": [{**BARE, "args": new}]}
    assert patch(document, diff(document, wanted)) == wanted


def test_removed_roles_are_in_the_order_of_their_names() -> None:
    names = [f"r{number}" for number in range(9)]
    old = {"scheduler": "s", "roles": [BARE, *({"name": name, "entrypoint": "a"} for name in names)]}
    lines = [str(change) for change in diff(old, {"scheduler": "s", "roles": [BARE]})]
    assert lines == [f"- roles.{name}" for name in names]


def test_roles_are_compared_by_name() -> None:
    eval_role = {"name": "eval", "entrypoint": "python"}
    old = {"scheduler": "s", "roles": [BARE]}
    new = {"scheduler": "s", "roles": [{**BARE, "num_replicas": 2}, eval_role]}
    assert [str(change) for change in diff(old, new)] == [
        "+ roles.trainer.num_replicas = 2",
        '+ roles.eval = {"entrypoint": "python", "name": "eval"}',
    ]
    assert [str(change) for change in diff(new, old)] == ["- roles.eval", "- roles.trainer.num_replicas = 2"]


def test_the_order_of_roles_is_one_change() -> None:
    other = {"name": "eval", "entrypoint": "python"}
    old = {"scheduler": "s", "roles": [BARE, other]}
    new = {"scheduler": "s", "roles": [other, BARE]}
    assert [str(each) for each in diff(old, new)] == ['~ roles: ["trainer", "eval"] → ["eval", "trainer"]']


DATA, CONF = ({"type": "bind", "src": name, "dst": f"/{name}"} for name in ("data", "conf"))
SHOWN = {
    "a number and its text": ({"metadata": {"a": 1}}, {"metadata": {"a": "1"}}, ['~ metadata.a: 1 → "1"']),
    "a number and a truth value": (
        {"metadata": {"a": 1}},
        {"metadata": {"a": True}},
        ["~ metadata.a: 1 → true"],
    ),
    "nothing and an empty mapping": (
        {"metadata": {"a": None}},
        {"metadata": {"a": {}}},
        ["~ metadata.a: null → {}"],
    ),
    "control characters, of which none reaches the terminal": (
        {},
        {"env": {"A": "\x1b[2J\x9b31m\u202e\ud800\n"}},
        [r'+ env.A = "\u001b[2J\u009b31m\u202e\ud800\n"'],
    ),
    "mounts with several destinations": (
        {"mounts": [DATA]},
        {"mounts": [CONF]},
        ['+ mounts[/conf] = {"dst": "/conf", "src": "conf", "type": "bind"}', "- mounts[/data]"],
    ),
    "mounts with one destination": (
        {"mounts": [DATA]},
        {"mounts": [{**DATA, "src": "more"}]},
        ['~ mounts[/data].src: "data" → "more"'],
    ),
}


@pytest.mark.parametrize("what", SHOWN)
def test_values_of_a_role_are_compared_with_their_types_and_mounts_by_destination(what: str) -> None:
    old, new, found = SHOWN[what]
    assert [each.replace(" roles.trainer.", " ") for each in changes(old, new)] == found


@pytest.mark.parametrize(("old", "new", "change"), [
    ({"env": {"HF_TOKEN": "abc1"}}, {"env": {"HF_TOKEN": "abc2"}},
        "~ roles.trainer.env.HF_TOKEN: (value not shown)"),
    ({}, {"env": {"apiKey": "abc1"}}, "+ roles.trainer.env.apiKey = (value not shown)"),
    ({"env": {"DB_PASSWORD": "abc1"}}, {}, "- roles.trainer.env.DB_PASSWORD = (value not shown)"),
    ({"args": ["x"]}, {"args": ["x", "--token=abc1"]},
        '+ roles.trainer.args[1] = "--token=(value not shown)"'),
    ({"args": ["--token", "abc1"]}, {"args": ["--token", "abc2"]},
        "~ roles.trainer.args[1]: (value not shown)"),
    ({}, {"args": ["--token", "abc1"]}, '+ roles.trainer.args = ["--token", "(value not shown)"]'),
    ({}, {"metadata": {"auth": {"a": "abc1"}}}, "+ roles.trainer.metadata.auth = (value not shown)"),
])  # fmt: skip
def test_literals_under_sensitive_names_are_not_shown(old: Any, new: Any, change: str) -> None:
    assert changes(old, new) == [change]


def test_sensitive_literals_of_a_new_role_are_not_shown() -> None:
    role = {"name": "eval", "entrypoint": "x", "env": {"AWS_SECRET_ACCESS_KEY": "abc1"}}
    [change] = diff({"scheduler": "s", "roles": [BARE]}, {"scheduler": "s", "roles": [BARE, role]})
    assert "abc1" not in str(change)
    assert "abc1" not in repr(change)


# Secrets and workspaces

REFERENCE = {"secret": "env:API_KEY"}


@pytest.mark.parametrize(("old", "new", "line"), [
    ({}, {"env": {"API_KEY": REFERENCE}}, "+ roles.trainer.env.API_KEY = secret env:API_KEY"),
    ({"env": {"API_KEY": REFERENCE}}, {}, "- roles.trainer.env.API_KEY = secret env:API_KEY"),
    ({"env": {"API_KEY": "hunter2"}}, {"env": {"API_KEY": REFERENCE}},
        "~ roles.trainer.env.API_KEY: (value not shown) → secret env:API_KEY"),
    ({"env": {"K": "env:API_KEY"}}, {"env": {"K": REFERENCE}},
        '~ roles.trainer.env.K: "env:API_KEY" → secret env:API_KEY'),
    ({"env": {"K": REFERENCE}}, {"env": {"K": {"secret": "file:~/k"}}},
        "~ roles.trainer.env.K: secret env:API_KEY → secret file:~/k"),
])  # fmt: skip
def test_a_secret_is_shown_as_the_reference_that_it_is(old: Any, new: Any, line: str) -> None:
    assert changes(old, new) == [line]


def test_a_changed_workspace_is_its_digest() -> None:
    old, new = ({"scheduler": "s", "roles": [], "workspace": {"path": ".", "digest": d}} for d in "ab")
    assert [str(change) for change in diff(old, new)] == ['~ workspace files: "a" → "b"']
