"""Six different mistakes in one file give six diagnostics, each at its line and column."""

from __future__ import annotations

from pathlib import Path

from tests.unit.jobfile.words import compile_text, labels, places

YAML = """\
version: 1
name: mnist
vars:
  epochs: {type: int, default: 3, min: 1}
roles:
  trainer:
    image: python:3.12
    entrypoint: python
    args: [-m, train, $<var.epoch>]
    num_replica: 2
    max_retries: two
    retry_policy: replicas
    resource: {cpu: 2, memory: 4GiG}
    port_map: {tcp: 99999}
"""

TOML = """\
version = 1
name = "mnist"

[vars]
epochs = {type = "int", default = 3, min = 1}

[roles.trainer]
image = "python:3.12"
entrypoint = "python"
args = ["-m", "train", "$<var.epoch>"]
num_replica = 2
max_retries = "two"
retry_policy = "replicas"
resource = {cpu = 2, memory = "4GiG"}

[roles.trainer.port_map]
tcp = 99999
"""

REMEDIES = [
    "did you mean `$<var.epochs>`?",
    "did you mean `num_replicas`?",
    "",
    "did you mean `replica`?",
    'such as "4GiB"',
    "want at most 65,535",
]


def test_in_yaml(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, YAML)
    assert places(compiled) == [
        "9:23 unknown-reference",
        "10:5 unknown-field",
        "11:18 wrong-type",
        "12:19 unknown-variant",
        "13:32 invalid-value",
        "14:21 out-of-range",
    ]
    assert labels(compiled) == REMEDIES
    assert compiled.launches == ()


def test_in_toml(tmp_path: Path) -> None:
    compiled = compile_text(tmp_path, TOML, name="job.launcher.toml")
    assert places(compiled) == [
        "10:25 unknown-reference",
        "11:1 unknown-field",
        "12:15 wrong-type",
        "13:16 unknown-variant",
        "14:31 invalid-value",
        "17:7 out-of-range",
    ]
    assert labels(compiled) == REMEDIES
    assert compiled.launches == ()


def test_both_say_the_same(tmp_path: Path) -> None:
    yaml = compile_text(tmp_path, YAML)
    toml = compile_text(tmp_path, TOML, name="job.launcher.toml")
    assert [found.message for found in yaml.diagnostics] == [found.message for found in toml.diagnostics]


def test_of_all_files_at_once_in_file_order(tmp_path: Path) -> None:
    from launcher.jobfile import Environment, compile_files

    (tmp_path / "b.launcher.yaml").write_text("version: 1\nname: b\n")
    (tmp_path / "a.launcher.yaml").write_text("version: 1\nname: a\nrole: {}\n")
    compiled = compile_files(
        ["b.launcher.yaml", "missing.yaml", "a.launcher.yaml"], environment=Environment(cwd=str(tmp_path))
    )
    assert [(found.file, found.code) for found in compiled.errors] == [
        ("b.launcher.yaml", "missing-field"),
        ("missing.yaml", "no-such-file"),
        ("a.launcher.yaml", "unknown-field"),
    ]
