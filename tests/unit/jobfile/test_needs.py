"""`needs`: names, references and options of one file, and the jobs that names of many files mean."""

import os
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.jobfile import Compiled, Environment, compile_files, load_job, render
from launcher.jobfile.compile.needs import declared_elsewhere, resolve_needs
from launcher.specs import Launch, digest, document
from launcher.specs.launch import Need
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, launch, launches


def job(folder: Path, name: str, more: str = "") -> Path:
    path = folder / f"{name}.launcher.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"version: 1\nname: {path.name.split('.')[0]}\n{more}\n{ROLES}")
    return path


def compiled(folder: Path, *names: str, neighbours: bool = False) -> Compiled:
    return compile_files(
        [str(folder / name) for name in names or (".",)], neighbours=neighbours, placeholders=neighbours
    )


def needs_of(found: Compiled) -> dict[str, list[str]]:
    assert not found.errors, render(found.errors)
    return {each.key.job: [need.job for need in each.needs] for each in found.launches}


def test_needs_do_not_change_the_digest_of_a_job(tmp_path: Path) -> None:
    texts = [HEAD + more + ROLES for more in ("", "needs: [prepare]\n", "needs: {train: {rerun: never}}\n")]
    assert len({digest(document(launch(tmp_path, text))) for text in texts}) == 1


def test_references_are_slugged_as_the_names_of_matrix_jobs_are(tmp_path: Path) -> None:
    axes = "matrix: {lr: [0.10, 1e-05], size: [big model, true, -3]}\n"
    train = launches(tmp_path, f"version: 1\nname: train\n{axes}{ROLES}")
    evaluate = launches(
        tmp_path, f"version: 1\nname: evaluate\nneeds: [train-$<matrix.lr>-$<matrix.size>]\n{axes}{ROLES}"
    )
    assert [need.job for each in evaluate.values() for need in each.needs] == [*train]
    assert [each.matrix for each in train.values()] == ["train"] * 6


def test_a_name_that_is_too_long_is_cut_as_the_matrix_cuts_it(tmp_path: Path) -> None:
    name, axes = "t" * 50, "matrix: {a: [abcdefghijklmnopqrst, other], b: [1]}\n"
    train = launches(tmp_path, f"version: 1\nname: {name}\n{axes}{ROLES}")
    listed = launches(tmp_path, f"{HEAD}needs: [{name}-$<matrix.a>-$<matrix.b>]\n{axes}{ROLES}")
    keyed = launches(tmp_path, f"{HEAD}needs: {{{name}-$<matrix.a>-$<matrix.b>: }}\n{axes}{ROLES}")
    assert [each.needs[0].job for each in listed.values()] == [*train]
    assert [each.needs for each in keyed.values()] == [each.needs for each in listed.values()]


def test_a_need_whose_name_holds_a_placeholder_is_left_out(tmp_path: Path) -> None:
    text = HEAD + "vars: {name: {type: str}}\nneeds: [a, x-$<var.name>]\n" + ROLES
    assert launch(tmp_path, text, placeholders=True).needs == (Need("a"),)


def test_a_job_may_have_a_thousand_needs(tmp_path: Path) -> None:
    names = [f"job-{index}" for index in range(1000)]
    found = launch(tmp_path, f"{HEAD}needs: [{', '.join(names)}]\n{ROLES}")
    assert [need.job for need in found.needs] == sorted(names)
    again = compile_text(tmp_path, f"{HEAD}needs: [{', '.join(names + names)}]\n{ROLES}")
    assert len(again.diagnostics) == 1000


# The meaning of names


def test_a_need_means_a_job_of_the_same_project_and_target(tmp_path: Path) -> None:
    job(tmp_path, "train", "project: other\nmatrix: {lr: [1, 2]}")
    job(tmp_path, "report", "needs: [train]")
    found = compiled(tmp_path)
    assert needs_of(found)["report"] == ["train"]
    here, there = found.launches[0], found.launches[1]
    assert resolve_needs([here, there]) == ([here, there], [])


