"""Wrong input, full disks, lost state: one clear message, the documented exit code, nothing half done."""

import os
import resource
import shlex
import shutil
import sqlite3
import subprocess
import sys

import pytest

from tests.lanes import sampled

AS_ORDINARY_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
"""Root reads and writes whatever the mode says; without these two capabilities it does not."""


def ordinary(scenario, *argv, code):
    """Run `launcher ARGV` such that file modes bind it, even when the tests run as root."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("running as root, and there is no `setpriv` to put that down")
        prefix = AS_ORDINARY_USER
    process = scenario.spawn([*prefix, sys.executable, "-m", "launcher", *map(str, argv)])
    out, err = process.communicate()
    assert process.returncode == code, out + err
    assert "Traceback" not in err
    return err


def one_message(err):
    """Return the error line of stderr. Fails when there is not exactly one."""
    [line] = [line for line in err.splitlines() if line.startswith("error")]
    return line


def test_an_apply_of_a_missing_executable_fails_naming_role_and_argv(scenario):
    file = scenario.write(
        "job.launcher.yaml",
        "version: 1\nname: job\nroles: {trainer: {entrypoint: no-such-program, args: [--fast, '7']}}\n",
    )
    done = scenario.apply(file, code=1)
    assert "trainer" in done.err
    assert "no-such-program --fast 7" in done.err
    assert scenario.attempts() == []
    assert scenario.apps() == []
    assert scenario.supervisors() == {}
    assert scenario.actions(file) == {"job": "create"}


def test_a_replacement_that_cannot_start_leaves_the_old_attempt_running(scenario):
    file, gate = scenario.running()
    before = scenario.supervisors()
    scenario.write("job.launcher.yaml", "version: 1\nname: job\nroles: {main: {entrypoint: ./nowhere}}\n")
    scenario.apply(file, "--allow-destructive", code=1)
    assert scenario.supervisors() == before
    gate.open()
    scenario.wait("job")


@pytest.mark.slow
def test_an_unreadable_image_directory_is_one_clear_error(scenario):
    image = scenario.folder / "image"
    (image / "bin").mkdir(parents=True)
    image.chmod(0)
    file = scenario.write(
        "job.launcher.yaml",
        "version: 1\nname: job\nscheduler: local_dir\n"
        f"roles: {{main: {{image: {image}, entrypoint: bin/run}}}}\n",
    )
    try:
        assert str(image) in one_message(ordinary(scenario, "apply", file, "--yes", code=1))
    finally:
        image.chmod(0o700)
    assert scenario.apps() == []


def test_a_read_only_state_folder_can_be_read_but_not_applied_to(scenario):
    scenario.run_to_end(scenario.job("true", name="before"))
    folders = [scenario.home, *(path for path in scenario.home.rglob("*") if path.is_dir())]
    paths = [*folders, *(path for path in scenario.home.rglob("*") if path.is_file())]
    modes = [(path, path.stat().st_mode) for path in paths]
    for path, mode in modes:
        path.chmod(mode & ~0o222)
    try:
        ordinary(scenario, "list", code=0)
        ordinary(scenario, "logs", "before", code=0)
        ordinary(scenario, "plan", scenario.job("true"), code=0)
        one_message(ordinary(scenario, "apply", scenario.job("true"), "--yes", code=1))
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert scenario.attempts() == []
    assert scenario.supervisors() == {}


@pytest.mark.parametrize("mode", [0o300, 0o500, 0o600])
def test_a_state_folder_without_a_right_of_its_owner_is_one_clear_error(scenario, mode):
    scenario.home.mkdir(exist_ok=True)
    scenario.home.chmod(mode)
    try:
        err = ordinary(scenario, "apply", scenario.job("true"), "--yes", code=1)
        assert one_message(err).endswith("ledger.db: Permission denied")
    finally:
        scenario.home.chmod(0o700)
    assert list(scenario.home.iterdir()) == []


def test_a_path_that_only_the_locale_makes_unreadable_gets_the_setting_that_reads_it(scenario):
    file = scenario.job("true", name="train").rename(scenario.folder / "größe.launcher.yaml")
    ascii = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = scenario.launcher("plan", file, env=ascii, code=6)
    assert "set PYTHONUTF8=1" in done.err
    scenario.launcher("plan", file, env={**ascii, "PYTHONUTF8": "1"})
    home = {**ascii, "LAUNCHER_HOME": f"{scenario.home}-größe"}
    assert "set PYTHONUTF8=1" in scenario.launcher("apply", file, "--yes", env=home, code=6).err


@pytest.mark.skipif(sys.platform != "linux", reason="paths are UTF-8 there")
def test_a_path_that_cannot_be_recorded_is_refused_before_anything_is_stopped(scenario):
    """Without a repository, and so without an origin, an attempt records where its file is."""
    odd = os.fsdecode(b"\xff")
    (scenario.folder / odd).mkdir()
    file = scenario.job("true")
    shutil.copy(file, scenario.folder / odd)
    shutil.copy(file, scenario.folder / f"{odd}.launcher.yaml")
    for path in (scenario.folder / odd, scenario.folder / f"{odd}.launcher.yaml"):
        assert "its path is no UTF-8 text" in scenario.launcher("plan", path, code=6).err
    elsewhere = {**os.environ, "LAUNCHER_HOME": f"{scenario.home}{odd}"}
    done = scenario.launcher("apply", file, "--yes", env=elsewhere, code=1)
    assert one_message(done.err).endswith("its path is no UTF-8 text")
    assert not os.path.exists(elsewhere["LAUNCHER_HOME"])
    subprocess.run(["git", "init", "-q"], cwd=scenario.folder / odd, check=True)
    subprocess.run(["git", "remote", "add", "origin", "https://h/x"], cwd=scenario.folder / odd, check=True)
    scenario.run_to_end(scenario.folder / odd / file.name)  # only `h/x` is recorded


@pytest.mark.parametrize("mask", [0o777, 0o200])
def test_a_umask_that_takes_rights_of_the_owner_is_refused_by_name(scenario, mask):
    file = scenario.job("true")
    before = os.umask(mask)
    try:
        err = ordinary(scenario, "apply", file, "--yes", code=1)
    finally:
        os.umask(before)
    assert f"the umask {mask:04o}" in one_message(err)
    assert "hint: umask 022" in err
    assert not scenario.home.exists() or list(scenario.home.iterdir()) == []


def on_small_disk(scenario, size, script, *args):
    """Return the words that a shell script prints where the state folder is a disk of that size.

    The script has `launcher` as a function, and `fill`, which leaves no room on the disk.
    """
    head = f"""
