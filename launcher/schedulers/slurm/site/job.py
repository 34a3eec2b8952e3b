"""The Slurm job that runs an app, as reported by Slurm. Python >= 3.6, the standard library alone."""

import subprocess
import time

from launcher.schedulers.slurm.site.shared import seconds_of, timed_out

ASK_S = 1.5  # how long Slurm may take, each time, to answer why it ends the job
ASKS = 2
END_STEP_S = 10.0  # how long Slurm may take to kill a step
RUNNING = {"RUNNING", "RESIZING", "SIGNALING", "STOPPED", "SUSPENDED"}


class SlurmJob:
    """The job with this id, if it runs `script` (a part of the path): a controller may reuse ids."""

    def __init__(self, job_id: str, script: str) -> None:
        self.id = job_id
        self._script = script

    def ask(self) -> dict:
        """The fields "EndTime", "Restarts", "TimeLimit" and more; {} where Slurm does not know the job."""
        for _ in range(ASKS):
            text = self._run("scontrol", "show", "job", "-o", self.id)
            if text:
                break
        if self._script not in text:
            return {}
        return dict(word.partition("=")[::2] for word in reversed(text.split()) if "=" in word)

    def end_step(self, step_id: str) -> None:
        """Have Slurm kill what is left of a step, and wait for its end."""
        name = f"{self.id}.{step_id}"
        end = time.monotonic() + END_STEP_S
        self._run("scancel", "--signal=KILL", name)
        while name in self._run("squeue", "-h", "-s", "-j", self.id, "-o", "%i").split():
            if time.monotonic() > end:
                break
            time.sleep(0.1)

    def requeue(self) -> None:
        self._run("scontrol", "requeue", self.id)

    def forbid_requeue(self) -> None:
        self._run("scontrol", "update", "JobId=" + self.id, "Requeue=0")

    def cancel(self) -> None:
        self._run("scancel", self.id)

    def verdict(self, found: dict, failed_node: str) -> tuple:
        """The (state, message) of an app whose job Slurm ends; `failed_node`: as srun has named it, or ""."""
        reason = found.get("Reason")
        if reason == "TimeLimit":
            return "failed", over_limit(found)
        if is_preempted(found):
            return "failed", "was preempted"
        if reason == "NodeDown":
            nodes = failed_node
            if not nodes:  # then the nodes of the job that Slurm calls down
                those = ["-n", found.get("NodeList", ""), "-t", "down"]
                nodes = ",".join(sorted(set(self._run("sinfo", "-h", "-N", *those, "-o", "%N").split())))
            return "failed", f"node {nodes} failed" if nodes else "a node failed"
        if found.get("JobState") == "OUT_OF_MEMORY" or reason == "OutOfMemory":
            return "failed", "killed: out of memory"
        return "cancelled", ""

    @staticmethod
    def _run(*argv: str) -> str:
        """The output of a command of Slurm; "" where the command fails."""
        try:
            found = subprocess.check_output(
                argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=ASK_S
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return found.decode(errors="replace")


def is_preempted(found: dict) -> bool:
    """Whether Slurm preempts a job: it has some time to stop, as another job needs its place."""
    return found.get("PreemptTime", "None") not in ("None", "(null)")


def is_ending(found: dict, times: int) -> bool:
    """Whether Slurm ends the job, which it had requeued `times` times when this run began.

    A controller that was killed may have forgotten the start of a job, which is pending again then.
    """
    state = found.get("JobState", "RUNNING")
    is_forgotten = state == "PENDING" and not has_restarted(found, times)
    return is_preempted(found) or not (state in RUNNING or is_forgotten)


def has_restarted(found: dict, times: int) -> bool:
    """Whether Slurm has requeued the job more than `times` times."""
    restarts = found.get("Restarts", "")
    return restarts.isdigit() and int(restarts) > times


def over_limit(found: dict) -> str:
    """The message of an app whose job Slurm ends at its time limit."""
    return timed_out(seconds_of(found.get("TimeLimit", "")) or 0.0)
