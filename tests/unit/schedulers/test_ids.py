"""Ids and names."""

import pytest

from launcher.schedulers import ids


@pytest.mark.parametrize(
    ("draws", "id_"), [([bytes(range(8))], "fzfjxlmln9"), ([bytes(8), bytes([0] * 7 + [1])], "c")]
)
def test_an_id_spells_its_number_least_significant_digit_first_and_is_never_empty(monkeypatch, draws, id_):
    monkeypatch.setattr("os.urandom", lambda _: draws.pop(0))
    assert ids.random_id() == id_


def test_ids_are_short_and_begin_with_a_consonant() -> None:
    drawn = [ids.random_id() for _ in range(500)]
    assert len(set(drawn)) == 500
    assert max(map(len, drawn)) <= 14
    assert {each[0] for each in drawn} <= set("bcdfghjklmnpqrstvwxz")
    assert set("".join(drawn)) <= set("bcdfghjklmnpqrstvwxz012345679")


@pytest.mark.parametrize("length", [1, 5, 40])
def test_an_id_has_the_length_that_is_asked_for(length: int) -> None:
    assert len(ids.get_len_random_id(length)) == length


def test_an_id_of_no_length_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ids.get_len_random_id(0)


def test_make_unique_appends_an_id() -> None:
    assert ids.make_unique("app", 5).rpartition("-")[0] == "app"
    assert len(ids.make_unique("app", 5)) == 9
    assert ids.make_unique("app") != ids.make_unique("app")


@pytest.mark.parametrize(("name", "label"), [
    ("train", "train"), ("Train Model/2", "train-model-2"), ("_a__b_", "a-b"), ("größe", "gr-e"),
    ("漢", "app"), ("", "app"), ("a" * 62 + "-b", "a" * 62),
])  # fmt: skip
def test_normalised_names_are_dns_labels(name: str, label: str) -> None:
    assert ids.normalise(name) == label
