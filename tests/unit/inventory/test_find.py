"""Which app a word means, with candidates where it is ambiguous or unknown; where its job file is."""

import subprocess
from dataclasses import replace
from socket import socket

import pytest

from launcher.errors import LauncherError, UsageError
from launcher.inventory.find import find, find_all, find_app, find_each
from launcher.inventory.project import job_file
from tests.unit.cli.worlds import attempt, launch


def test_a_name_means_the_latest_attempt(record):
    job = launch("train")
    record(attempt(job, "failed"), attempt(job, "succeeded", number=2))
    found = find("train")
    assert found.app.app_id == attempt(job, "failed", number=2).app_id
    assert (found.app.number, found.app.key, found.role) == (2, ("default", "default", "train"), "")


def test_a_number_means_that_attempt(record):
    job = launch("train")
    record(attempt(job, "failed"), attempt(job, "succeeded", number=2))
    assert find("train@1").app.number == 1
    with pytest.raises(LauncherError, match="no attempt 7") as caught:
        find("train@7")
    assert "attempt is 2" in caught.value.hint


def test_a_number_that_no_attempt_can_have_is_refused(record):
    record(attempt(launch("train"), "succeeded"))
    with pytest.raises(UsageError, match="expected JOB@ATTEMPT"):
        find(f"train@{2**63}")


def test_for_a_job_that_never_ran_in_containers_no_engine_is_asked(record, tmp_path, monkeypatch):
    record(attempt(launch("train"), "succeeded"))
    with socket() as engine:
        engine.bind(("127.0.0.1", 0))
        engine.listen()
        engine.setblocking(False)
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.getsockname()[1]}")
        assert find("train").app.number == find("train@1").app.number == 1
        with pytest.raises(LauncherError, match="no attempt 7"):
            find("train@7")
        with pytest.raises(BlockingIOError):  # no client has connected
            engine.accept()


def test_an_unknown_job_is_sought_at_the_engine_which_may_not_answer(record, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(LauncherError, match="no job or app is named `train`") as caught:
        find("train")
    assert "unix:///nowhere/docker.sock" in caught.value.hint


def test_an_app_id_and_a_handle_mean_the_same_app(record):
    seen = attempt(launch("train", project="vision"), "succeeded")
    record(seen)
    assert find(seen.app_id).app.handle == find(seen.handle).app.handle == seen.handle


def test_roles_and_replicas_may_follow_any_form_of_an_app(record):
    seen = attempt(launch("train"), "succeeded")
    record(seen)
    for word in ("train", "train@1", seen.app_id, seen.handle):
        found = find(f"{word}/main/2,0,2")
        assert (found.app.handle, found.role, found.replicas) == (seen.handle, "main", (2, 0))


def test_a_name_means_the_project_of_the_current_directory(record, tmp_path, monkeypatch):
    here, there = launch("train", project="here"), launch("train", project="there")
    record(attempt(here, "succeeded"), attempt(there, "failed"))
    (tmp_path / "launcher.toml").write_text('# ours\nproject = "here"  # not there\n[cli]\nproject = "no"\n')
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert find("train").app.session == "here"


@pytest.mark.parametrize("name", ["train.launcher.yaml", "train.launcher.toml"])
def test_a_name_means_the_project_that_the_file_of_the_job_here_declares(record, tmp_path, name):
    here = replace(launch("train", project="vision"), file=f"jobs/{name}")
    there = replace(launch("train"), file="elsewhere/train.launcher.yml")
    record(attempt(here, "succeeded"), attempt(there, "failed"))
    assert find("train").app.session == "default"
    (tmp_path / name).write_text("project: vision\n" if name.endswith("yaml") else 'project = "vision"\n')
    assert find("train").app.session == "vision"
    assert find("train@1").app.session == "vision"


def test_a_matrix_and_a_pattern_mean_the_project_that_job_files_here_declare(record, tmp_path):
    jobs = [launch(f"sweep-{k}", project="vision") for k in "ab"]
    record(*[attempt(replace(job, file="sweep.launcher.yaml"), "succeeded") for job in jobs])
    for word in ("sweep", "sweep-*"):
        with pytest.raises(LauncherError, match="sweep"):
            find_all(word)
    (tmp_path / "sweep.launcher.yaml").write_text("name: sweep\nproject: vision  # ours\n")
    for word in ("sweep", "sweep-*"):
        assert [app.session for app in find_all(word).apps] == ["vision", "vision"]


def test_a_file_here_of_another_project_does_not_hide_the_job_of_the_directory(record, tmp_path):
    record(attempt(launch("train"), "succeeded"), attempt(launch("train", project="vision"), "failed"))
    (tmp_path / "eval.launcher.yaml").write_text("project: vision\n")
    assert find("train").app.session == "default"


def test_a_job_of_another_project_is_refused_with_its_handle(record):
    seen = attempt(launch("train", project="vision"), "succeeded")
    record(seen)
    with pytest.raises(LauncherError, match="project `default`") as caught:
        find("train")
    assert seen.handle in caught.value.hint


def test_a_launcher_toml_above_the_work_tree_does_not_count(record, tmp_path, monkeypatch):
    record(attempt(launch("train"), "succeeded"))
    (tmp_path / "launcher.toml").write_text('project = "above"\n')
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "tree")
    assert find("train").app.session == "default"


def test_a_word_that_can_mean_two_apps_is_refused_with_both(record):
    seen = attempt(launch("train"), "succeeded")
    twin = attempt(launch(seen.app_id), "succeeded")  # a job that is called like another one's app
    record(seen, twin)
    with pytest.raises(LauncherError, match="several apps") as caught:
        find(seen.app_id)
    assert seen.handle in caught.value.hint
    assert twin.handle in caught.value.hint


