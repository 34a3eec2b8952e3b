"""A misspelt name is answered with the nearest name, or, if none is near, with all names."""

from pathlib import Path

import pytest

from launcher.jobfile import Environment, compile_files
from tests.unit.jobfile.words import HEAD, compile_text

VAR = "vars: {epochs: {type: int, default: 1}}\n"
MATRIX = "matrix: {rate: [1, 2], seed: [3]}\n"


def role(fields: str, top: str = "") -> str:
    return HEAD + top + f"roles: {{main: {{entrypoint: x, {fields}}}}}\n"


def job(top: str) -> str:
    return HEAD + top + "roles: {main: {entrypoint: x}}\n"


NAMES = {
    # what is misspelt: (a text with `@` in the place of the name, a name that is near, what it is near to,
    # some of the names that are listed for one that is not)
    "a field of the job": (job("@: 1\n"), "timeuot", "timeout", ["scheduler", "roles"]),
    "a field of a role": (role("@: 1"), "num_replica", "num_replicas", ["image", "args"]),
    "a field of a resource": (role("resource: {@: 1}"), "gpus", "gpu", ["cpu", "memory"]),
    "a field of a mount": (
        role("mounts: [{type: bind, src: a, dst: b, @: true}]"),
        "readonly",
        "read_only",
        ["src", "dst"],
    ),
    "a field of a variable": (
        role("args: [$<var.n>]", "vars: {n: {type: int, default: 1, @: 1}}\n"),
        "mim",
        "min",
        ["choices", "from_env"],
    ),
    "a field of lifecycle": (job("lifecycle: {@: hold}\n"), "on_fail", "on_failed", ["on_lost", "protect"]),
    "a field of a trigger": (
        job("lifecycle: {rerun_on: [{files: [x], @: 1}]}\n"),
        "file",
        "files",
        ["files"],
    ),
    "a field of an overlay": (job("targets: {dev: {@: 1}}\n"), "schedular", "scheduler", ["cfg", "roles"]),
    "a field of the defaults": (job("defaults: {role: {@: 1}}\n"), "imgae", "image", ["args", "env"]),
    "a policy": (role("retry_policy: @"), "replicas", "replica", ["application", "role"]),
    "a lifecycle policy": (job("lifecycle: {on_failed: @}\n"), "re-run", "rerun", ["hold"]),
    "the type of a variable": (
        role("args: [$<var.n>]", "vars: {n: {type: @, default: 1}}\n"),
        "integer",
        "int",
        ["bool", "float"],
    ),
    "the type of a mount": (
        role("mounts: [{type: @, src: a, dst: b}]"),
        "volumes",
        "volume",
        ["bind", "device"],
    ),
    "a trigger": (job("lifecycle: {rerun_on: [@]}\n"), "every-aply", "every_apply", ["every_apply"]),
    "a variable": (role("args: [$<var.epochs>, $<@>]", VAR), "var.epoch", "$<var.epochs>", ["epochs"]),
    "a variable without its phase": (
        role("args: [$<@>, $<var.epochs>]", VAR),
        "epochs",
        "$<var.epochs>",
        ["app_id"],
    ),
    "a run macro": (role("args: [$<@>]"), "replica-id", "$<replica_id>", ["app_id", "job.name"]),
    "an axis": (
        role("args: [$<matrix.rate>, $<@>]", MATRIX),
        "matrix.raet",
        "$<matrix.rate>",
        ["rate", "seed"],
    ),
    "an axis in exclude": (
        job("matrix: {rate: [1, 2], seed: [3], exclude: [{@: 1}]}\n"),
        "raet",
        "rate",
        ["rate", "seed"],
    ),
    "a git reference": (role("args: [$<@>]"), "git.shaa", "$<git.sha>", ["git.branch"]),
    "a scheduler": (job("scheduler: @\n"), "local_cdw", "local_cwd", ["local_dir", "queue"]),
    "a run option": (job("scheduler: local_cwd\ncfg: {@: 1}\n"), "grace", "grace_s", ["log_dir"]),
    "a named resource": (role("resource: @"), "gpu.smal", "gpu.small", ["gpu.small"]),
    "a choice": (
        role("args: [$<var.p>]", "vars: {p: {type: str, default: @, choices: [fp32, bf16]}}\n"),
        "fp23",
        "fp32",
        [],
    ),
}


