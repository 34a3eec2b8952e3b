"""`needs`: names, references and options of one file, and the jobs that names of many files mean."""

import os
from pathlib import Path

import pytest

from launcher.cli.main import main
from launcher.jobfile import Compiled, Environment, compile_files, load_job, render
from launcher.jobfile.compile.needs import declared_elsewhere, resolve_needs
from launcher.specs import Launch, digest, document
from launcher.specs.launch import Need
from tests.unit.jobfile.words import HEAD, ROLES, compile_text, labels, launch, launches, lines, places

FOREIGN = "`needs` of the job names other jobs, `depends_on` of a role names roles of this job"


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


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        ("[]", ()),
        ("{}", ()),
        ("[prepare]", (Need("prepare"),)),
        ("[train, prepare]", (Need("prepare"), Need("train"))),
        ('["3", 2026-01-02]', (Need("2026-01-02"), Need("3"))),
        ("{prepare: {}}", (Need("prepare"),)),
        ("{prepare: null}", (Need("prepare"),)),
        ("{prepare: , train: {rerun: never}}", (Need("prepare"), Need("train", rerun=False))),
        ("{prepare: {x-why: order alone, rerun: never}}", (Need("prepare", rerun=False),)),
    ],
)
def test_needs_may_be_a_list_or_a_mapping(tmp_path: Path, given: str, needs: tuple[Need, ...]) -> None:
    assert launch(tmp_path, f"{HEAD}needs: {given}\n{ROLES}").needs == needs


def test_needs_do_not_change_the_digest_of_a_job(tmp_path: Path) -> None:
    texts = [HEAD + more + ROLES for more in ("", "needs: [prepare]\n", "needs: {train: {rerun: never}}\n")]
    assert len({digest(document(launch(tmp_path, text))) for text in texts}) == 1


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    text = HEAD + "x-all: &all {a: {rerun: never}, b: }\nneeds: {<<: *all, c: {}}\n" + ROLES
    assert launch(tmp_path, text).needs == (Need("a", rerun=False), Need("b"), Need("c"))


def test_targets_overlay_needs_as_they_overlay_other_fields(tmp_path: Path) -> None:
    text = HEAD + "needs: {a: {rerun: never}, b: {}}\n" + ROLES + "targets:\n"
    text += "  more: {needs: {c: {}, a: {rerun: null}}}\n  less: {needs: {b: null}}\n  other: {needs: [d]}\n"
    assert launch(tmp_path, text, target="more").needs == (Need("a"), Need("b"), Need("c"))
    assert launch(tmp_path, text, target="less").needs == (Need("a", rerun=False),)
    assert launch(tmp_path, text, target="other").needs == (Need("d"),)


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


@pytest.mark.parametrize(
    ("text", "variable", "name"),
    [
        ("$<var.which>", "prepare-data", "prepare-data"),
        ("x-$<var.which>", "prepare-data", "x-prepare-data"),
        ("x-$<var.rate>", "0", "x-0p5"),
        ("$<job.name>-x", "0", "job-x"),
        ("x-$<target.name>", "0", "x-default"),
        ("x-$<job.project>", "0", "x-default"),
    ],
)
@pytest.mark.parametrize("form", ["[%s]", "{%s: {}}"])
def test_a_value_that_is_no_axis_stands_unchanged_in_the_name_of_a_need(tmp_path, text, variable, name, form):
    head = HEAD + "vars: {which: {type: str}, rate: {type: float, default: 0.50}}\n"
    found = launch(
        tmp_path,
        f"{head}needs: {form % text}\n{ROLES}",
        variables={"which": variable},
        name="x.launcher.yaml",
    )
    assert found.needs == (Need(name),)