def test_a_long_circle_is_shortened(tmp_path: Path) -> None:
    for index in range(100):
        job(tmp_path, f"j{index:02}", f"needs: [j{(index + 1) % 100:02}]")
    (circle,) = compiled(tmp_path).errors
    assert circle.message == (
        "jobs need each other: j00 -> j01 -> j02 -> j03 -> j04 -> j05 -> j06 -> … -> j99 -> j00 (100 jobs)"
    )


# Names that the project declares


def warned(folder: Path, *names: str) -> list[tuple[str, str, str]]:
    found = compiled(folder, *names, neighbours=True).diagnostics
    return [(each.code, each.message.rpartition(" ")[2], each.label) for each in found]


def test_broken_neighbours_declare_the_names_that_can_be_read(tmp_path: Path) -> None:
    job(tmp_path, "prepare", "needs: 3\nno_field: 1")
    (tmp_path / "broken.launcher.yaml").write_text("version: [")
    (tmp_path / "binary.launcher.yaml").write_bytes(b"\xff\x00")
    (tmp_path / "list.launcher.yaml").write_text("name: [a]\n")
    (tmp_path / "matrix.launcher.yaml").write_text("version: 1\nname: matrix\nmatrix: 3\n")
    (tmp_path / "loop.launcher.yaml").symlink_to("loop.launcher.yaml")
    os.mkfifo(tmp_path / "pipe.launcher.yaml")
    job(tmp_path, "evaluate", "needs: [prepare, matrix, matrix-1, broken]")
    assert warned(tmp_path, "evaluate.launcher.yaml") == [("unknown-need", "`broken`", "")]


def test_without_a_project_or_a_work_tree_the_folder_of_the_file_counts(tmp_path: Path) -> None:
    job(tmp_path, "prepare")
    job(tmp_path / "below", "deep")
    job(tmp_path, "evaluate", "needs: [prepare, deep]")
    assert warned(tmp_path, "evaluate.launcher.yaml") == [("unknown-need", "`deep`", "")]
    assert warned(tmp_path, ".") == []


def test_a_component_of_a_neighbour_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef make():\n    return None\n")
    (tmp_path / "made.launcher.yaml").write_text("version: 1\nname: made\ncomponent: made.py:make\n")
    job(tmp_path, "evaluate", "needs: [made, other]")
    assert warned(tmp_path, "evaluate.launcher.yaml") == [("unknown-need", "`other`", "")]
    assert not (tmp_path / "ran").exists()


