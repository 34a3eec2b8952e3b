"""A saved plan is applied byte for byte as it was written, or not at all."""

import json

import pytest
from hypothesis import given, strategies as st

from launcher.plan.codec import PlanFileError, SealError, dumps, encode, is_sealed, loads, seal
from launcher.plan.model import Plan
from launcher.plan.recheck import located
from tests.unit.plan.strategies import unhurried
from tests.unit.plan.test_codec import plans, rich
from tests.unit.plan.world import ORIGIN, job, plan

TEXT = dumps(plan(job("train", "-v", on_failed="rerun")).stamped(plan_id="p1", created_at=0)).encode()


def code_of(text: bytes | str) -> tuple[int, str]:
    """Return the exit code and the message of the refusal of a text."""
    with pytest.raises(PlanFileError) as caught:
        loads(text, name="p.json")
    assert caught.value.hint
    return caught.value.exit_code, str(caught.value)


def test_a_plan_with_any_byte_changed_removed_or_inserted_is_refused() -> None:
    for position in range(len(TEXT)):
        before, byte, after = TEXT[:position], TEXT[position : position + 1], TEXT[position + 1 :]
        for edited in (before + bytes([byte[0] ^ 1]) + after, before + after, before + b" " + byte + after):
            with pytest.raises(PlanFileError):
                loads(edited)


@unhurried
@given(plans(), st.data())
@pytest.mark.slow
def test_any_byte_of_any_plan_is_under_the_seal(made: Plan, data: st.DataObject) -> None:
    text = dumps(made).encode()
    assert is_sealed(text)
    position = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[position]))
    assert not is_sealed(text[:position] + bytes([byte]) + text[position + 1 :])
    assert not is_sealed(text[:position])


@pytest.mark.parametrize(("old", "new"), [
    (b'"action": "create"', b'"action": "hold"'), (b'"enabled": true', b'"enabled": false'),
    (b'"on_failed": "rerun"', b'"on_failed": "hold"'), (b'"expires_at": "1970', b'"expires_at": "2970'),
    (b'"created_at": "1970', b'"created_at": "2970'), (b'"plan_id": "p1"', b'"plan_id": "p2"'),
    (b'"seal": "sha256:', b'"seal": "sha256:0'), (b'"seal": ', b'"seal":  '),
])  # fmt: skip
def test_an_edited_plan_says_so_and_exits_with_4(old: bytes, new: bytes) -> None:
    assert TEXT.count(old) == 1
    code, message = code_of(TEXT.replace(old, new))
    assert (code, message) == (4, "p.json was edited after it was saved: its checksum does not match")


def test_a_plan_that_another_program_wrote_again_is_refused_as_edited() -> None:
    marked = b"\xef\xbb\xbf" + TEXT
    for again in (json.dumps(json.loads(TEXT)), TEXT.replace(b"\n", b"\r\n"), TEXT + b"\n", marked):
        assert code_of(again)[0] == 4


def test_a_plan_cut_short_is_refused() -> None:
    assert code_of(TEXT[:200])[0] == 1  # no JSON, and no seal to speak of
    assert code_of(TEXT[:-3])[0] == 4


def test_a_plan_of_an_older_version_says_to_plan_again() -> None:
    code, message = code_of(json.dumps(rich(), indent=2) + "\n")
    assert code == 4
    assert message == "p.json has no seal: an older version of launcher saved it, or its seal was removed"


def test_a_plan_of_a_newer_version_is_known_by_its_version_whatever_its_seal() -> None:
    text = seal(json.dumps({"version": "launcher.plan/v4", "tasks": []}, indent=2) + "\n")
    for newer in (text, text.replace("tasks", "works")):
        assert code_of(newer) == (1, "p.json is a launcher.plan/v4, and this version reads launcher.plan/v3")


@pytest.mark.parametrize(
    "path", ["/etc/x.launcher.yaml", "../x.launcher.yaml", "a/../../x.launcher.yaml", "", ".", "..", "a\0b"]
)
def test_a_job_file_outside_the_root_is_refused_under_a_good_seal(path: str) -> None:
    data = encode(plan(job("train", file=path)).stamped(plan_id="p1", created_at=0))
    _, message = code_of(seal(json.dumps(data, indent=2) + "\n"))
    assert "launch.path: must be a file below the root of the repository" in message


@pytest.mark.parametrize("path", ["x.launcher.yaml", "..x/a.launcher.yaml", "a/../b.launcher.yaml"])
def test_a_job_file_below_the_root_is_accepted(path: str) -> None:
    data = encode(plan(job("train", file=path)).stamped(plan_id="p1", created_at=0))
    loads(seal(json.dumps(data, indent=2) + "\n"))


def test_a_plan_that_expires_before_it_is_made_is_refused() -> None:
    data = encode(plan(job("train")).stamped(plan_id="p1", created_at=100, lifetime_s=-1))
    assert "expires_at: is before created_at" in code_of(seal(json.dumps(data, indent=2) + "\n"))[1]


def test_the_seal_is_checked_before_anything_else() -> None:
    data = {**rich(), "jobs": "none"}
    assert issubclass(SealError, PlanFileError)
    assert code_of(TEXT.replace(b'"jobs": [', b'"jobs": 7, "x": ['))[0] == 4
    assert code_of(seal(json.dumps(data, indent=2) + "\n"))[0] == 1


@pytest.mark.parametrize(("of_job", "here", "accepted"), [
    (ORIGIN, ORIGIN, True), ("/src", "/src", True), ("/src/jobs", "/src", True),
    ("/src", "/src/jobs", True), ("/src", ORIGIN, False), ("/src", "/elsewhere", False),
    ("/src", "/src2", False), ("/src/../etc", "/src", False), (ORIGIN, "/src", False),
])  # fmt: skip
def test_an_origin_is_compared_and_never_followed(of_job: str, here: str, accepted: bool) -> None:
    saved = plan(job("train", origin=of_job))
    if accepted:
        launch = located(saved, root="/src", origin=here).steps[0].launch
        assert launch.root == ("/src" if of_job == here else of_job)
        return
    with pytest.raises(Exception, match="the plan is for") as caught:
        located(saved, root="/src", origin=here)
    assert caught.value.exit_code == 4
