"""The command as users meet it: help, errors, exit codes, signals and broken pipes."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from launcher.cli.completion import KINDS
from launcher.cli.main import COMMANDS, names
from tests import processes
from tests.terminals import OnTerminal


def test_every_command_has_a_readable_help_of_80_columns(scenario):
    for name in names():
        text = scenario.launcher(name, "--help").out
        assert text.startswith(f"Usage: launcher {name}")
        assert "\nExamples:\n" in text
        assert max(map(len, text.splitlines())) <= 80, name


def test_the_overview_names_every_command_and_fits_80_columns(scenario):
    for argv in (["--help"], ["-h"], ["help"]):
        text = scenario.launcher(*argv).out
        assert [name for name in names() if f"  {name} " not in text] == []
        assert max(map(len, text.splitlines())) <= 80
    assert len(COMMANDS) == 3


def test_help_of_a_command_can_be_asked_for_in_two_ways(scenario):
    assert scenario.launcher("help", "plan").out == scenario.launcher("plan", "-h").out


def test_without_a_command_the_overview_is_a_message_and_an_error(scenario):
    done = scenario.launcher(code=64)
    assert done.out == ""
    assert "Usage:" in done.err


@pytest.mark.parametrize(("argv", "printed"), [
    (["aply"], "did you mean `apply`?"),
    (["stop", "train"], "did you mean `launcher cancel APP`?"),
    (["rerun", "train"], "did you mean `launcher apply FILE --rerun JOB`?"),
    (["builtins"], "did you mean `launcher components`?"),
    (["builtins", "--print", "utils.echo"], "did you mean `launcher components`?"),
    (["components", "utils.echo", "--print"], "use --source"),
    (["run", "--wait", "utils.echo"], "leave it out: `launcher run` waits"),
    (["run", "--log", "utils.echo"], "leave it out: `launcher run` waits"),
    (["run", "utils.echo", "--wait"], "leave it out: `launcher run` waits"),
    (["run", "utils.echo", "--parent_run_id", "1"], "go before the component"),
    (["run", "--scheduler_args", "a=1", "utils.echo"], "use --cfg"),
    (["logs", "-t", "train"], "to follow the output, use --follow"),
    (["apply", "train", "--dry-run"], "`launcher plan` shows what apply would do"),
    (["--log_level", "INFO", "list"], "leave it out"),
    (["--quiet", "list"], "options follow the command"),
    (["--verison"], "--verison is not an option"),
    (["plan", "--jsn-into", "x"], "did you mean `--json-into`?"),
    (["plan", "--format", "jsno"], "did you mean `json`?"),
    (["logs"], "APP"),
    (["logs", "a", "b"], "unexpected argument `b`"),
    (["logs", "a", "--regex", "("], "not a regular expression"),
    (["wait", "x", "--timeout", "soon"], "expected a duration"),
    (["apply", "x.json", "y.yaml"], "one saved plan"),
    (["apply", "x.json", "--prune"], "--prune"),
    (["apply", "x.yaml", "--logs"], "--wait"),
    (["run", "utils.ech"], "did you mean `utils.echo`?"),
    (["run", "utils.echo", "--bad"], "there is no argument `--bad`"),
    (["run", "-s", "nope", "utils.echo"], "there are: local_cwd"),
    (["run", "--cfg", "foo=1", "utils.echo"], "there is no option `foo`"),
    (["run", "--cfg", "grace_s=abc", "utils.echo"], "want a number"),
    (["list", "-s", "nope"], "there are: local_cwd"),
    (["runopts", "local_dockr"], "did you mean `local_docker`?"),
    (["components", "utils.ecco"], "did you mean `utils.echo`?"),
    (["logs", "nope://default/x"], "there are: local_cwd"),
    (["explain", "unkown-field"], "did you mean `unknown-field`?"),
])  # fmt: skip
def test_a_wrong_command_line_exits_64_with_the_right_form(scenario, argv, printed):
    done = scenario.launcher(*argv, code=64)
    assert printed in done.err
    assert done.err.startswith("error: ")
    assert done.out == ""


def test_errors_are_one_sentence_and_a_hint(scenario):
    done = scenario.launcher("status", "nothing", code=1)
    hints = ["error: no job or app is named `nothing`", "hint: `launcher list` shows all apps"]
    assert done.err.splitlines() == hints


def test_the_version_is_one_line(scenario):
    assert scenario.launcher("--version").out == scenario.launcher("version").out.splitlines(keepends=True)[0]


@pytest.mark.parametrize("argv", [["list", "--json"], ["--help"], ["--version"], ["version"]])
def test_a_full_disk_is_an_error_that_says_so(scenario, argv):
    with open("/dev/full", "w") as full:
        got = subprocess.run(
            [sys.executable, "-m", "launcher", *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert got.returncode == 1
    assert "No space left on device" in got.stderr
    assert "Traceback" not in got.stderr


def test_closed_outputs_end_without_a_traceback(scenario):
    for redirect in (">&-", "2>&-", ">&- 2>&-", "<&-"):
        command = f"{sys.executable} -m launcher list {redirect}"
        got = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert "Traceback" not in got.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("command", [["wait", "job"], ["logs", "job", "--follow"]], ids=lambda argv: argv[0])
def test_interrupting_wait_or_logs_leaves_the_app_running(scenario, command, number, code):
    gate = scenario.gate()
    scenario.apply(scenario.job(f"echo here; {gate.script}"))
    gate.entered()
    client = scenario.start(*command, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    if command[0] == "logs":
        assert client.stdout.readline() == "here\n"
    else:
        processes.until_it_waits(client.pid)
    client.send_signal(number)
    _, err = client.communicate()
    assert client.returncode == code
    assert "Traceback" not in err
    gate.open()
    scenario.wait("job")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_that_reads_its_input_with_the_error_in_json(scenario, number, code):
    client = scenario.start("plan", "/dev/stdin", "--json", stdin=subprocess.PIPE)
    processes.until_it_waits(client.pid, b"pipe_read")
    client.send_signal(number)
    out, err = client.communicate()
    assert (client.returncode, json.loads(out)["exit"]) == (code, code)
    assert "Traceback" not in err


def completed(script, *words, cwd=None):
    """Return the words that bash offers at the end of the last word."""
    setting = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{' '.join(words)}'"
    ask = 'COMP_POINT=${#COMP_LINE}; _shtab_launcher; printf "%s\\n" "${COMPREPLY[@]}"'
    got = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{setting}; {ask}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return got.stdout.split()


def test_completion_scripts_are_valid_shell(scenario):
    script = scenario.launcher("completion", "bash").out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert completed(script, "launcher", "pl") == ["plan"]
    assert completed(script, "launcher", "plan", "--retry") == ["--retry-failed"]
    assert completed(script, "launcher", "plan", "--format", "j") == ["json"]
    scenario.write("some.launcher.yaml", "")
    assert completed(script, "launcher", "plan", "some", cwd=scenario.folder) == ["some.launcher.yaml"]
    assert "#compdef launcher" in scenario.launcher("completion", "zsh").out


@pytest.mark.slow
def test_completion_offers_the_existing_names(scenario):
    script = f'launcher() {{ "{sys.executable}" -m launcher "$@"; }}\n'
    script += scenario.launcher("completion", "bash").out
    scenario.run_to_end(scenario.job("true", name="train-small"))
    scenario.job("true", name="other", top="targets:\n  # where\n  prod:\n    vars: {}\n  stage: {}")
    scenario.write("x.launcher.toml", "[targets.edge.roles.main]\n")
    scenario.write("elsewhere/launcher.toml", 'project = "elsewhere"\n')

    def offered(*words, folder="."):
        return completed(script, "launcher", *words, cwd=scenario.folder / folder)

    assert offered("runopts", "") == ["local_cwd", "local_dir", "local_docker", "slurm"]
    assert offered("run", "-s", "local_d") == ["local_dir", "local_docker"]
    assert offered("run", "utils.ec") == offered("components", "utils.ec") == ["utils.echo"]
    assert offered("run", "tr") == ["train-small.launcher.yaml"]
    assert offered("explain", "unknown-f") == ["unknown-field"]
    assert offered("logs", "") == offered("wait", "tr") == ["train-small"]
    assert offered("logs", "", folder="elsewhere") == []
    assert offered("cancel", "") == offered("start", "") == []
    assert offered("plan", "--target", "") == ["edge", "prod", "stage"]


HOSTILE_KEYS = """\
version: 1
name: job
targets:
  $(touch ran): {}
  `touch ran`: {}
  "a;b": {}
  prod: {}
