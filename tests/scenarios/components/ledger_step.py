"""A replica of test_random_roles.py: it writes what it reads to a ledger, then does its work."""

import fcntl
import glob
import json
import os
import sys
import time
import zlib
from pathlib import Path

import helper  # noqa: F401 - a seen file

world, groups, job, version, role, k, does, took = sys.argv[1:]
app = os.environ["LAUNCHER_JOB_ID"].rpartition("/")[2]
restart = int(os.environ["LAUNCHER_RESTART"])
ledger = os.open(f"{world}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(what, **more):
    line = {"what": what, "app": app, "role": role, "k": k, "restart": restart, **more}
    os.write(ledger, (json.dumps(line) + "\n").encode())


def hold_alone(group):
    """Hold a lock of this run for its life; write to the ledger which other runs hold theirs."""
    mine = f"{world}/locks/{group}@{app}@{role}.{k}"
    for path in {mine, *glob.glob(f"{world}/locks/{group}@*")}:
        if path == mine or path.split("@")[1] != app:
            with open(path, "a") as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: no look hinders another one
                except BlockingIOError:
                    write("beside", path=path)
    fcntl.flock(os.open(mine, os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)


def data():
    return Path(f"data.{job}").read_text()


for each in groups.split(","):
    hold_alone(each)
needs = {
    need["job"]: [path.read_text() for path in sorted(Path(need["output_dir"]).glob("*.out"))]
    for need in json.loads(os.environ.get("LAUNCHER_NEEDS", "[]"))
}
read = {"version": version, "data": data(), "needs": needs}
value = str(zlib.crc32(json.dumps(read).encode()))
write("begin", value=value, **read)
if does == "serve":
    time.sleep(0.05)
    Path(os.environ["LAUNCHER_SCRATCH"], "up").touch()
    time.sleep(1000)
time.sleep(float(took))
code = 7 if does == "fail" or (does == "once" and restart == 0) else 0
if not code:
    out = Path(os.environ["LAUNCHER_OUTPUT_DIR"], f"{role}.{k}.out")
    new = out.with_suffix(".new")
    new.write_text(value)
    new.rename(out)
write("end", code=code, data=data(), value=value)
sys.exit(code)
