"""Words that mean several apps: patterns, and the name of a matrix."""

import os
from dataclasses import replace

import pytest

from launcher.errors import LauncherError, UsageError
from launcher.inventory.find import find, find_all, find_app, find_apps
from launcher.specs import JobKey
from launcher.state.records import AppRecord
from launcher.state.store import Store
from tests.unit.cli.worlds import attempt, launch


def of_matrix(name, *slugs, file="sweep.launcher.yaml", target="default", origin="example.org/repo"):
    """Return the succeeded attempts of a matrix' jobs."""
    made = [launch(f"{name}-{slug}") for slug in slugs]
    keys = [JobKey("default", target, each.key.job) for each in made]
    return [
        attempt(replace(each, key=key, file=file, origin=origin), "succeeded")
        for each, key in zip(made, keys, strict=True)
    ]


def names(text, target=""):
    return [app.name for app in find_all(text, target).apps]


def test_a_pattern_means_the_latest_attempt_of_each_job_that_it_matches(record):
    train = launch("train")
    record(attempt(train, "failed"), attempt(train, "succeeded", number=2), attempt(launch("eval"), "failed"))
    found = find_all("tr*")
    assert found.is_group
    assert [(app.name, app.number) for app in found.apps] == [("train", 2)]
    assert names("*") == ["eval", "train"]
    assert names("[!t]*") == ["eval"]


def test_a_pattern_of_app_ids_finds_older_attempts_and_apps_without_a_job(record):
    train = launch("train")
    record(attempt(train, "failed"), attempt(train, "succeeded", number=2))
    with Store.open() as store:
        store.add(AppRecord("local_cwd", "s", "echo-qwert12345", name="echo", state="succeeded"))
    assert [app.number for app in find_all("train-1-*").apps] == [1]
    assert [app.app_id for app in find_all("ech?-*").apps] == ["echo-qwert12345"]


def test_a_bare_pattern_means_this_project_and_a_handle_any(record):
    record(attempt(launch("train", project="vision"), "succeeded"), attempt(launch("train"), "failed"))
    assert [app.project for app in find_all("train*").apps] == ["default"]
    assert [app.project for app in find_all("*://vision/tr*").apps] == ["vision"]
    assert len(find_all("local_*://*/train").apps) == 2


def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_name(record):
    record(attempt(launch("train"), "succeeded"))
    with pytest.raises(LauncherError, match=r"`trian\*` matches no job or app") as caught:
        find_all("trian*")
    assert "`train`" in caught.value.hint


def test_a_job_without_an_attempt_on_record_is_not_suggested_for_its_own_name():
    key = ("default", "default", "train")
    with Store.open() as store:  # as a client leaves it that is killed before it records the attempt
        store.add(AppRecord("slurm", "s", "train-1-abcde", key=key, number=1, state="reserved"))
    with pytest.raises(LauncherError, match="`train`") as caught:
        find("train")
    assert caught.value.hint == "did you mean `train-1-abcde`?"


@pytest.mark.parametrize("word", ["swep", "swep*", "swep-*"])
def test_a_misspelt_matrix_gets_a_pattern_that_works(record, word):
    record(*of_matrix("sweep", "1", "2", "10"))
    with pytest.raises(LauncherError) as caught:
        find_all(word)
    assert caught.value.hint == "did you mean `sweep-*`?"
    assert len(find_all("sweep-*").apps) == 3


def test_a_name_of_a_file_is_taken_for_a_pattern_that_the_shell_has_filled_in(record, tmp_path):
    (tmp_path / "train.launcher.yaml").touch()
    with pytest.raises(LauncherError) as caught:
        find("train.launcher.yaml")
    assert "'train*'" in caught.value.hint


def test_the_name_of_a_matrix_means_its_jobs_in_the_order_of_their_numbers(record):
    record(*of_matrix("sweep", "10-b", "2-b", "2-a", "0p5-a", "m1-a", "1em05-a"))
    slugs = ["m1-a", "1em05-a", "0p5-a", "2-a", "2-b", "10-b"]
    assert find_all("sweep").is_group
    assert names("sweep") == [f"sweep-{slug}" for slug in slugs]


def test_jobs_of_a_file_with_another_name_are_not_of_the_matrix(record, tmp_path):
    (tmp_path / "sweep.launcher.yaml").write_text("version: 1\nname: sweep  # ours\n")
    (tmp_path / "eval.launcher.toml").write_text('version = 1\nname = "sweep-eval"\n')
    here = str(tmp_path)
    record(
        *of_matrix("sweep", "1", "2", origin=here),
        *of_matrix("sweep-eval", "1", "2", file="eval.launcher.toml", origin=here),
    )
    assert names("sweep") == ["sweep-1", "sweep-2"]
    assert names("sweep-eval") == ["sweep-eval-1", "sweep-eval-2"]


def test_a_job_is_no_matrix_because_its_name_begins_like_another(record):
    record(*of_matrix("unheard-of", "large"))  # a name that no app of an engine here has
    with pytest.raises(LauncherError, match="no job or app is named `unheard-of`"):
        find_all("unheard-of")