"""


def test_completion_runs_nothing_that_a_job_file_names(scenario):
    """`compgen -W` would expand names. Scripts of older versions have it: they get plain names alone."""
    script = scenario.launcher("completion", "bash").out
    ours = f'launcher() {{ "{sys.executable}" -m launcher "$@"; }}\n'
    scenario.write("job.launcher.yaml", HOSTILE_KEYS)
    assert scenario.launcher("completion", "--names", "targets").out.split() == ["prod"]
    everything = """launcher() { printf '%s\\n' '$(touch ran)' '`touch ran`' prod; }\n"""
    for known, offered in ((ours, ["prod"]), (everything, ["$(touch", "ran)", "`touch", "ran`", "prod"])):
        assert completed(known + script, "launcher", "plan", "--target", "", cwd=scenario.folder) == offered
    assert sorted(os.listdir(scenario.folder)) == ["job.launcher.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "name"), [(r"\$", "$(touch ran)"), ("my", "my job"), ("sub/o", "sub/of it's")]
)
def test_bash_inserts_the_name_of_a_file_as_one_quoted_word(scenario, begun, name):
    (scenario.folder / "sub").mkdir()
    file = scenario.write(f"{name}.launcher.yaml", scenario.job("true").read_text())
    scenario.write("rc", scenario.launcher("completion", "bash").out)
    with (scenario.folder / "rc").open("a") as rc:
        rc.write('launcher() { printf "%s" "$2" >got; exit; }\n')
    session = OnTerminal(scenario, ["bash", "--rcfile", "rc", "-i"])
    session.type(f"launcher validate {begun}\t\n".encode())
    session.end(code=None)
    assert (scenario.folder / "got").read_text() == os.path.relpath(file, scenario.folder)
    assert not (scenario.folder / "ran").exists()


def test_completion_prints_no_error_when_the_ledger_is_unreadable(scenario):
    scenario.home.mkdir()
    (scenario.home / "ledger.db").write_text("no database at all, which is longer than a header of one" * 9)
    for kind in KINDS:
        assert scenario.launcher("completion", "--names", kind).err == ""
    assert scenario.launcher("completion", "--names", "nonsense").out.strip() == ""


def test_a_pipe_among_the_job_files_does_not_block_the_names_of_targets(scenario):
    os.mkfifo(scenario.folder / "a.launcher.yaml")
    scenario.write("b.launcher.toml", "version = 1\n[targets.big]\n")
    assert scenario.launcher("completion", "--names", "targets", timeout_s=60).out == "big\n"