@pytest.mark.parametrize(
    ("given", "wording"),
    [
        ("3", "3:8 wrong-type `needs` must be a list or a mapping, not the number 3"),
        ("true", "3:8 wrong-type `needs` must be a list or a mapping, not `true`"),
        ("null", "3:1 wrong-type `needs` has no value"),
        ("prepare", '3:8 wrong-type `needs` must be a list or a mapping, not the text "prepare"'),
        ("[[]]", "3:9 wrong-type need 1 must be text, not a list"),
        ("[a, 3]", "3:12 wrong-type need 2 must be text, not the number 3"),
        ("[null]", "3:9 wrong-type need 1 must be text, not nothing"),
        ("[{a: {}}]", "3:9 wrong-type need 1 must be text, not a mapping"),
        ("['']", "3:9 invalid-name the name of the job is empty"),
        ("[a/b]", "3:9 invalid-name `a/b` cannot name a job"),
        ("[-a]", "3:9 invalid-name `-a` cannot name a job"),
        (f"[{'a' * 64}]", f"3:9 invalid-name `{'a' * 64}` cannot name a job"),
        ("['a\\nb']", "3:9 invalid-name"),
        ("[prépare]", "3:9 invalid-name `prépare` cannot name a job"),
        (
            "[Ünï, 任务]",
            "3:9 invalid-name `Ünï` cannot name a job|3:14 invalid-name `任务` cannot name a job",
        ),
        ("[train*]", "3:9 invalid-name `train*` cannot name a job"),
        ("{Prepare: {}}", "3:9 invalid-name `Prepare` cannot name a job"),
        ("{a: {rerun: sometimes}}", '3:20 unknown-variant `rerun` of need `a` cannot be "sometimes"'),
        ("{a: {rerun: false}}", "3:20 wrong-type `rerun` of need `a` must be text, not `false`"),
        ("{a: {rerun: null}}", "3:13 wrong-type `rerun` of need `a` has no value"),
        ("{a: {when: never}}", "3:13 unknown-field `when` is not a field of need `a`"),
        ("{a: never}", '3:12 wrong-type need `a` must be a mapping, not the text "never"'),
        ("{a: []}", "3:12 wrong-type need `a` must be a mapping, not a list"),
        ("[a, b, a]", "3:15 duplicate-key job `a` stands twice in `needs`"),
        ("[job]", "3:9 needs-cycle job `job` needs itself"),
        ("{job: {}}", "3:9 needs-cycle job `job` needs itself"),
        ("[$<job.name>]", "3:9 needs-cycle job `job` needs itself"),
        ("[$<app_id>]", "3:9 reference-phase"),
        ("{$<app_id>: {}}", "3:9 reference-phase"),
        ("[x-$<job.dir>]", "3:11 reference-phase"),
        ("[$<needs.a.output_dir>]", "3:9 reference-phase"),
        ("{x-$<var.no>: {}}", "3:11 unknown-reference there is no variable `no`"),
        ("[$<var.number>]", "3:9 wrong-type need 1 must be text, not the number 3"),
        ("[$<var.text>]", "3:9 invalid-name `A b` cannot name a job"),
        ("{$<var.text>: {}}", "3:9 invalid-name `A b` cannot name a job"),
        ("[a-$<var.number>, a-3]", "3:26 duplicate-key job `a-3` stands twice in `needs`"),
        ("{a-$<var.number>: {}, a-3: {}}", "3:30 duplicate-key job `a-3` stands twice in `needs`"),
    ],
)
def test_a_wrong_need_is_reported_at_its_place(tmp_path: Path, given: str, wording: str) -> None:
    variables = "vars: {number: {type: int, default: 3}, text: {type: str, default: A b}}\n"
    text = f"{HEAD}needs: {given}\n{variables}{ROLES}"
    found = [line for line in lines(compile_text(tmp_path, text)) if "unused-variable" not in line]
    for line, begin in zip(found, wording.split("|"), strict=True):
        assert line.startswith(begin)


def test_fields_of_other_tools_get_the_advice_to_write_needs_and_both_are_explained(tmp_path: Path) -> None:
    for name in ("depends_on", "after", "requires", "dependencies"):
        found = compile_text(tmp_path, f"{HEAD}{name}: [prepare]\n{ROLES}").diagnostics
        assert [(each.code, each.label, each.hint) for each in found] == [
            ("unknown-field", "did you mean `needs`?", FOREIGN)
        ]
    for name, named, label in (
        ("needs", "db", "did you mean `depends_on`?"),
        ("needs", "prepare", "`needs` is a field of the job"),
        ("after", "db", "did you mean `depends_on`?"),
    ):
        text = (
            HEAD + f"roles:\n  db: {{entrypoint: env}}\n  main:\n    entrypoint: env\n    {name}: [{named}]\n"
        )
        (found_in_role,) = compile_text(tmp_path, text).diagnostics
        assert (found_in_role.label, found_in_role.hint) == (label, FOREIGN)
    text = HEAD + "depends_on: [main]\n" + ROLES
    assert labels(compile_text(tmp_path, text)) == ["`depends_on` is a field of a role"]


def test_a_need_whose_name_holds_a_placeholder_is_left_out(tmp_path: Path) -> None:
    text = HEAD + "vars: {name: {type: str}}\nneeds: [a, x-$<var.name>]\n" + ROLES
    assert launch(tmp_path, text, placeholders=True).needs == (Need("a"),)