@pytest.mark.parametrize(("text", "near", "meant", "known"), NAMES.values(), ids=list(NAMES))
def test_a_misspelt_name_gets_the_nearest_name_or_all_names(tmp_path, text, near, meant, known):
    [found] = compile_text(tmp_path, text.replace("@", near), placeholders=True).errors
    assert f"`{meant}`" in found.label, found
    [found] = compile_text(tmp_path, text.replace("@", "zzzzzz"), placeholders=True).errors
    assert "did you mean" not in found.label
    for name in known:
        assert name in found.hint, found


def test_a_misspelt_variable_on_the_command_line_gets_the_nearest_variable(tmp_path: Path) -> None:
    text = role("args: [$<var.epochs>]", VAR)
    [found] = compile_text(tmp_path, text, variables={"epoch": "1"}).errors
    assert (found.code, found.label) == ("unknown-variable", "did you mean `epochs`?")
    [found] = compile_text(tmp_path, text, variables={"zzz": "1"}).errors
    assert found.hint == "declared: epochs"


def test_a_misspelt_choice_on_the_command_line_gets_the_nearest_choice(tmp_path: Path) -> None:
    text = role("args: [$<var.p>]", "vars: {p: {type: str, default: fp32, choices: [fp32, bf16]}}\n")
    [found] = compile_text(tmp_path, text, variables={"p": "bf61"}).errors
    assert (found.label, found.hint) == ("did you mean `bf16`?", "choices: bf16, fp32")


def test_a_misspelt_key_of_launcher_toml_gets_the_nearest_key(tmp_path: Path) -> None:
    (tmp_path / "launcher.toml").write_text('projct = "x"\n')
    [found] = compile_text(tmp_path, job("")).errors
    assert (found.file, found.code, found.label) == (
        "launcher.toml",
        "unknown-field",
        "did you mean `project`?",
    )
    (tmp_path / "launcher.toml").write_text("zzz = 1\n")
    [found] = compile_text(tmp_path, job("")).errors
    assert "project" in found.hint


def test_a_misspelt_role_in_a_target_gets_the_nearest_role(tmp_path: Path) -> None:
    text = HEAD + "roles: {trainer: {entrypoint: x}}\ntargets: {dev: {roles: {%s: {num_replicas: 2}}}}\n"
    [found] = compile_text(tmp_path, text % "trianer").errors
    assert (found.code, found.label) == ("missing-field", "did you mean role `trainer`?")
    [found] = compile_text(tmp_path, text % "evaluate").errors
    assert "did you mean" not in found.label


@pytest.mark.parametrize(
    ("typed", "hint"), [("trian", True), ("train", True), ("zzz/train", False), ("q", False)]
)
def test_a_misspelt_file_name_gets_the_nearest_job_file(tmp_path: Path, typed: str, hint: bool) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "train.launcher.yaml").write_text(job(""))
    name = "jobs/" + ("trian.launcher.yaml" if typed == "trian" else typed)
    [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
    assert found.code == "no-such-file"
    assert found.hint == ("did you mean `jobs/train.launcher.yaml`?" if hint else "")


def test_the_suffix_that_all_job_files_share_makes_no_name_near(tmp_path: Path) -> None:
    (tmp_path / "e.launcher.yaml").write_text(job(""))
    (tmp_path / "train.launcher.yaml").write_text(job(""))
    hints = {}
    for name in ("other.launcher.yaml", "trian.launcher.toml", "train.launcher.yml"):
        [found] = compile_files([name], environment=Environment(cwd=str(tmp_path))).errors
        hints[name] = found.hint
    near = "did you mean `train.launcher.yaml`?"
    assert hints == {"other.launcher.yaml": "", "trian.launcher.toml": near, "train.launcher.yml": near}


def test_a_link_to_nothing_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.launcher.yaml").symlink_to("gone.yaml")
    [found] = compile_files([str(tmp_path)]).errors
    assert (found.code, found.message) == ("no-such-file", "the file is a link, and there is no such file")
    assert found.hint == ""
