"""The batch script, run by bash: a python3 of the test records the call that the script ends with."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.schedulers.slurm.request import SlurmRequest, array_script
from tests.unit.slurm.requests import request_of, role, sbatch_lines

HOSTILE = [
    "it's",
    'say "x"',
    "$(touch made)",
    "`touch made`",
    "a\nb",
    "\r",
    "; touch made",
    "*",
    "~",
    "!!",
    "\\",
    "ü\u2028",
    "\x1b[31m",
    "# x",
    "${HOME}",
]

DUMP = """#!{python}
import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open(os.environ["DUMP"], "w"))
"""


def run(request: SlurmRequest, tmp_path: Path, **more: str) -> tuple[int, list[str], dict[str, str], str]:
    """Run the script; return its exit code, arguments and environment of its last python3, and stderr."""
    folder, home = tmp_path / "bin", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    python = folder / "python3"
    python.write_text(DUMP.format(python=sys.executable))
    python.chmod(0o755)
    script = tmp_path / "script.sh"
    script.write_text(request.script)
    subprocess.run(["bash", "-n", script], check=True)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(home), "DUMP": str(tmp_path / "dump"), **more}
    done = subprocess.run(["bash", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert not (tmp_path / "made").exists()
    if not (tmp_path / "dump").exists():
        return done.returncode, [], {}, done.stderr
    argv, seen = json.loads((tmp_path / "dump").read_text())
    return done.returncode, argv, seen, done.stderr


def test_the_script_ends_in_the_conductor_with_the_directory_of_the_app(tmp_path):
    code, argv, env, _ = run(request_of(role()), tmp_path)
    where = f"{tmp_path}/home/.launcher/slurm/apps/a-1-x"
    assert (code, argv, env["LAUNCHER_APP_DIR"]) == (
        0,
        ["-I", "-S", f"{tmp_path}/home/.launcher/slurm/programs/p.zip", "conduct", where],
        where,
    )


@pytest.mark.parametrize("job_dir", ["/my jobs/it's", '/a"b', "/a`touch made`", "/back\\slash", "~/x y", "/"])
def test_the_directory_may_have_any_name(tmp_path, job_dir):
    _, [*_, where], _, _ = run(request_of(role(), job_dir=job_dir), tmp_path)
    assert where == f"{job_dir.rstrip('/')}/apps/a-1-x".replace("~", f"{tmp_path}/home", 1)


def test_the_task_of_an_array_finds_its_app(tmp_path):
    where = array_in(tmp_path, "/x y", "a-1-x g1", "b-1-x g2", "c-1-x g3")
    request = request_of(role(), job_dir=f"{tmp_path}/x y", setup=["pwd >seen"])
    code, argv, env, errors = run(task_of(request), tmp_path, SLURM_ARRAY_TASK_ID="1")
    assert (code, errors) == (0, "")
    assert argv[2:] == [f"{tmp_path}/x y/programs/p.zip", "conduct", f"{where}/apps/b-1-x"]
    assert env["LAUNCHER_ARRAY_DIR"] == f"{where}/arrays/q7"
    assert (where / "apps/b-1-x/seen").read_text() == f"{where}/apps/b-1-x\n"


@pytest.mark.parametrize("change", ["anew", "gone"])
def test_the_task_of_an_app_that_was_removed_runs_nothing(tmp_path, change):
    where = array_in(tmp_path, "/j", "a-1-x g1", "b-1-x g2")
    (where / "apps/b-1-x/id").write_text("g3") if change == "anew" else shutil.rmtree(where / "apps/b-1-x")
    request = request_of(role(), job_dir=f"{tmp_path}/j", setup=["touch made"])
    assert run(task_of(request), tmp_path, SLURM_ARRAY_TASK_ID="1")[:2] == (0, [])


def task_of(request: SlurmRequest) -> SlurmRequest:
    """Return the request with the script of an array of apps that are like it."""
    return replace(request, script=array_script(request, "q7", "p.zip"))


def array_in(folder: Path, job_dir: str, *tasks: str) -> Path:
    """Make a `job_dir` with the folders of an array and of its apps; return its path."""
    where = Path(f"{folder}{job_dir}")
    (where / "arrays/q7").mkdir(parents=True)
    (where / "arrays/q7/tasks").write_text("".join(f"{each}\n" for each in tasks))
    for app_id, generation in (each.split() for each in tasks):
        (where / "apps" / app_id).mkdir(parents=True)
        (where / "apps" / app_id / "id").write_text(generation)
    return where


def test_hostile_commands_appear_only_in_comments(tmp_path):
    hostile = role("r: $(touch made)", entrypoint="`touch made`", args=HOSTILE)
    request = request_of(hostile)
    comments = [line for line in request.script.splitlines() if line.startswith("# r: ")]
    assert len(comments) == 1
    assert comments[0].isprintable()
    assert run(request, tmp_path)[0] == 0


def test_a_setup_line_is_no_place_for_macros():
    assert 'echo "$<app_id> ${app_id}"' in request_of(role(), setup=['echo "$<app_id> ${app_id}"']).script


@pytest.mark.parametrize(("setup", "code", "given"), [
    (["module() {", "  ( exit 3 )", "}", "module load cuda", "touch made"], 0, ["3"]),
    *(([line], 0, []) for line in
        ("X=$(false; echo x)", "if false; then true; fi", "false || true", "( false; true ) || true")),
    (["sh -c 'kill -TERM $$'"], 143, None),
], ids=["a function that fails", *["no failure for bash"] * 4, "a signal"])  # fmt: skip
def test_a_setup_line_ends_the_job_when_bash_takes_it_for_a_failure(tmp_path, setup, code, given):
    found, argv, _, _ = run(request_of(role(), setup=setup), tmp_path)
    assert (found, argv[5:6] if argv else None) == (code, given)


@pytest.mark.parametrize("setup", [[], ["true"]])
def test_the_signal_before_the_time_limit_does_not_end_the_script_before_its_first_line(tmp_path, setup):
    """bash reads the file BASH_ENV of a site before the script, and Slurm may send its signal meanwhile."""
    request = request_of(role(), setup=setup)
    [signal] = [line.removeprefix("signal=") for line in sbatch_lines(request) if line.startswith("signal=")]
    early = tmp_path / "site.sh"
    early.write_text(f"kill -{signal.removeprefix('B:').partition('@')[0]} $$\n")
    code, argv, _, _ = run(request, tmp_path, BASH_ENV=str(early))
    assert (code, argv[3:4]) == (0, ["conduct"])


def test_setup_lines_come_after_a_command_so_that_sbatch_reads_none_of_them():
    lines = request_of(role(), setup=["echo x"]).script.splitlines()
    first_command = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    assert first_command < lines.index("echo x")
    assert not any(line.startswith("#SBATCH") for line in lines[first_command:])


def test_values_of_sbatch_options_are_text():
    cfg: dict[str, Any] = {"comment": "${app_id} $<app_id> $HOME", "sbatch": {"reservation": "$<role>"}}
    lines = sbatch_lines(request_of(role(), **cfg))
    assert 'comment="${app_id} $<app_id> $HOME"' in lines
    assert "reservation=$<role>" in lines
