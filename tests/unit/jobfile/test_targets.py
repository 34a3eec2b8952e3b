"""Targets and defaults: what merges, replaces and is removed; every target is checked, each problem once."""

from pathlib import Path

import pytest

from launcher.specs import JobKey, digest, document
from tests.corpus.test_messages import FOLDER, Case, read
from tests.unit.jobfile.words import HEAD, compile_text, labels, launch, lines, places

BASE = HEAD + (
    "vars: {n: {type: int, default: 3}, e: {type: str, from_env: E, default: d}}\n"
    "cfg: {grace_s: 5}\n"
    "roles:\n"
    "  b: {entrypoint: run, args: [$<var.n>, $<var.e>, $<target.name>], env: {A: 1, B: 2}, num_replicas: 4}\n"
    "  a: {entrypoint: other, image: one}\n"
    "timeout: 2h\n"
)


def overlaid(folder: Path, overlay: str, **options: str) -> str:
    """Return the job in the target `dev`, whose overlay is `overlay`, as one line."""
    made = launch(folder, BASE + f"targets: {{dev: {overlay}}}\n", target="dev")
    roles = [
        f"{role.name}:{role.entrypoint}{role.args[:1]}{role.env}{role.num_replicas}"
        for role in made.app.roles
    ]
    return f"{' '.join(roles)} {made.scheduler} {dict(made.cfg)} {made.timeout_s}"


UNTOUCHED_B = "b:run['3']{'A': '1', 'B': '2'}4"
UNTOUCHED_A = "a:other[]{}1"


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ("{}", f"{UNTOUCHED_B} {UNTOUCHED_A} local_cwd {{'grace_s': 5}} 7200"),
        (
            "{roles: {b: {num_replicas: 1}}}",
            f"b:run['3']{{'A': '1', 'B': '2'}}1 {UNTOUCHED_A} local_cwd {{'grace_s': 5}} 7200",
        ),
        (
            "{roles: {a: {entrypoint: new}}}",
            f"{UNTOUCHED_B} a:new[]{{}}1 local_cwd {{'grace_s': 5}} 7200",
        ),
        (
            "{roles: {b: {env: {B: 3, C: 4}, args: [x]}}}",
            f"b:run['x']{{'A': '1', 'B': '3', 'C': '4'}}4 {UNTOUCHED_A} local_cwd {{'grace_s': 5}} 7200",
        ),
        (
            "{roles: {b: {env: {A: null}}, a: null}, timeout: null}",
            "b:run['3']{'B': '2'}4 local_cwd {'grace_s': 5} None",
        ),
        (
            "{roles: {z: {entrypoint: last}}}",
            f"{UNTOUCHED_B} {UNTOUCHED_A} z:last[]{{}}1 local_cwd {{'grace_s': 5}} 7200",
        ),
        (
            "{cfg: {log_dir: l}}",
            f"{UNTOUCHED_B} {UNTOUCHED_A} local_cwd {{'grace_s': 5, 'log_dir': 'l'}} 7200",
        ),
        ("{cfg: {grace_s: null}}", f"{UNTOUCHED_B} {UNTOUCHED_A} local_cwd {{}} 7200"),
        ("{cfg: null}", f"{UNTOUCHED_B} {UNTOUCHED_A} local_cwd {{}} 7200"),
        ("{scheduler: local_dir}", f"{UNTOUCHED_B} {UNTOUCHED_A} local_dir {{}} 7200"),
        ("{scheduler: local_cwd}", f"{UNTOUCHED_B} {UNTOUCHED_A} local_cwd {{'grace_s': 5}} 7200"),
        (
            "{scheduler: local_dir, cfg: {log_dir: l}}",
            f"{UNTOUCHED_B} {UNTOUCHED_A} local_dir {{'log_dir': 'l'}} 7200",
        ),
    ],
)
def test_maps_merge_all_else_replaces_and_null_removes(tmp_path: Path, overlay: str, expected: str) -> None:
    assert overlaid(tmp_path, overlay) == expected


def test_the_target_is_part_of_the_identity_and_not_of_the_digest(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}}\n"
    plain, dev = launch(tmp_path, text), launch(tmp_path, text, target="dev")
    assert (plain.key, dev.key) == (JobKey("default", "default", "job"), JobKey("default", "dev", "job"))
    assert digest(document(plain)) == digest(document(dev))


def test_an_overlay_may_stand_behind_an_anchor_and_a_merge_key(tmp_path: Path) -> None:
    text = HEAD + "x-small: &small {num_replicas: 1}\nroles: {a: {entrypoint: x, num_replicas: 9}}\n"
    text += "targets: {dev: {roles: {a: {<<: *small}}}, ci: {roles: {a: *small}}}\n"
    for target in ("dev", "ci"):
        assert launch(tmp_path, text, target=target).app.roles[0].num_replicas == 1


# Variables


def first_args(folder: Path, overlay: str, **environ: str) -> list[str]:
    text = BASE + f"targets: {{dev: {overlay}}}\n"
    return launch(folder, text, target="dev", environ=environ).app.roles[0].args