def test_an_unknown_name_gets_the_nearest(record):
    record(attempt(launch("train"), "succeeded"))
    with pytest.raises(LauncherError, match="no job or app is named `trian`") as caught:
        find("trian")
    assert "`train`" in caught.value.hint


@pytest.mark.parametrize("word", [
    "", "/", "a//b", "a/b/c/d", "a:b/c/x", "a@1/b/-1", "a/b/c/1,", "a@", "a@x", "a@²", "x://y", "://a/b",
    "@1", "a/b/",
])  # fmt: skip
def test_a_word_that_has_no_form_of_an_app_is_a_usage_error(record, word):
    with pytest.raises(UsageError):
        find(word)


def test_a_command_for_whole_apps_takes_no_role(record):
    record(attempt(launch("train"), "succeeded"))
    assert find_app("train").name == "train"
    with pytest.raises(UsageError, match="/main"):
        find_app("train/main")


def test_an_engine_is_asked_once_for_several_names(record, monkeypatch):
    """The attempts on the engine may be newer than the records, and there may be no records."""
    asked, known = [], []
    jobs = {name: launch(name) for name in ("train", "eval", "other", "sweep-0", "sweep-1")}

    def made(name, state, number=1):
        return replace(attempt(jobs[name], state, number=number), scheduler="local_docker")

    newer = [made("train", "running", 2), made("other", "running")]

    class Engine:
        backend, shared_engine = "local_docker", "an engine"

        def attempts_of(self, keys, settled=()):
            asked.append({key.job for key in keys})
            known.append({app_id.rsplit("-", 2)[0] for app_id in settled})
            return newer

        def close(self):
            pass

    monkeypatch.setattr("launcher.inventory.recorded.schedulers", lambda *_, **__: [Engine()])
    record(*[made(name, "succeeded") for name in ("train", "eval", "sweep-0", "sweep-1")])
    found = find_each(["train", "eval", "other", "sweep"])
    assert [[(app.name, app.number) for app in each.apps] for each in found] == [
        [("train", 2)], [("eval", 1)], [("other", 1)], [("sweep-0", 1), ("sweep-1", 1)]
    ]  # fmt: skip
    assert [each.is_group for each in found] == [False, False, False, True]
    assert asked == [{"train", "eval", "other", "sweep-0", "sweep-1"}]
    assert known == [set()]
    find_each(["sweep", "s*"])  # both names need only attempts that are not on record
    assert known[1] == {"sweep-0", "sweep-1"}


def test_the_file_of_an_attempt_is_below_its_root_or_in_a_checkout_of_its_repository(tmp_path, monkeypatch):
    (tmp_path / "jobs").mkdir()
    file = tmp_path / "jobs" / "a.launcher.yaml"
    file.touch()
    monkeypatch.chdir(tmp_path / "jobs")
    assert job_file(str(tmp_path), "jobs/a.launcher.yaml") == str(file)
    with pytest.raises(LauncherError, match="no checkout"):
        job_file("example.com/vision/jobs", "jobs/a.launcher.yaml")
    for words in ("init -q", "remote add origin https://example.com/vision/jobs"):
        subprocess.run(["git", *words.split()], check=True, cwd=tmp_path)
    assert job_file("example.com/vision/jobs", "jobs/a.launcher.yaml") == str(file)
    file.unlink()
    with pytest.raises(LauncherError, match="not there any more"):
        job_file(str(tmp_path), "jobs/a.launcher.yaml")


def test_a_project_before_the_job_selects_the_job_of_that_project(record):
    here, there = launch("train"), launch("train", project="vision")
    record(attempt(here, "succeeded"), attempt(there, "failed"), attempt(there, "succeeded", number=2))
    assert find_app("vision/train").session == "vision"
    assert find_app("default/train").session == "default"
    assert find_app("vision/train@1").number == 1
    part = find("vision/train/main/0,2")
    assert (part.app.session, part.role, part.replicas) == ("vision", "main", (0, 2))
    assert [app.session for app in find_all("vision/tr*").apps] == ["vision"]


def test_a_target_after_the_project_selects_the_job_of_that_target(record):
    job = launch("train", project="vision")
    record(attempt(job, "succeeded"), attempt(replace(job, key=job.key._replace(target="prod")), "failed"))
    assert find_app("vision.prod/train").session == "vision.prod"
    assert find_app("vision/train", "prod").session == "vision.prod"
    with pytest.raises(UsageError, match="is of target `prod`, not `default`"):
        find_app("vision.prod/train", "default")


def test_a_project_before_the_name_of_a_matrix_selects_its_jobs(record):
    jobs = [launch(f"sweep-{k}", project="vision") for k in "ab"]
    record(*[attempt(replace(job, file="sweep.launcher.yaml"), "succeeded") for job in jobs])
    assert [app.session for app in find_all("vision/sweep").apps] == ["vision", "vision"]


def test_a_role_goes_before_a_job_of_a_project_unless_whole_apps_are_asked_for(record):
    record(attempt(launch("train"), "succeeded"), attempt(launch("main", project="train"), "succeeded"))
    assert (find("train/main").app.session, find("train/main").role) == ("default", "main")
    assert find_app("train/main").session == "train"


def test_an_unknown_job_of_a_known_project_gets_the_nearest_of_that_project(record):
    record(attempt(launch("train", project="vision"), "succeeded"), attempt(launch("trial"), "succeeded"))
    for finding in (find, find_app):
        with pytest.raises(LauncherError, match="project `vision` has no job `trian`") as caught:
            finding("vision/trian")
        assert caught.value.hint == "did you mean `vision/train`?"
    with pytest.raises(LauncherError, match="no job or app is named `visoin`"):
        find("visoin/train")
    with pytest.raises(LauncherError, match="project `visoin` has no job `train`"):
        find_app("visoin/train")