mount -t tmpfs -o mode=700,size={size} none "$LAUNCHER_HOME" || exit 99
launcher() {{ {sys.executable} -m launcher "$@" >&2; }}
fill() {{ cat /dev/zero >"$LAUNCHER_HOME/filler" 2>/dev/null; }}
"""
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    scenario.home.mkdir()
    argv = [*unshare, "sh", "-c", head + script, "sh", *map(str, args)]
    got = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    if not got.stdout.strip():
        pytest.skip(f"no small file system to be had here: {got.stderr.strip()}")
    assert "Traceback" not in got.stderr
    return got.stdout.split(), got.stderr


FULL_DISK = """
fill
launcher apply "$1" --yes --wait; echo "$?"
rm "$LAUNCHER_HOME/filler"
mount -o remount,size=64m "$LAUNCHER_HOME"
launcher apply "$1" --yes --wait; echo "$?"
"""


def test_a_full_state_folder_is_one_clear_error_and_leaves_no_half_made_app(scenario):
    runs = scenario.folder / "runs"
    codes, err = on_small_disk(scenario, "256k", FULL_DISK, scenario.job(f"echo run >>{runs}"))
    assert codes == ["1", "0"], err
    one_message(err)
    assert runs.read_text() == "run\n"


GC_ON_A_FULL_DISK = """
launcher apply "$1" --yes --wait
fill
launcher gc $2 --older-than 0; echo "$?"
launcher gc $2 --older-than 0; echo "$?"
launcher apply "$1" --yes --wait; echo "$?"
"""


@pytest.mark.parametrize("option", ["", "--logs"])
def test_gc_frees_a_full_disk_and_keeps_the_outcomes(scenario, option):
    runs = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{runs}; head -c 300000 /dev/zero")
    codes, err = on_small_disk(scenario, "1m", GC_ON_A_FULL_DISK, file, option)
    assert codes == ["0", "0", "0"], err
    assert err.count("\n1 app removed\n" if not option else "\nlogs of 1 app removed\n") == 1
    assert runs.read_text() == "run\n"


FULL_DURING_A_RUN = """
launcher apply "$1" --yes
fill
touch "$2"
launcher wait job; echo "$?"
cat "$LAUNCHER_HOME"/local/apps/*/events.jsonl | grep -c -e '"e":"exit"' -e '"e":"ended"'
"""


def test_an_app_whose_disk_fills_up_while_it_runs_records_its_end(scenario):
    gate = scenario.folder / "gate"
    file = scenario.job(f"until [ -e {gate} ]; do sleep 0.05; done; exit 3", replicas=40)
    found, err = on_small_disk(scenario, "4m", FULL_DURING_A_RUN, file, gate)
    assert found == ["5", "41"], err


def test_a_job_that_succeeded_does_not_run_again_when_the_ledger_is_damaged(scenario):
    runs = scenario.folder / "runs"
    file = scenario.job(f"echo run >>{runs}")
    scenario.run_to_end(file)
    for path in scenario.home.glob("ledger.db*"):
        path.unlink()
    damaged = "this is not a database at all, whatever its name says" * 40
    (scenario.home / "ledger.db").write_text(damaged)
    assert "SUCCEEDED" in (listed := scenario.launcher("list")).out
    assert listed.err.count("warning: ") == 1
    assert f"{scenario.home}/ledger.db is damaged" in listed.err
    assert scenario.actions(file) == {"job": "keep"}
    applied = scenario.launcher("apply", file, "--yes")
    assert f"it was moved to {scenario.home}/ledger.db.damaged" in applied.err
    assert (scenario.home / "ledger.db.damaged").read_text() == damaged
    assert runs.read_text() == "run\n"
    assert scenario.launcher("list").err == ""
    assert [attempt.state for attempt in scenario.attempts("job")] == ["succeeded"]


@pytest.mark.slow
def test_a_plan_that_cannot_be_shown_is_not_applied(scenario):
    file = scenario.job("true")
    with open("/dev/full", "w") as full:
        done = scenario.spawn(
            [sys.executable, "-m", "launcher", "apply", str(file), "--yes", "--wait"], stdout=full
        )
        _, err = done.communicate()
    assert done.returncode == 1
    assert "cannot write the output" in err
    assert scenario.apps() == []


@pytest.mark.slow
@pytest.mark.parametrize("argv", sampled([["plan"], ["validate"], ["apply", "--yes", "."]], ["plan"]))
def test_a_removed_current_directory_is_one_clear_error(scenario, argv):
    folder = scenario.folder / "gone"
    folder.mkdir()
    command = f"rmdir {folder}; exec {sys.executable} -m launcher {shlex.join(argv)}"
    done = scenario.spawn(["sh", "-c", command], cwd=folder)
    _, err = done.communicate()
    assert done.returncode == 1, err
    assert err.startswith("error: the current directory no longer exists\nhint: ")


@pytest.mark.slow
def test_lost_log_lines_are_reported_with_the_end_and_in_the_log(scenario):
    def full():  # for files beyond a size, as a full disk is for all of them
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    file = scenario.job("head -c 1000000 /dev/zero | tr '\\\\0' x; true")
    for words in (["apply", file, "--yes", "--wait"], ["run", file]):
        assert scenario.launcher(*words, preexec_fn=full).err.count("log output was lost") == 1
    for words in (["wait", "job"], ["logs", "job"], ["logs", "job", "--follow"]):
        done = scenario.launcher(*words)
        assert done.err.count("warning: ") == done.err.count("log output was lost") == 1


def test_an_apply_reports_a_running_attempt_whose_start_the_ledger_could_not_record(scenario):
    scenario.run_to_end(scenario.job("true", name="other"))
    gate = scenario.gate()
    with sqlite3.connect(scenario.home / "ledger.db") as store:
        store.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON attempts WHEN new.state = 'running' "
            "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        )
    store.close()
    done = scenario.apply(scenario.job(gate.script))
    assert "RUNNING" in done.out
    assert "warning: job: it runs, and its row in the ledger is incomplete" in done.err
    assert "disk is full" in done.err
    gate.entered()
    gate.open()
    scenario.wait("job")
    assert [attempt.state for attempt in scenario.attempts()] == ["succeeded"]


RERUN_LOST = "lifecycle: {on_lost: rerun}\n"


def test_a_running_job_is_not_started_again_when_the_ledger_is_gone(scenario):
    job, gate = scenario.running(top=RERUN_LOST)
    for path in scenario.home.glob("ledger.db*"):
        path.unlink()
    assert scenario.actions(job) == {"job": "keep"}
    assert "job-1-" in scenario.launcher("list").out
    scenario.apply(job)
    assert len(scenario.attempts("job")) == 1
    gate.open()
    scenario.run_to_end(job)
    assert [attempt.state for attempt in scenario.attempts("job")] == ["succeeded"]


def test_an_attempt_whose_rows_are_lost_is_found_by_its_folder(scenario):
    job, gate = scenario.running(top=RERUN_LOST)
    (app_id,) = (attempt.app_id for attempt in scenario.attempts("job"))
    for table in ("attempts", "apps"):
        rows = sqlite3.connect(scenario.home / "ledger.db")
        rows.execute(f"DELETE FROM {table}")
        rows.commit()
        rows.close()
    scenario.apply(job)
    gate.open()
    scenario.run_to_end(job)
    assert [(each.app_id, each.state) for each in scenario.attempts("job")] == [(app_id, "succeeded")]


@pytest.mark.slow
def test_an_attempt_whose_row_alone_is_lost_is_not_called_lost(scenario):
    """The number of the attempt does not help: the folders of the attempts before it are gone."""
    gate = scenario.gate()
    job = scenario.job(f"[ -e warm ] || exit 0; {gate.script}", top=RERUN_LOST)
    scenario.run_to_end(job)
    scenario.launcher("gc", "--older-than", "0")
    scenario.write("warm", "")
    scenario.apply(job, "--rerun", "job")
    gate.entered()
    rows = sqlite3.connect(scenario.home / "ledger.db")
    rows.execute("DELETE FROM apps")
    rows.commit()
    rows.close()
    assert scenario.actions(job) == {"job": "keep"}
    scenario.apply(job)
    gate.open()
    scenario.run_to_end(job)
    assert [attempt.state for attempt in scenario.attempts("job")] == ["succeeded", "succeeded"]
