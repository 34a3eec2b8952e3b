"""What is added to settings of editors: what was there stays, byte for byte."""

import json

import pytest

from launcher.cli.merge_json import merged

WANTED = {"schemas": {"ours.json": ["*.a", "*.b"]}, "recommendations": ["one", "two"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{\n  "a": 1\n}\n',
            '{\n  "a": 1,\n  "schemas": {\n    "ours.json": [\n      "*.a",\n      "*.b"\n    ]\n  },\n'
            '  "recommendations": [\n    "one",\n    "two"\n  ]\n}\n',
        ),
        (
            '{\n    // ours\n    "recommendations": ["one"], // keep\n'
            '    "schemas": {"ours.json": ["*.a", "*.b"]}\n}',
            '{\n    // ours\n    "recommendations": ["one", "two"], // keep\n'
            '    "schemas": {"ours.json": ["*.a", "*.b"]}\n}',
        ),
        (
            '{\n\t"schemas": {\n\t\t"x.json": "y" // why\n\t},\n'
            '\t"recommendations": [\n\t\t"one",\n\t\t"two",\n\t],\n}\n',
            '{\n\t"schemas": {\n\t\t"x.json": "y", // why\n'
            '\t\t"ours.json": [\n\t\t\t"*.a",\n\t\t\t"*.b"\n\t\t]\n\t},\n'
            '\t"recommendations": [\n\t\t"one",\n\t\t"two",\n\t],\n}\n',
        ),
    ],
    ids=["added", "array in a line", "comments, tabs, trailing commas"],
)
def test_what_is_missing_is_added_and_nothing_else_changes(before, after):
    assert merged(before, WANTED) == after
    assert merged(after, WANTED) == after


@pytest.mark.parametrize(
    "before",
    [
        "{}",
        "{\n}\n",
        "{ }\n",
        '{"a": 1}',
        '{"a": {"b": [1, {"c": "}"}]}, "d": "// no comment, {"}',
        '{\r\n  "a": 1\r\n}\r\n',
        '\ufeff{\n  "a": 1\n}\n',
        "{\n  // nothing yet\n}\n",
        '{"recommendations": [], "schemas": {}}',
        '{\n  "recommendations": [\n    "x" // why\n  ]\n}',
    ],
)
def test_any_object_takes_it_and_comments_stay(before):
    after = merged(before, WANTED)
    assert after is not None
    assert merged(after, WANTED) == after
    for comment in ("// nothing yet", "// why", "// no comment, {"):
        assert (comment in before) == (comment in after)


@pytest.mark.parametrize(
    "before",
    ["", "[]", "3", "{", '{"schemas": 3}', '{"recommendations": "one"}', '{"schemas": {"ours.json": 3}}'],
)
def test_what_cannot_be_merged_is_left_to_the_user(before):
    assert merged(before, WANTED) is None


def test_a_file_that_has_it_all_stays_as_it_is():
    text = json.dumps(WANTED)
    assert merged(text, WANTED) == text
