"""An sbatch script that was converted runs on the cluster as sbatch runs it."""

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
