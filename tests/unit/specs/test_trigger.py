"""Trigger digests: changes are known per glob."""

from launcher.specs.inputs import adopted, changed_globs, combine

A1, A2 = combine({"a": "11"}), combine({"a": "22"})
BOTH1, BOTH2 = combine({"a": "11", "b": "33"}), combine({"b": "44", "a": "11"})


def test_no_globs_have_no_digest():
    assert combine({}) == ""


def test_the_order_of_globs_does_not_change_the_digest():
    assert combine({"a": "1", "b": "2"}) == combine({"b": "2", "a": "1"})


def test_a_glob_whose_files_changed_is_named():
    assert changed_globs(A1, A2, ["a"]) == ["a"]
    assert changed_globs(BOTH1, BOTH2, ["b", "a", "b"]) == ["b"]
    assert changed_globs(A1, A1, ["a"]) == []


def test_a_glob_that_one_side_does_not_know_has_not_changed():
    assert changed_globs(A1, BOTH1, ["a", "b"]) == []
    assert changed_globs(BOTH2, A1, ["a"]) == []
    assert changed_globs("", A1, ["a"]) == changed_globs(A1, "", ["a"]) == []


def test_a_digest_that_a_later_version_wrote_shows_no_change():
    assert changed_globs("tr2:whatever", A1, ["a"]) == []


def test_globs_added_to_rerun_on_are_watched_from_now_on_and_kept_ones_as_before():
    assert adopted("", A1) == A1
    assert adopted(A1, combine({"a": "22", "b": "33"})) == BOTH1
    assert adopted(BOTH1, A2) == A1
    assert adopted(A1, "") == ""
