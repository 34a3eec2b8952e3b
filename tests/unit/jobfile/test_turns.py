"""How job files and launcher.toml limit what runs: `max_parallel`, `queue`, `[queue]`, `[budget]`."""

from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.errors import JobFileError
from launcher.specs import canonical
from launcher.specs.launch import Budget, Caps, Launch

HEAD = "version: 1\nname: train\n"
ROLES = "roles: {main: {entrypoint: echo, resource: {cpu: 2}}}\n"
MATRIX = "matrix: {seed: [1, 2]}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def launches(text: str, project: str = "", **choices: Any) -> list[Launch]:
    Path("train.launcher.yaml").write_text(text)
    if project:
        Path("launcher.toml").write_text(project)
    return list(launcher.load_jobs("train.launcher.yaml", **choices))


def refusal(text: str, project: str = "", **choices: Any) -> str:
    with pytest.raises(JobFileError) as caught:
        launches(text, project, **choices)
    return "\n".join([str(caught.value), *(f"{d.label} {d.hint}" for d in caught.value.diagnostics)])


def test_a_matrix_has_a_limit() -> None:
    found = launches(f"{HEAD}{MATRIX}max_parallel: 1\n{ROLES}")
    assert [(each.matrix, each.max_parallel) for each in found] == [("train", 1)] * 2
    [plain] = launches(HEAD + ROLES)
    assert (plain.matrix, plain.max_parallel) == ("", None)


def test_a_target_that_takes_the_matrix_away_takes_its_limit_too() -> None:
    target = "targets: {dev: {matrix: null%s}}\n"
    text = f"{HEAD}{MATRIX}max_parallel: 1\n{ROLES}"
    message = refusal(text + target % "", target="dev")
    assert "remove it, or set it to null in `dev`" in message
    [launch] = launches(text + target % ", max_parallel: null", target="dev")
    assert launch.max_parallel is None


@pytest.mark.parametrize(
    ("written", "waits"), [("on", True), ("off", False), ("true", True), ("false", False), ("'off'", False)]
)
def test_a_job_may_opt_out_of_the_queue(written: str, waits: bool) -> None:
    [launch] = launches(f"{HEAD}lifecycle: {{queue: {written}}}\n{ROLES}")
    assert launch.lifecycle.queue is waits


def test_a_project_may_opt_all_of_its_jobs_out_of_the_queue() -> None:
    [launch] = launches(HEAD + ROLES, '[lifecycle]\nqueue = "off"\n')
    assert not launch.lifecycle.queue


def test_a_project_may_cap_cores_memory_gpus_and_parallel_jobs() -> None:
    project = '[queue]\ncpu = 1.5\nmemory = "2GiB"\ngpus = 0\nmax_parallel = 4\n'
    [launch] = launches(HEAD + ROLES, project)
    assert launch.caps == Caps(cpu=1.5, memory_mb=2048, gpus=0, max_parallel=4)
    assert launches(HEAD + ROLES, "[queue]\ncpu = 8\n")[0].caps == Caps(cpu=8)


def test_each_target_has_a_budget() -> None:
    project = "[budget]\ngpu_hours = 100\ncore_hours = 10\nx-why = 1\n[budget.prod]\ngpu_hours = 500\n"
    targets = "targets: {prod: {}}\n"
    assert launches(HEAD + targets + ROLES, project)[0].budget == Budget(100, 10)
    assert launches(HEAD + targets + ROLES, project, target="prod")[0].budget == Budget(500, 10)


def test_limits_do_not_change_the_digest_of_a_job() -> None:
    [plain, _] = launches(HEAD + MATRIX + ROLES)
    limited = f"{HEAD}{MATRIX}max_parallel: 1\nlifecycle: {{queue: off}}\n{ROLES}"
    [one, _] = launches(limited, "[queue]\ncpu = 1\n[budget]\ncore_hours = 1\n")
    assert canonical.digest(canonical.document(one)) == canonical.digest(canonical.document(plain))
