"""Logs: every byte is kept, in order, with its time; and no fault of a disk stops a replica."""

import os
import shutil
import sys
from pathlib import Path

from launcher.schedulers.local import rundir
from launcher.schedulers.local.logwriter import RECORD_BYTES
from tests.unit.local.conftest import Supervise
from tests.unit.local.driving import Driven, sh, states

SLEEP = ["sleep", "1000"]


def test_separate_files_are_written_where_they_are_asked_for(app: Driven) -> None:
    app.run(app.role("main", sh("echo out; echo err >&2")), separate_streams=True)
    folder = app.logs / "main" / "0"
    assert (folder / rundir.STDOUT).read_text() == "out\n"
    assert (folder / rundir.STDERR).read_text() == "err\n"
    assert sorted((folder / rundir.COMBINED).read_text().splitlines()) == ["err", "out"]


def test_a_silent_replica_has_the_separate_files_too(app: Driven) -> None:
    app.run(app.role("main", ["true"]), separate_streams=True)
    folder = app.logs / "main" / "0"
    names = (rundir.STDOUT, rundir.STDERR, rundir.COMBINED)
    assert [(folder / name).read_text() for name in names] == ["", "", ""]


def test_a_burst_has_few_index_records(app: Driven) -> None:
    app.run(app.role("main", sh("seq 200000")))
    assert len(app.log().splitlines()) == 200_000
    assert (app.logs / "main" / "0" / rundir.INDEX).stat().st_size < 2_000 * RECORD_BYTES


def test_megabytes_of_output_arrive_whole(app: Driven) -> None:
    write = "import os\nfor i in range(300): os.write(1, bytes([i % 251]) * 100_000)"
    app.run(app.role("main", [sys.executable, "-I", "-S", "-c", write]))
    want = b"".join(bytes([i % 251]) * 100_000 for i in range(300))
    assert (app.logs / "main" / "0" / rundir.COMBINED).read_bytes() == want
    assert sum(path.stat().st_size for path in (app.logs / "main" / "0").iterdir()) < 1.01 * len(want)


def test_the_last_words_of_a_replica_are_not_lost(app: Driven) -> None:
    app.run(app.role("main", *[sh("seq 5000; kill -KILL $$")] * 4))
    assert max(len(app.log("main", k).splitlines()) for k in range(4)) == 5000


def test_a_replica_that_writes_without_end_does_not_starve_the_others(app: Driven) -> None:
    app.start(app.role("main", ["yes"], sh("sleep 0.2; echo heard; sleep 1000")))
    app.until_log("heard", k=1)
    app.cancel()
    assert app.ended().state == "cancelled"


def test_memory_does_not_grow_with_output(app: Driven) -> None:
    app.start(app.role("main", sh("head -c 100000000 /dev/zero; echo > done"), SLEEP))
    app.until(lambda view: states(view)[0] == "succeeded")
    status = Path(f"/proc/{app.pid}/status").read_text()
    peak_kib = int(status.split("VmHWM:")[1].split()[0])
    assert peak_kib < 20_000
    app.cancel()
    app.ended()


def test_output_that_finds_no_room_is_lost_but_the_app_goes_on(supervise: Supervise) -> None:
    app = supervise(file_size=150_000)  # the supervisor may write no larger files, as on a full disk
    view = app.run(app.role("main", sh("head -c 1000000 /dev/zero; echo last"), sh("echo small")))
    assert view.state == "succeeded"
    assert view.warnings == [f"log output was lost: {app.logs}/main/0: File too large"]
    assert app.log("main", 1) == "small\n"
    assert (app.logs / "main" / "0" / rundir.COMBINED).stat().st_size <= 150_000


def test_a_log_folder_that_is_removed_does_not_stop_the_app(app: Driven) -> None:
    os.mkfifo(os.path.join(app.cwd, "fifo"))
    app.start(app.role("main", sh("read line < fifo; echo $line")))
    shutil.rmtree(app.logs)
    Path(app.cwd, "fifo").write_text("hello\n")
    view = app.ended()
    assert view.state == "succeeded"
    assert view.warnings == [f"log output was lost: {app.logs}/main/0: No such file or directory"]
