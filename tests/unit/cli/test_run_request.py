"""`launcher run --stdin`: a component, its scheduler and its options as a JSON object."""

import io
import json
import sys

import pytest

from launcher.cli.main import main
from launcher.cli.run_component import EXAMPLE, read_request
from launcher.errors import UsageError

ECHO = {"component_name": "utils.echo", "scheduler": "local_cwd", "scheduler_args": {}}


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    """A function that runs `launcher run --stdin WORDS` in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def stdin(given, *words):
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="latin-1"))
        code = main(["run", "--stdin", *words])
        return code, *capfd.readouterr()

    return stdin


def test_a_component_runs_with_the_arguments_of_the_object(run):
    asked = {**ECHO, "component_args": {"msg": "hello", "num_replicas": 1}, "wait": True}
    code, out, _ = run(asked)
    assert (code, out) == (0, "hello\n")


def test_component_args_str_wins_over_component_args_and_both_forms_of_options_are_taken(run):
    asked = {
        **ECHO,
        "component_args": {"msg": "value"},
        "component_args_str": ["--msg", "word"],
        "dryrun": True,
    }
    asked["scheduler_args"], asked["scheduler_cfg"] = {"grace_s": 3.0}, {"timeout_s": 60}
    code, out, _ = run(asked)
    assert code == 0
    assert "command   echo word" in out
    assert ("timeout   60 s" in out, "grace     3 s" in out) == (True, True)


def test_the_example_in_error_messages_is_a_valid_request():
    assert read_request(EXAMPLE).component_name == "utils.echo"
    assert read_request(json.dumps({**ECHO, "workspace": None})).workspace is None


@pytest.mark.parametrize(("given", "printed", "hint"), [
    ("nonsense", "not JSON", "such as"),
    ("[]", "not a JSON object", "such as"),
    ({"scheduler": "local_cwd"}, "`component_name` and `scheduler_args`", "such as"),
    ({**ECHO, "dry_run": True}, "unknown field `dry_run`", "did you mean `dryrun`?"),
    ({**ECHO, "dryrun": "yes"}, '`dryrun` must be true or false, got "yes"', None),
    ({**ECHO, "component_args_str": [1]}, "`component_args_str` must be a list of texts, got [1]", None),
    ("[" * 100_000, "nested too deep", "such as"),
    (b"\xff{}", "not JSON", "such as"),
    ({**ECHO, "scheduler": None}, "`scheduler` must be text, got null", None),
])  # fmt: skip
def test_a_wrong_request_object_is_refused(given, printed, hint):
    with pytest.raises(UsageError) as caught:
        read_request(json.dumps(given) if isinstance(given, dict) else given)
    assert printed in str(caught.value)
    assert (caught.value.hint or "").startswith(hint or "")


def test_the_object_is_utf_8_whatever_the_locale(run):
    asked = json.dumps({**ECHO, "component_args": {"msg": "Grüße"}}, ensure_ascii=False)
    for encoding in ("utf-8", "utf-8-sig"):
        assert run(asked.encode(encoding))[:2] == (0, "Grüße\n")


def test_a_closed_standard_input_is_refused(monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", None)  # as Python finds it after `<&-`
    assert main(["run", "--stdin"]) == 64
    assert "it is closed" in capfd.readouterr().err


@pytest.mark.parametrize("asked", [
    {"component_args": {"msg": "\ud800"}}, {"parent_run_id": "a\0"},
    {"scheduler_args": {"log_dir": "a\0"}}, {"scheduler_args": {"log_dir": "\ud800"}},
])  # fmt: skip
def test_text_that_no_process_can_hold_is_refused(run, asked):
    code, _, printed = run({**ECHO, **asked})
    assert code in (1, 6, 64)
    assert "NUL character" in printed or "lone surrogate" in printed


def test_other_options_and_wrong_run_options_are_refused(run):
    code, _, printed = run(ECHO, "--dryrun")
    assert (code, "--dryrun cannot be combined with --stdin" in printed) == (64, True)
    code, _, printed = run(ECHO, "train.launcher.yaml")
    assert (code, "train.launcher.yaml cannot be combined with --stdin" in printed) == (64, True)
    code, _, printed = run({**ECHO, "scheduler_args": {"grace": 1}})
    assert (code, "did you mean `grace_s`?" in printed) == (64, True)


def test_a_run_of_nothing_is_refused(capfd):
    assert main(["run"]) == 64
    assert "needs FILE, COMPONENT or --stdin" in capfd.readouterr().err
