"""The program that srun starts for each replica. Python >= 3.6, the standard library alone.

Usage: `app.zip replica APP_DIR '{"role": index, "run": n, "ks": [...], "restarts": [...], "stays": [...]}'`,
with the number, the restarts so far and whether it waits for another start, of each replica of the step.

Two processes look after a replica: the guardian, which srun starts, and its child, the worker. Both adopt
orphans, so that when either is killed, the other one kills the remaining processes.
"""

import json
import os
import signal
import socket
import time

from launcher.schedulers.slurm.site import node
from launcher.schedulers.slurm.site.worker import FORWARDED, Worker


def guard(worker: int, folder: str, what: dict) -> int:
    """Wait for the worker, forward signals, kill its remaining processes; returns the exit code."""
    for number in FORWARDED:
        signal.signal(number, lambda number, _: node.kill(worker, number))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == worker:
            break
    node.kill_rest()
    code, number = node.exit_of(status)
    if number:
        record_death(folder, what, code, number)
    return code


def record_death(folder: str, what: dict, code: int, number: int) -> None:
    """Record the end of a replica whose worker was killed, and its processes with the worker."""
    with open(folder + "/app.json", encoding="utf-8") as file:
        role = json.load(file)["roles"][what["role"]]
    task = int(os.environ.get("SLURM_PROCID", "0"))
    k = what["ks"][task]
    path = "{}/replicas/{}/{}.json".format(folder, role["folder"], k)
    record = {"role": role["name"], "k": k, "run": what["run"], "restarts": what["restarts"][task]}
    record.update(host=socket.gethostname(), started_at=None, stopped=False)
    found = node.read_json(path)
    if found is not None and found["run"] == what["run"] and found["restarts"] >= record["restarts"]:
        record = found
    if record.get("state") != "ended":
        record.update(state="ended", ended_at=time.time(), code=code, signal=number)
        try:
            node.put(path, json.dumps(record))
        except OSError:
            pass
    event = {"e": "exit", "role": role["name"], "k": k, "code": code, "signal": number, "t": node.now_ns()}
    os.write(1, (json.dumps(event) + "\n").encode())


def main(folder: str, text: str) -> int:
    what = json.loads(text)
    guardian = os.getpid()
    node.prctl(node.PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if worker:
        return guard(worker, folder, what)
    code = 1
    try:
        node.prctl(node.PR_SET_PDEATHSIG, signal.SIGTERM)
        node.prctl(node.PR_SET_CHILD_SUBREAPER, 1)
        code = Worker(folder, what, guardian).main()
    except BaseException as error:
        node.say(f"{type(error).__name__}: {error}")
        raise
    finally:
        node.kill_rest()
        os._exit(code)
