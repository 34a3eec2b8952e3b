"""The matrix: its combinations, the names of their jobs, and the use of their values."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from launcher.jobfile.compile import matrix
from launcher.jobfile.compile.matrix import fitted, job_name, slug
from launcher.jobfile.model.types import LABEL
from tests.unit.jobfile.words import HEAD, compile_text, launches, lines

ROLE = "roles: {a: {entrypoint: x, args: [$<matrix.a>]}}\n"


def jobs(folder: Path, axes: str, role: str = ROLE, **options: str) -> list[str]:
    return list(launches(folder, HEAD + role + f"matrix: {axes}\n", **options))


def test_values_that_look_alike_give_different_names(tmp_path: Path) -> None:
    names = jobs(tmp_path, "{a: [1, '1', true, 'true', a b, a-b, A_B, ab, 0p1, 0.1, '']}")
    assert len(set(names)) == 11
    assert {"job-1", "job-true", "job-ab", "job-0p1"} <= set(names)


def test_a_job_keeps_its_name_whatever_values_join_it(tmp_path: Path) -> None:
    few = set(jobs(tmp_path, "{a: [0.1, x-y], b: [1]}"))
    assert few <= set(jobs(tmp_path, "{b: [3, 1], a: [xy, 0.1, x-y, x_y, 5]}"))


@given(
    st.text("abz09-", min_size=1, max_size=20), st.lists(st.text() | st.integers() | st.floats(), max_size=5)
)
def test_every_name_is_a_dns_label(name: str, values: list[object]) -> None:
    full = job_name("a" + name.strip("-"), values)
    assert re.fullmatch(LABEL[1:-1], full), full


@given(st.lists(st.text(max_size=30) | st.integers() | st.booleans(), unique_by=lambda v: (type(v), v)))
def test_no_two_values_share_a_slug(values: list[object]) -> None:
    assert len({slug(value) for value in values}) == len(values)


def test_long_names_are_cut_and_distinguished(tmp_path: Path) -> None:
    axes = ", ".join(f"{axis}: [{'v' * 20}{axis}]" for axis in "bcd")
    names = jobs(tmp_path, f"{{a: [1, 2], {axes}}}")
    assert len(set(names)) == 2
    assert all(len(name) == 63 for name in names)


def test_jobs_follow_the_order_of_values_whatever_the_order_of_axes(tmp_path: Path) -> None:
    axes = ["a: [1, 2]", "b: [x, y]", "c: {range: [0, 2]}"]
    expected = jobs(tmp_path, "{" + ", ".join(axes) + "}")
    for _ in range(5):
        random.shuffle(axes)
        assert jobs(tmp_path, "{" + ", ".join(axes) + "}") == expected


@pytest.fixture
def most_256(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit matrices to 256 jobs."""
    monkeypatch.setattr(matrix, "MAX_JOBS", 256)


MANY = ", ".join(f"{{b: {n}}}" for n in range(2, 32))


@pytest.mark.usefixtures("most_256")
@pytest.mark.parametrize("axes", [
    "{a: {range: [0, 64]}, b: {range: [0, 4]}}", "{a: {range: [0, 257]}, exclude: [{a: 7}]}",
    f"{{a: {{range: [0, 128]}}, b: {{range: [0, 32]}}, exclude: [{MANY}]}}",
])  # fmt: skip
def test_a_matrix_may_have_as_many_jobs_as_the_limit_after_exclude(tmp_path: Path, axes: str) -> None:
    assert len(jobs(tmp_path, axes)) == 256


@pytest.mark.usefixtures("most_256")
def test_items_without_axes_count_towards_the_limit(tmp_path: Path) -> None:
    items = ", ".join(f"{{a: {number}}}" for number in range(257))
    head = HEAD.replace("job", "job-$<matrix.a>") + ROLE
    [line] = lines(compile_text(tmp_path, f"{head}matrix: {{group: jobs, include: [{items}]}}\n"))
    assert "makes 257 jobs" in line