def test_the_default_of_a_target_wins_over_the_environment(tmp_path: Path) -> None:
    assert first_args(tmp_path, "{}", E="env") == ["3", "env", "dev"]
    assert first_args(tmp_path, "{vars: {e: {default: t}, n: {default: 07}}}", E="env") == ["07", "t", "dev"]
    assert first_args(tmp_path, "{vars: {e: {default: null}}}", E="env") == ["3", "env", "dev"]


MISTAKES = [case for _, case in read(FOLDER / "targets.txt") if case is not None and "ok: {}" in case.text]


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_an_overlay_is_found_there_whatever_target_was_asked_for(
    tmp_path: Path, case: Case
) -> None:
    found = {
        target: places(compile_text(tmp_path, case.text, target=target)) for target in (None, "ok", "dev")
    }
    assert found["ok"] == found["dev"] == found[None] != []


def test_a_value_that_only_another_target_lacks_is_not_missed(tmp_path: Path) -> None:
    text = HEAD + "vars: {v: {type: str}}\nroles: {a: {entrypoint: x, args: [$<var.v>]}}\n"
    text += "targets: {dev: {vars: {v: {default: here}}}, prod: {}}\n"
    assert launch(tmp_path, text, target="dev").app.roles[0].args == ["here"]
    assert places(compile_text(tmp_path, text, target="prod")) == ["3:8 unset-variable"]


def test_a_base_that_is_complete_only_under_a_target_is_valid_under_that_target(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {image: x}}\ntargets: {dev: {roles: {a: {entrypoint: run}}}}\n"
    assert launch(tmp_path, text, target="dev").app.roles[0].entrypoint == "run"
    assert places(compile_text(tmp_path, text)) == ["3:9 missing-field"]


# Which target


@pytest.mark.parametrize(
    ("asked", "label"), [("dve", "did you mean `dev`?"), ("elsewhere", ""), ("Dev", "did you mean `dev`?")]
)
def test_an_unknown_target_is_an_error_with_the_nearest_name(tmp_path, asked, label):
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}, prod: {}}\n"
    compiled = compile_text(tmp_path, text, target=asked)
    assert lines(compiled) == [f"4:1 unknown-target the file declares no target `{asked}`"]
    assert labels(compiled) == [label]
    assert compiled.diagnostics[0].hint == "targets: dev, prod"


def test_the_target_default_is_the_job_without_an_overlay(tmp_path: Path) -> None:
    text = HEAD + "roles: {a: {entrypoint: x}}\ntargets: {dev: {}}\n"
    assert launch(tmp_path, text, target="default") == launch(tmp_path, text)
    compiled = compile_text(tmp_path, text.replace("dev", "default"))
    assert places(compiled) == ["4:11 invalid-name"]


# Defaults


def roles_of(folder: Path, text: str, target: str | None = None) -> list[str]:
    made = launch(folder, HEAD + text, target=target).app
    return [
        f"{role.name} {role.entrypoint} {role.image} {role.env} {role.num_replicas}" for role in made.roles
    ]


DEFAULTS = "defaults: {role: {image: i, env: {A: 1, B: 2}, num_replicas: 2}}\n"


def test_defaults_fill_in_the_fields_that_roles_leave_out(tmp_path: Path) -> None:
    text = DEFAULTS + "roles:\n  a: {entrypoint: x}\n  b: {entrypoint: y, image: own, env: {B: 3}}\n"
    assert roles_of(tmp_path, text) == [
        "a x i {'A': '1', 'B': '2'} 2",
        "b y own {'A': '1', 'B': '3'} 2",
    ]


def test_null_in_a_role_takes_a_default_away(tmp_path: Path) -> None:
    text = DEFAULTS + "roles: {a: {entrypoint: x, image: null, env: {A: null}, num_replicas: null}}\n"
    assert roles_of(tmp_path, text) == ["a x  {'B': '2'} 1"]


def test_defaults_may_bring_what_a_role_must_have(tmp_path: Path) -> None:
    assert roles_of(tmp_path, "defaults: {role: {entrypoint: e}}\nroles: {a: {image: i}}\n") == ["a e i {} 1"]


def test_defaults_hold_for_the_roles_of_targets_and_targets_change_defaults(tmp_path: Path) -> None:
    text = DEFAULTS + "roles: {a: {entrypoint: x}}\ntargets:\n"
    text += "  more: {roles: {b: {entrypoint: y}}}\n  other: {defaults: {role: {image: j, env: {A: null}}}}\n"
    text += "  none: {defaults: null}\n  less: {roles: {a: {image: null}}}\n"
    assert roles_of(tmp_path, text, "more")[1] == "b y i {'A': '1', 'B': '2'} 2"
    assert roles_of(tmp_path, text, "other") == ["a x j {'B': '2'} 2"]
    assert roles_of(tmp_path, text, "none") == ["a x  {} 1"]
    assert roles_of(tmp_path, text, "less") == ["a x  {'A': '1', 'B': '2'} 2"]