def test_a_need_that_is_wrong_under_another_target_is_reported_at_its_place(tmp_path: Path) -> None:
    text = HEAD + ROLES + "targets:\n  dev: {needs: [A]}\n  nightly: {needs: [job]}\n"
    assert places(compile_text(tmp_path, text)) == ["5:17 invalid-name", "6:21 needs-cycle"]


def test_a_null_that_removes_no_need_gets_the_advice_how_to_add_one(tmp_path: Path) -> None:
    found = compile_text(tmp_path, HEAD + ROLES + "targets: {dev: {needs: {prepare: null}}}\n")
    assert labels(found) == ["write {} to add it"]


def test_a_job_may_have_a_thousand_needs(tmp_path: Path) -> None:
    names = [f"job-{index}" for index in range(1000)]
    found = launch(tmp_path, f"{HEAD}needs: [{', '.join(names)}]\n{ROLES}")
    assert [need.job for need in found.needs] == sorted(names)
    again = compile_text(tmp_path, f"{HEAD}needs: [{', '.join(names + names)}]\n{ROLES}")
    assert len(again.diagnostics) == 1000


# The meaning of names


def test_the_name_of_a_matrix_means_all_of_its_jobs(tmp_path: Path) -> None:
    job(tmp_path, "train", "matrix: {lr: [0.1, 0.01]}")
    job(tmp_path, "report", "needs: {train: {rerun: never}, train-0p1: {}, prepare: {}}")
    found = compiled(tmp_path)
    assert needs_of(found)["report"] == ["prepare", "train-0p01", "train-0p1"]
    report = next(each for each in found.launches if each.key.job == "report")
    assert report.needs == (Need("prepare"), Need("train-0p01", rerun=False), Need("train-0p1"))


def test_the_name_of_a_job_takes_precedence_over_the_name_of_a_matrix(tmp_path: Path) -> None:
    job(tmp_path / "a", "train", "matrix: {lr: [1, 2]}")
    job(tmp_path / "b", "train")
    job(tmp_path, "report", "needs: [train]")
    assert needs_of(compiled(tmp_path))["report"] == ["train"]


def test_a_need_means_a_job_of_the_same_project_and_target(tmp_path: Path) -> None:
    job(tmp_path, "train", "project: other\nmatrix: {lr: [1, 2]}")
    job(tmp_path, "report", "needs: [train]")
    found = compiled(tmp_path)
    assert needs_of(found)["report"] == ["train"]
    here, there = found.launches[0], found.launches[1]
    assert resolve_needs([here, there]) == ([here, there], [])


def test_jobs_that_need_each_other_are_an_error_at_the_need(tmp_path: Path) -> None:
    job(tmp_path, "a", "needs: [b]")
    job(tmp_path, "b", "needs:\n  other:\n  c: {rerun: never}")
    job(tmp_path, "c", "needs: [a]")
    job(tmp_path, "d", "needs: [a]")
    found = compiled(tmp_path)
    (circle,) = found.errors
    assert (circle.code, circle.message) == ("needs-cycle", "jobs need each other: a -> b -> c -> a")
    assert circle.place.endswith("a.launcher.yaml:3:9")
    spans = [(os.path.basename(each.file), each.span and each.span.line) for each in circle.related]
    assert spans == [("b.launcher.yaml", 5), ("c.launcher.yaml", 3)]
    assert [each.key.job for each in found.launches] == ["d"]


def test_a_circle_is_spelt_from_the_first_file_on(tmp_path: Path) -> None:
    job(tmp_path, "a", "needs: [m]")
    job(tmp_path, "m", "needs: [z]")
    job(tmp_path, "z", "needs: [m]")
    assert [each.message for each in compiled(tmp_path).errors] == ["jobs need each other: m -> z -> m"]


def test_circles_through_matrices_are_reported_once(tmp_path: Path) -> None:
    axes = "matrix: {n: {range: [0, 256]}}\n"
    job(tmp_path, "a", f"{axes}needs: [b]")
    job(tmp_path, "b", f"{axes}needs: [a]")
    job(tmp_path, "own", "matrix: {n: [1, 2]}\nneeds: [own]")
    assert [each.message for each in compiled(tmp_path).errors] == [
        "jobs need each other: a-0 -> b-0 -> a-0",
        "job `own-1` needs itself: `own` names every job of its matrix",
    ]