@pytest.mark.usefixtures("most_256")
@pytest.mark.parametrize(("axes", "wording"), [
    ("{a: {range: [0, 258]}, exclude: [{a: 7}]}", "makes 257 jobs"),
    ("{a: {range: [0, 257]}, exclude: [{a: 7}], include: [{a: 999}]}", "makes 257 jobs"),
    ("{a: {range: [0, 256]}, b: {range: [0, 257]}, exclude: [{a: 7}]}",
        "has 65,792 combinations before `exclude`"),
    ("{a: {range: [0, 65537]}, exclude: [{a: 7}]}", "makes 65,537 jobs"),
])  # fmt: skip
def test_a_matrix_that_is_too_large_after_exclude_is_refused(tmp_path, axes, wording):
    [line] = lines(compile_text(tmp_path, HEAD + ROLE + f"matrix: {axes}\n"))
    assert wording in line


def test_long_names_with_the_same_short_hash_get_different_names_and_others_stay(tmp_path: Path) -> None:
    """Two of ten thousand long names are likely to have the same five characters."""
    start = "v" * 23
    seen: dict[str, int] = {}
    for number in range(1 << 16):
        name = fitted(f"job-{start}-{start}-{'w' * 20}-{number}")
        if name in seen:
            break
        seen[name] = number
    alike = [seen[name], number]
    other = number + 1
    head = f"version: 1\nname: job-{start}-{start}-{'w' * 20}-$<matrix.a>\n"

    def names(numbers: list[int]) -> list[str]:
        body = f"{head}{ROLE}matrix: {{group: jobs, a: {numbers}}}\n"
        return list(launches(tmp_path, body))

    before = names([alike[0], other])
    after = names([*alike, other])
    assert len(set(after)) == 3
    assert before[1] in after
    assert all(len(name) <= 63 for name in after)


@pytest.mark.slow
def test_the_values_of_a_matrix_do_not_count_as_text_of_each_job(tmp_path):
    """A file of 100 kB makes 2,000 jobs, each of which is compiled from a hundred characters."""
    values = ", ".join(f"'{number:050}'" for number in range(2_000))
    text = f"{HEAD}matrix: {{n: [{values}]}}\nroles: {{main: {{entrypoint: 'true'}}}}\n"
    assert len(launches(tmp_path, text)) == 2_000


WHOLE = "roles: {main: {entrypoint: x, args: ['$<matrix.a>/$<matrix.b>/$<matrix.n>']}}\n"


def test_the_advice_for_a_value_that_a_job_lacks_works(tmp_path: Path) -> None:
    matrix = "{a: [1, 2], b: [x, y], include: [{n: 1, b: y}]}"
    for _ in range(3):
        compiled = compile_text(tmp_path, f"{HEAD}{WHOLE}matrix: {matrix}\n")
        if not compiled.errors:
            break
        item = compiled.diagnostics[0].label.split("`")[3].replace("…", "2")
        matrix = matrix.replace("include: [", f"include: [{item}, ")
    made = launches(tmp_path, f"{HEAD}{WHOLE}matrix: {matrix}\n")
    assert [each.app.roles[0].args[0] for each in made.values()] == ["1/x/2", "1/y/1", "2/x/2", "2/y/1"]


@pytest.mark.parametrize(("name", "matrix"), [
    ("job", "{a: [$<var.x>, $<var.y>]}"),
    ("job", "{a: [2, 3], exclude: [{a: $<var.x>}]}"),
    ("job", "{a: [2, 3], include: [{a: $<var.x>, n: 1}, {a: $<var.y>}]}"),
    ("job-$<matrix.n>", "{group: job, include: [{n: $<var.x>}, {n: $<var.y>}]}"),
])  # fmt: skip
def test_values_that_are_not_known_yet_cause_no_diagnostic(tmp_path: Path, name, matrix):
    head = f"version: 1\nname: {name}\nvars: {{x: {{type: int}}, y: {{type: int}}}}\n"
    text = f"{head}roles: {{main: {{entrypoint: x}}}}\nmatrix: {matrix}\n"
    found = compile_text(tmp_path, text, placeholders=True).diagnostics
    assert [each.message for each in found if each.code != "unused-variable"] == []
