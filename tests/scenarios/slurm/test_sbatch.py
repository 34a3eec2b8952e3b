"""Scripts for sbatch: written by launcher, and converted to job files."""

import re
import subprocess

import pytest

from launcher.specs import Resource
from tests.unit.slurm.requests import request_of, role


@pytest.fixture
def job_of(slurm, tmp_path):
    """Return a function that submits a request's script on hold and returns the job as scontrol shows it."""

    def submit(request) -> str:
        (tmp_path / "script.sh").write_text(request.script)
        argv = ["sbatch", "--parsable", "--hold", "script.sh"]
        ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        job = ran.stdout.strip()
        try:
            return slurm.run("scontrol", "show", "job", "-o", job)
        finally:
            slurm.run("scancel", job)

    return submit


@pytest.mark.parametrize(
    "comment",
    ["plain", "two words", "it's", 'say "x"', "back\\slash\\", "# 1", "$HOME ${app_id} $<app_id>", "%j", "ü"],
)
def test_sbatch_keeps_a_comment_as_written(job_of, comment):
    assert f" Comment={comment} " in job_of(request_of(role(), comment=comment))


def test_sbatch_takes_every_option_of_the_script(job_of):
    request = request_of(
        role("a", resource=Resource(2, 1, 300)),
        role("b", num_replicas=3, resource=Resource(1, 1, 100)),
        partition="main",
        account="lab",
        nodes=2,
        ntasks_per_node=2,
        time="1-12",
        on_preempted="requeue",
        sbatch={"exclusive": "", "nice": "7", "mail-user": "me and you", "nodelist": "n[1-2]"},
    )
    seen = job_of(request)
    for each in (
        "JobName=a-1-x",
        "Account=lab",
        "Nice=7",
        "Requeue=1",
        "TimeLimit=1-12:00:00",
        "Partition=main",
        "ReqNodeList=n[1-2]",
        "NumTasks=4",
        "CPUs/Task=2",
        "MinMemoryCPU=163M",
        "OverSubscribe=NO",
    ):
        assert f" {each} " in f" {seen}", each
    assert re.search(r" NumNodes=2(-2)? ", seen)
    assert "TresPerTask=gres:gpu:1" in seen or "TresPerTask=gres/gpu:1" in seen


def test_sbatch_takes_gres_per_node(job_of):
    seen = job_of(request_of(role(resource=Resource(1, 2, 100)), gres="gpu:2"))
    assert "TresPerNode=gres:gpu:2" in seen or "TresPerNode=gres/gpu:2" in seen


def test_sbatch_writes_its_output_into_the_folder_of_the_app(job_of, tmp_path):
    assert f" StdOut={tmp_path}/slurm.out " in job_of(request_of(role()))


def test_the_message_of_an_app_names_a_failed_setup_line(scenario):
    file = scenario.job("true", top='cfg: {setup: ["true", "no-such-program x"]}')
    scenario.launcher("apply", file, "--yes", "--wait", code=None)
    status = scenario.launcher("status", "job", code=None).out
    assert "setup failed with 127: no-such-program x (line 16: no-such-program: command not found)" in status
    assert "main/0   CANCELLED" in status


def test_the_message_of_an_app_whose_script_fails_has_the_last_line_of_its_output(scenario):
    scenario.run_to_end(scenario.job("true", top='cfg: {setup: ["export PATH=/nowhere"]}'), code=5)
    why = "line 21: exec: python3: not found"
    assert scenario.status("job")["message"] == f"its batch script exited with 127: {why}"
    assert scenario.launcher("logs", "job").out.endswith(f"slurm_script: {why}\n")


@pytest.mark.slow
def test_an_app_whose_prolog_fails_has_failed_with_its_node(broken, tmp_path):
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nexit 3\n")
    prolog.chmod(0o755)
    scenario = broken("--nodes", "1", "--set", f"Prolog={prolog}")
    scenario.run_to_end(scenario.job("true"), code=5)
    assert scenario.status("job")["message"].startswith("the prolog failed on node n1: Error running")


def test_replicas_inherit_the_variables_that_setup_exports(scenario):
    file = scenario.job('echo "<$SITE>"', top="cfg: {setup: [\"export SITE='two words'\"]}")
    scenario.run_to_end(file)
    assert scenario.logs("job", "--no-prefix") == "<two words>\n"


SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=Two_Tasks
#SBATCH --ntasks=2
#SBATCH --cpus-per-task=1
#SBATCH --time=5
#SBATCH --array=3,7%1
#SBATCH --signal=B:USR1@60

not_exported=here
cd "$SLURM_SUBMIT_DIR"
false
srun --label cat words
echo "task $SLURM_ARRAY_TASK_ID, rank $SLURM_PROCID of $SLURM_NTASKS, $not_exported $UNSET"
"""


def test_a_script_with_srun_runs_once_for_each_task(scenario):
    scenario.write("words", "words\n")
    scenario.write("two.sbatch", SCRIPT)
    made = scenario.launcher("convert", "two.sbatch")
    assert [line[2:].split()[0] for line in made.err.splitlines() if line[0] == "!"] == [
        "--signal=B:USR1@60",
        "`false`:",
    ]
    job = scenario.write("two.launcher.yaml", made.out)
    scenario.run_to_end(job)
    for task in (3, 7):
        logs = sorted(scenario.logs(f"two-tasks-{task}", "--no-prefix").splitlines())
        ranks = [f"task {task}, rank {rank} of 2, here " for rank in range(2)]
        assert logs == sorted([*ranks, "words", "words"])


def test_a_script_without_srun_runs_once_with_the_cores_of_its_tasks(scenario):
    script = (
        "#!/bin/bash\n#SBATCH -N 1 -n 2\n#SBATCH -t 5\necho $SLURM_NTASKS tasks, $SLURM_CPUS_ON_NODE cores\n"
    )
    scenario.write("one.sbatch", script)
    job = scenario.write("one.launcher.yaml", scenario.launcher("convert", "--strict", "one.sbatch").out)
    scenario.run_to_end(job)
    assert scenario.logs("one", "--no-prefix") == "2 tasks, 2 cores\n"