def test_a_file_elsewhere_that_declares_a_job_is_named(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text("")
    job(tmp_path / "a", "prepare")
    job(tmp_path / "a", "train", "matrix: {n: [1, 2]}\ntargets: {dev: {matrix: {n: [3]}}}")
    path = job(tmp_path / "b", "evaluate", "needs: [prepare]\ntargets: {dev: {}}")
    here, dev = (compile_files([str(path)], target=target).launches[0] for target in (None, "dev"))

    def where(name: str, launch: Launch) -> str:
        return declared_elsewhere(name, launch, str(tmp_path / "b"))

    assert where("prepare", here) == "../a/prepare.launcher.yaml"
    assert [where(name, here) for name in ("train", "train-2")] == ["../a/train.launcher.yaml"] * 2
    assert [where(name, here) for name in ("train-3", "no")] == ["", ""]
    assert where("train-3", dev) == "../a/train.launcher.yaml"


def project(folder: Path) -> Path:
    """Return a folder of a project: what its job files declare is known to all of them."""
    (folder / "launcher.toml").write_text("")
    return folder


def test_a_need_is_the_same_whichever_files_are_given(tmp_path: Path) -> None:
    job(project(tmp_path), "train", "matrix: {n: [1, $<var.last>]}\nvars: {last: {type: int, default: 2}}")
    text = "needs: [train]\nvars: {last: {type: int, default: 2}}\nmatrix: {m: [$<var.last>]}"
    path = job(tmp_path, "sum", text)
    for variables in ({}, {"last": "7"}):
        whole = compile_files([str(tmp_path)], variables=variables).launches
        alone = compile_files([str(path)], variables=variables).launches
        assert alone == tuple(each for each in whole if each.matrix == "sum")
        assert [need.job for need in alone[0].needs] == ["train-1", f"train-{variables.get('last', 2)}"]


def test_values_from_files_and_from_the_environment_count_for_matrices_elsewhere(tmp_path: Path) -> None:
    declared = "vars: {n: {type: int, from_env: SUM_N}}"
    job(project(tmp_path), "train", f"matrix: {{n: [$<var.n>]}}\n{declared}")
    path = job(tmp_path, "sum", f"needs: [train]\nmatrix: {{m: [$<var.n>]}}\n{declared}")
    (tmp_path / "values.yaml").write_text("n: 5\n")
    [filed] = compile_files([str(path)], var_files=[str(tmp_path / "values.yaml")]).launches
    assert [need.job for need in filed.needs] == ["train-5"]
    [read] = compile_files([str(path)], environment=Environment(environ={"SUM_N": "6"})).launches
    assert [need.job for need in read.needs] == ["train-6"]


def test_load_job_resolves_a_need_to_the_jobs_of_a_matrix_in_another_file(tmp_path: Path) -> None:
    job(project(tmp_path), "train", "matrix: {n: [1, 2]}")
    assert load_job(job(tmp_path, "sum", "needs: [train]")).needs == (Need("train-1"), Need("train-2"))


@pytest.mark.parametrize("text", [
    "name: train\nvars: {n: {type: int}}\nmatrix: {n: [1, $<var.n>]}\n",
    "name: train\nvars: {n: {type: int}}\nmatrix: {n: [1, 2], exclude: [{n: $<var.n>}]}\n",
    "name: train\nmatrix: {n: [1, {}]}\n", "name: train\nmatrix: 3\n",
    "name: train\nnonsense\nmatrix: {n: [1, 2]}\n", "name: train\nname: other\nmatrix: {n: [1, 2]}\n",
    "name: train\nmatrix: {n: [1,", "name: [train]\n", "train: name\n", "{ name: train",
])  # fmt: skip
def test_a_name_whose_jobs_are_not_known_is_not_resolved(tmp_path: Path, text: str) -> None:
    (project(tmp_path) / "train.launcher.yaml").write_text(f"version: 1\n{text}")
    found = load_job(job(tmp_path, "sum", "needs: [train]"))
    assert found.needs == (Need("train"),)
    assert "train.launcher.yaml" in found.unresolved["train"]


def test_a_broken_file_is_not_taken_for_a_matrix(tmp_path: Path) -> None:
    twice = "version: 1\nname: prepare\nroles: {}\nroles: {}\n"
    (project(tmp_path) / "prepare.launcher.yaml").write_text(twice)
    read = "needs: [prepare]\nroles: {main: {entrypoint: cat, args: [$<needs.prepare.output_dir>]}}\n"
    path = tmp_path / "train.launcher.yaml"
    path.write_text(f"version: 1\nname: train\n{read}")
    assert compiled(tmp_path, path.name, neighbours=True).errors == ()
    assert "prepare.launcher.yaml declares `prepare`" in load_job(path).unresolved["prepare"]


def test_a_broken_file_leaves_the_names_that_it_cannot_declare(tmp_path: Path) -> None:
    """Names that other files declare, and names that are not in the broken text, stay."""
    (project(tmp_path) / "broken.launcher.yaml").write_text("{ elsewhere")
    job(tmp_path, "train", "matrix: {n: [1, 2]}")
    job(tmp_path, "prepare")
    path = job(tmp_path, "sum", "needs: [train, prepare, missing, elsewhere]")
    found = load_job(path)
    assert [need.job for need in found.needs] == ["elsewhere", "missing", "prepare", "train-1", "train-2"]
    assert list(found.unresolved) == ["elsewhere"]
    (tmp_path / "binary.launcher.yaml").write_bytes(b"\xff\x00")
    assert list(load_job(path).unresolved) == ["elsewhere", "missing"]


# The output of commands


def test_compile_shows_needs_with_their_origin(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job(tmp_path, "train", "needs: {prepare: {rerun: never}, fetch: }")
    assert main(["compile", "train.launcher.yaml"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    start = shown.index(["needs:"])
    assert shown[start + 1 : start + 4] == [
        ["fetch:", "{}", "#", "train.launcher.yaml:3"],
        ["prepare:"],
        ["rerun:", "never", "#", "train.launcher.yaml:3"],
    ]