def test_a_job_comes_before_a_matrix_of_its_name(record):
    record(attempt(launch("sweep"), "succeeded"), *of_matrix("sweep", "1", "2"))
    assert names("sweep") == ["sweep"]


def test_the_option_target_selects_among_jobs_of_one_name(record):
    dev, prod = of_matrix("train", "1", target="dev"), of_matrix("train", "1", target="prod")
    record(*dev, *prod)
    with pytest.raises(LauncherError, match="several apps") as caught:
        find("train-1")
    assert "--target" in caught.value.hint
    assert find("train-1", "dev").app.target == find_all("train*", "dev").apps[0].target == "dev"
    assert len(find_all("train*").apps) == 2
    with pytest.raises(LauncherError, match="no attempt in target `pord`") as caught:
        find("train-1", "pord")
    assert "dev, prod" in caught.value.hint
    with pytest.raises(LauncherError, match="target `dev`, not `prod`"):
        find(dev[0].handle, "prod")


def test_roles_and_replicas_may_follow_a_group(record):
    record(*of_matrix("sweep", "1", "2"))
    for word in ("sweep/main/0", "sweep-*/main/0"):
        assert [(each.role, each.replicas) for each in find_all(word).selected] == [("main", (0,))] * 2
        with pytest.raises(UsageError, match="/main"):
            find_apps(word)


def test_a_command_for_one_app_takes_no_group(record):
    record(*of_matrix("sweep", "1", "2"))
    with pytest.raises(LauncherError, match="2 apps, but this command takes one") as caught:
        find_app("sweep")
    assert "sweep-1-1-" in caught.value.hint
    with pytest.raises(UsageError):
        find_all("sweep*@2")


def test_a_pipe_where_the_job_file_was_is_not_opened(record, tmp_path):
    record(*of_matrix("sweep", "a", "b", origin=str(tmp_path)))
    os.mkfifo(tmp_path / "sweep.launcher.yaml")
    assert names("sweep") == ["sweep-a", "sweep-b"]


def test_a_pattern_that_is_longer_than_any_name_is_no_fault_of_the_state_folder(record):
    with pytest.raises(UsageError, match="too long"):
        find_all("?" * 60_000)


@pytest.mark.parametrize(("name", "jobs"), [
    ("sweep-$<matrix.lr>", ["sweep-0p1", "sweep-0p2"]),
    ("fit-$<matrix.lr>", ["fit-0p1", "fit-0p2"]),
    ("$<matrix.model>-fit", ["other-fit", "sweep-fit"]),
])  # fmt: skip
@pytest.mark.parametrize("suffix", ["yaml", "toml"])
def test_the_group_of_a_matrix_means_its_jobs_whatever_they_are_called(record, tmp_path, name, jobs, suffix):
    text = f"version: 1\nname: {name}  # ours\nmatrix:\n  include: [{{lr: 0.1}}]\n  group: sweep\n"
    if suffix == "toml":
        text = f'version = 1\nname = "{name}"\n[matrix]\ninclude = [{{lr = 0.1}}]\ngroup = "sweep"\n'
    file = f"sweep.launcher.{suffix}"
    (tmp_path / file).write_text(text)
    made = [replace(launch(job), file=file, origin=str(tmp_path)) for job in jobs]
    record(*(attempt(each, "succeeded") for each in made), attempt(launch("lonely"), "failed"))
    assert names("sweep") == jobs
    assert names(jobs[0]) == jobs[:1]
    with pytest.raises(LauncherError, match="no job or app is named `fit`"):
        find_all("fit")


@pytest.mark.parametrize("file", [None, "name: other\n", "name: fit-$<matrix.lr>\nmatrix: {group: other}\n"])
def test_a_recorded_matrix_means_its_jobs_whatever_became_of_the_file(record, tmp_path, file):
    path = "sweep.launcher.yaml"
    if file is not None:
        (tmp_path / path).write_text(file)

    def made(job, matrix="", number=1):
        launched = replace(launch(job), file=path, origin=str(tmp_path))
        return replace(attempt(launched, "succeeded", number=number), matrix=matrix)

    record(
        made("fit-1", "sweep"), made("sweep-2", "sweep"), made("sweep-3", "else"), made("alone-1", "alone")
    )
    assert names("sweep") == ["fit-1", "sweep-2"]
    assert names("else") == ["sweep-3"]
    assert find_all("alone").is_group
    record(made("fit-1", "else", number=2))
    assert names("else") == ["fit-1", "sweep-3"]
    assert names("sweep") == ["sweep-2"]


def test_attempts_of_older_versions_are_found_by_their_file_beside_recorded_matrices(record, tmp_path):
    text = "version: 1\nname: $<matrix.lr>-fit\nmatrix: {include: [{lr: 0.1}], group: sweep}\n"
    (tmp_path / "sweep.launcher.yaml").write_text(text)
    old, new = (
        attempt(replace(launch(job), file="sweep.launcher.yaml", origin=str(tmp_path)), "succeeded")
        for job in ("1-fit", "2-fit")
    )
    record(old, replace(new, matrix="sweep"))
    assert names("sweep") == ["1-fit", "2-fit"]
