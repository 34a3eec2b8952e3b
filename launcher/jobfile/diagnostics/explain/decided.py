"""Reasons for the action that a plan shows for a job."""

from __future__ import annotations

from launcher.jobfile.diagnostics.explain.example import JOB, Example, ReasonExplanation

_HEAD = "version: 1\nname: train\n"
_QUICK = _HEAD + "roles: {main: {entrypoint: echo, args: [trained]}}\n"
_LONG = _HEAD + "roles: {main: {entrypoint: sleep, args: [60]}}\n"
_FRAGILE = _HEAD + "%sroles: {main: {entrypoint: cat, args: [data.csv]}}\n"
_VARIABLE = (
    _HEAD + "vars: {rate: {type: float, default: 0.1}}\n%s"
    'roles: {main: {entrypoint: sh, args: [-c, "echo $<var.rate>; %s"]}}\n'
)
_APPLY = f"launcher apply {JOB} --yes"
_TO_ITS_END = f"{_APPLY} --wait"
_PLAN = f"plan {JOB}"
_MEND = ("launcher logs train", "echo 1 >data.csv")

_NEEDS = "version: 1\nname: %s\nneeds: [%s]\nroles: {main: {entrypoint: echo, args: [done]}}\n"
_PREPARE = "version: 1\nname: prepare\nroles: {main: {entrypoint: echo, args: [one]}}\n"
_ALL_TO_THEIR_END = "launcher apply . --yes --wait"