def test_a_long_circle_is_shortened(tmp_path: Path) -> None:
    for index in range(100):
        job(tmp_path, f"j{index:02}", f"needs: [j{(index + 1) % 100:02}]")
    (circle,) = compiled(tmp_path).errors
    assert circle.message == (
        "jobs need each other: j00 -> j01 -> j02 -> j03 -> j04 -> j05 -> j06 -> … -> j99 -> j00 (100 jobs)"
    )


def test_two_paths_of_needs_to_one_job_are_no_circle(tmp_path: Path) -> None:
    job(tmp_path, "a")
    job(tmp_path, "b", "needs: [a]")
    job(tmp_path, "c", "needs: [a]")
    job(tmp_path, "d", "needs: [b, c, a]")
    assert compiled(tmp_path).errors == ()


# Names that the project declares


def warned(folder: Path, *names: str) -> list[tuple[str, str, str]]:
    found = compiled(folder, *names, neighbours=True).diagnostics
    return [(each.code, each.message.rpartition(" ")[2], each.label) for each in found]


def test_validate_warns_of_a_name_that_the_project_does_not_declare(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text('project = "vision"\n')
    job(tmp_path / "data", "prepare")
    job(tmp_path / "train", "train", "matrix: {lr: [0.1, $<var.lr>]}\nvars: {lr: {type: float}}")
    job(tmp_path / "other", "report", "project: other")
    needs = "[prepare, train, train-0p1, train-7, prepair, report, main]"
    path = job(tmp_path / "eval", "evaluate", f"needs: {needs}")
    assert warned(tmp_path, str(path)) == [
        ("unknown-need", "`prepair`", "did you mean `prepare`?"),
        ("unknown-need", "`report`", ""),
        ("unknown-need", "`main`", "it is a role of this job: roles wait for each other with `depends_on`"),
    ]


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


def test_the_jobs_of_a_matrix_have_one_warning(tmp_path: Path) -> None:
    job(tmp_path, "evaluate", "matrix: {n: {range: [0, 256]}}\nneeds: [prepare, x-$<matrix.n>]")
    assert warned(tmp_path, "evaluate.launcher.yaml") == [
        ("unknown-need", "`prepare`", ""),
        ("unknown-need", "`x-0`", ""),
    ]


def test_commands_other_than_validate_do_not_warn_of_undeclared_names(tmp_path: Path) -> None:
    job(tmp_path, "evaluate", "needs: [prepare]")
    assert compiled(tmp_path).diagnostics == ()


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


def test_a_matrix_elsewhere_stands_for_its_jobs(tmp_path: Path) -> None:
    job(project(tmp_path) / "a", "prepare")
    job(tmp_path / "a", "train", "matrix: {n: [1, 2]}")
    needs = "needs: {train-2: {}, train: {rerun: never}, prepare: {}, no: {}}"
    [found] = compile_files([str(job(tmp_path / "b", "evaluate", needs))]).launches
    assert found.needs == (Need("no"), Need("prepare"), Need("train-1", rerun=False), Need("train-2"))
    assert found.unresolved == {}


def test_a_need_is_the_same_whichever_files_are_given(tmp_path: Path) -> None:
    job(project(tmp_path), "train", "matrix: {n: [1, $<var.last>]}\nvars: {last: {type: int, default: 2}}")
    path = job(
        tmp_path, "sum", "needs: [train]\nvars: {last: {type: int, default: 2}}\nmatrix: {m: [$<var.last>]}"
    )
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


def test_a_need_is_the_job_of_its_name_rather_than_a_matrix_of_that_name(tmp_path: Path) -> None:
    job(project(tmp_path) / "a", "train", "matrix: {n: [1, 2]}")
    job(tmp_path / "b", "train")
    assert load_job(job(tmp_path, "sum", "needs: [train]")).needs == (Need("train"),)


@pytest.mark.parametrize(
    "text",
    [
        "name: train\nvars: {n: {type: int}}\nmatrix: {n: [1, $<var.n>]}\n",
        "name: train\nvars: {n: {type: int}}\nmatrix: {n: [1, 2], exclude: [{n: $<var.n>}]}\n",
        "name: train\nmatrix: {n: [1, {}]}\n",
        "name: train\nmatrix: 3\n",
        "name: train\nnonsense\nmatrix: {n: [1, 2]}\n",
        "name: train\nname: other\nmatrix: {n: [1, 2]}\n",
        "name: train\nmatrix: {n: [1,",
        "name: [train]\n",
        "train: name\n",
        "{ name: train",
    ],
)
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