EXPLANATIONS = (
    ReasonExplanation(
        "no_attempt",
        "The job has never run as far as this state folder (`$LAUNCHER_HOME`) and its engine know. A job is "
        "known by its project, its target and its name: under another name it is another job, and a machine "
        "with a state folder of its own knows nothing of what local schedulers ran elsewhere.",
        Example({JOB: _QUICK}, _PLAN),
        "Apply it. If it has run before, look for the name or the state folder that it ran under.",
        ("launcher list", _TO_ITS_END),
    ),
    ReasonExplanation(
        "spec_changed",
        "What the job file means is not what the latest attempt ran: an argument, an image, an option, the "
        "files of its workspace. The plan shows each path with the old and the new value. Comments, "
        "formatting, descriptions and policies are no part of it.",
        Example({JOB: _VARIABLE % ("", "")}, f"{_PLAN} --var rate=0.2", (_TO_ITS_END,)),
        "Apply it to run what the file says now. To keep the finished run, bring the old value back.",
        (f"launcher plan {JOB}",),
    ),
    ReasonExplanation(
        "last_failed",
        "A replica ended with an exit code that is not 0 after all its retries, or the job's `timeout` was "
        "over. Failed work is held: it runs again when you ask for it.",
        Example({JOB: _FRAGILE % ""}, _PLAN, (_TO_ITS_END,)),
        "Read its logs and mend the cause; then ask for another attempt. `lifecycle: {on_failed: rerun, "
        "max_attempts: 3}` in the job file does so by itself.",
        (*_MEND, f"{_TO_ITS_END} --retry-failed"),
    ),
    ReasonExplanation(
        "last_cancelled",
        "`launcher cancel` stopped the latest attempt, or Ctrl-C the `launcher run` that it belonged to. "
        "What was stopped on purpose is held.",
        Example({JOB: _LONG}, _PLAN, (_APPLY, "launcher cancel train")),
        "Ask for the job by its name, or let `lifecycle: {on_cancelled: rerun}` ask each time.",
        (f"{_APPLY} --rerun train",),
    ),
    ReasonExplanation(
        "last_lost",
        "The latest attempt had started, and neither it nor a record of its end is there: the machine was "
        "switched off, its supervisor was killed, its containers were removed before they had ended. Whether "
        "it had done its work cannot be known.",
        Example({JOB: _LONG}, _PLAN, (_APPLY, "sudo reboot")),
        "See how far it came, then ask for another attempt. `lifecycle: {on_lost: rerun}` does so by itself.",
        ("launcher logs train", f"{_APPLY} --retry-failed"),
    ),
    ReasonExplanation(
        "requested",
        "The command line asks for another attempt of what would be kept or held: with `--rerun JOB`, or "
        "with `--retry-failed` for all jobs that failed or were lost.",
        Example({JOB: _QUICK}, f"{_PLAN} --rerun train", (_TO_ITS_END,)),
        "Leave the option out to keep what has succeeded.",
        (f"launcher plan {JOB}",),
    ),
    ReasonExplanation(
        "policy",
        "The job file's `lifecycle`, or that of launcher.toml, decides in your place: "
        "`on_failed`, `on_cancelled` and `on_lost` may be `rerun`, `on_change` may be `hold`.",
        Example({JOB: _FRAGILE % "lifecycle: {on_failed: rerun, max_attempts: 3}\n"}, _PLAN, (_TO_ITS_END,)),
        "Change the policy. It is no part of what runs: no job runs again because of it.",
        (f"sed -i.bak 's/on_failed: rerun/on_failed: hold/' {JOB}", f"launcher plan {JOB}"),
    ),
    ReasonExplanation(
        "inputs_changed",
        "The job file's `inputs` names files, and their content is not what the latest attempt was made "
        "with: a file was edited, added or removed, or a glob was added to `inputs` or taken out. The plan "
        "names the files. A file that changed while the attempt waited or ran counts too, also when it has "
        "been changed back since: whether the attempt has read the old or the new content cannot be known. "
        "A job that writes to its own `inputs` therefore never comes to rest.",
        Example(
            {JOB: _FRAGILE % "inputs: [data.csv]\n", "data.csv": "1\n"},
            _PLAN,
            (_TO_ITS_END, "echo 2 >>data.csv"),
        ),
        "Apply it: the new attempt remembers what the files hold now. Name no file in `inputs` that the job "
        "itself writes.",
        (_TO_ITS_END,),
    ),
    ReasonExplanation(
        "trigger_fired",
        "The job has succeeded, and its `rerun_on` names something that has happened since: files with other "
        "content than at the latest attempt, or, with `every_apply`, an apply.",
        Example(
            {
                JOB: _FRAGILE % "lifecycle: {rerun_on: [{files: [data.csv]}]}\n",
                "data.csv": "1\n",
            },
            _PLAN,
            (_TO_ITS_END, "echo 2 >>data.csv"),
        ),
        "Apply it: the new attempt remembers what the files hold now.",
        (_TO_ITS_END,),
    ),
    ReasonExplanation(
        "files_edited",
        "The job runs in its checkout, and a file there that its command names, or a module that such a "
        "Python file imports, is not what its latest attempt ran. Finished work is kept all the same, and "
        "the plan says so; with `lifecycle: {on_edit: rerun}` it runs again.",
        Example(
            {
                JOB: _HEAD + "roles: {main: {entrypoint: python3, args: [train.py]}}\n",
                "train.py": "print(1)\n",
            },
            _PLAN,
            (_TO_ITS_END, "echo 'print(2)' >>train.py"),
        ),
        "Ask for another attempt where the edit matters; jobs that need this one then follow.",
        (f"{_TO_ITS_END} --rerun train",),
    ),
    ReasonExplanation(
        "needs_changed",
        "A job that this one needs (`needs:`) has changed since the attempt that this one stands on: it ran "
        "with another document or other files, or this plan is about to run it. Running a job again without "
        "a change, as `--rerun` does, leaves what needs it alone.",
        Example(
            {JOB: _NEEDS % ("train", "prepare"), "prepare.launcher.yaml": _PREPARE},
            "plan .",
            (_ALL_TO_THEIR_END, "sed -i.bak s/one/two/ prepare.launcher.yaml"),
        ),
        "Apply it: the job runs once what it needs has succeeded. `needs: {prepare: {rerun: never}}` keeps "
        "the order, and lets changes of that job pass.",
        (_ALL_TO_THEIR_END,),
    ),
    ReasonExplanation(
        "needs_failed",
        "The job would start, and a job that it needs (`needs:`) has failed, was cancelled or lost, never "
        "ran or is held itself, or has lost the output folder that the job reads. Nothing starts without "
        "what it needs.",
        Example(
            {JOB: _FRAGILE % "", "evaluate.launcher.yaml": _NEEDS % ("evaluate", "train")},
            "plan .",
            (_ALL_TO_THEIR_END,),
        ),
        "Mend the job that it needs and run that one again: what waited for it follows by itself.",
        (*_MEND, f"{_ALL_TO_THEIR_END} --retry-failed"),
    ),
    ReasonExplanation(
        "max_attempts",
        "A policy would run the job again, and this very document had as many attempts as "
        "`lifecycle.max_attempts` allows. A changed document counts anew.",
        Example({JOB: _FRAGILE % "lifecycle: {on_failed: rerun, max_attempts: 1}\n"}, _PLAN, (_TO_ITS_END,)),
        "Mend the cause, then ask for one more attempt by the job's name.",
        (*_MEND, f"{_TO_ITS_END} --rerun train"),
    ),
    ReasonExplanation(
        "drift",
        "A container of the latest attempt was removed or stopped with a command of the engine, such as "
        "`docker rm`; or the output folder of a success that other jobs need is gone. The plan names it; how "
        "the job ended is still on record.",
        Example(
            {
                JOB: _HEAD + "scheduler: local_docker\n"
                "roles: {main: {image: busybox:1.37, entrypoint: sleep, args: [60]}}\n"
            },
            _PLAN,
            (_APPLY, "docker ps --filter label=launcher.job=train", "docker rm -f ID"),
        ),
        "Ask for another attempt if its work is needed; `plan --fail-on drift` makes a script stop at it.",
        (f"{_APPLY} --rerun train",),
    ),
    ReasonExplanation(
        "interrupted",
        "An apply ended, killed for example, after it had reserved this attempt and before all of its "
        "replicas had been started. Nothing of it is started twice.",
        Example({JOB: _LONG}, _PLAN, (f"timeout -s KILL 0.2 {_APPLY}",)),
        "Apply again: it finishes the attempt under the same number.",
        (_APPLY,),
    ),
    ReasonExplanation(
        "in_progress",
        "Another apply, which the reason names, has reserved the next attempt of this job and starts it. "
        "Two of them at once would start the job twice.",
        Example({JOB: _LONG}, _PLAN, (f"{_APPLY} &",)),
        "Wait for that apply. If it hangs on another machine, `apply --take-over` takes the job from it.",
        (f"launcher plan {JOB}",),
    ),
    ReasonExplanation(
        "superseded",
        "An older attempt still runs beside a newer one. The built-in schedulers prevent that. With one of "
        "another package it happens when the engine reports an attempt as stopped that still runs. The older "
        "attempt is stopped.",
        Example({JOB: _LONG.replace("roles", "scheduler: of-a-package\nroles")}, _PLAN, (_APPLY,)),
        "Apply it, and allow it to stop the older attempt.",
        (f"{_APPLY} --allow-destructive",),
    ),
    ReasonExplanation(
        "orphan",
        "An attempt is live, and no job file in the folders of this plan declares its job any more: the "
        "file was removed, renamed, or taken out with `exclude`.",
        Example(
            {JOB: _LONG, "other.launcher.yaml": _QUICK.replace("train", "other", 1)},
            "plan .",
            (_APPLY, f"rm {JOB}"),
        ),
        "Bring the file back, let the attempt end, or stop it with --prune.",
        ("launcher apply . --yes --prune --allow-destructive",),
    ),
    ReasonExplanation(
        "disabled",
        "The job file says `enabled: false`, perhaps under this target only. The job does not run, and a "
        "live attempt of it is stopped.",
        Example({JOB: _QUICK + "enabled: false\n"}, _PLAN),
        "Delete the line, or make it `true`, to run the job.",
        (f"sed -i.bak 's/enabled: false/enabled: true/' {JOB}", f"launcher plan {JOB}"),
    ),
    ReasonExplanation(
        "protected",
        "The plan would stop a live attempt, and the job file says `lifecycle: {protect: true}`. No option "
        "of `apply` overrules that.",
        Example(
            {JOB: _VARIABLE % ("lifecycle: {protect: true}\n", "sleep 60")},
            f"{_PLAN} --var rate=0.2",
            (_APPLY,),
        ),
        "Let the attempt end, or cancel it by its name.",
        ("launcher cancel train", f"launcher plan {JOB} --var rate=0.2"),
    ),
    ReasonExplanation(
        "over_capacity",
        "The roles of the job ask together for more GPUs than this machine has, or than `[queue]` of "
        "launcher.toml lets its project have: it would wait in line for ever. An apply stops before it "
        "submits anything. A plan counts the GPUs of the machine that makes it: NVIDIA's, as `nvidia-smi -L` "
        "lists them, narrowed by CUDA_VISIBLE_DEVICES; where LAUNCHER_GPUS is set, that many.",
        Example({JOB: _HEAD + "roles: {main: {entrypoint: echo, resource: {gpu: 1000}}}\n"}, _PLAN),
        "Ask for fewer GPUs. Where another machine plans for this one, such as a CI job, say there how many "
        "this one has. `lifecycle: {queue: off}` starts the job with as many as there are.",
        (f"sed -i.bak 's/gpu: 1000/gpu: 0/' {JOB}", f"launcher plan {JOB}"),
    ),
    ReasonExplanation(
        "already_running",
        "An attempt of exactly this document runs. Nothing is to be done: applying again starts nothing "
        "twice.",
        Example({JOB: _LONG}, _PLAN, (_APPLY,)),
        "Wait for it with `launcher wait train`. `--rerun` stops it and starts the job from the beginning.",
        (f"launcher plan {JOB} --rerun train",),
    ),
    ReasonExplanation(
        "already_succeeded",
        "The latest attempt ran exactly this document and succeeded. Finished work is kept, also when its "
        "logs or containers were removed since.",
        Example({JOB: _QUICK}, _PLAN, (_TO_ITS_END,)),
        "Nothing is to be done. Ask for it by name to run it again all the same.",
        (f"launcher plan {JOB} --rerun train",),
    ),
)
