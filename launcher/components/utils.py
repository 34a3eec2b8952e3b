"""Components for everyday commands: echo, touch, sh, python, binary, copy, booth."""

from __future__ import annotations

import shlex

import launcher.specs as specs
from launcher.components.image import IMAGE


def echo(msg: str = "hello world", image: str = IMAGE, num_replicas: int = 1) -> specs.AppDef:
    """Echoes a message to stdout.

    Args:
        msg: message to echo
        image: image to use
        num_replicas: number of replicas to run
    """
    return specs.AppDef(
        name="echo",
        roles=[
            specs.Role(
                name="echo",
                image=image,
                entrypoint="echo",
                args=[msg],
                num_replicas=num_replicas,
                resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
            )
        ],
    )


def touch(file: str, image: str = IMAGE) -> specs.AppDef:
    """Touches a file (creates it if it is not there).

    Args:
        file: file to create
        image: image to use
    """
    return specs.AppDef(
        name="touch",
        roles=[
            specs.Role(
                name="touch",
                image=image,
                entrypoint="touch",
                args=[file],
                num_replicas=1,
                resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
            )
        ],
    )


def sh(
    *args: str,
    image: str = IMAGE,
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    entrypoint: str | None = None,
) -> specs.AppDef:
    """Runs a command by `sh`. Each word reaches the command as it is: nothing in it is read by the shell.

    Args:
        args: the command, word by word
        image: image to use
        num_replicas: number of replicas to run
        cpu: number of cpus per replica
        gpu: number of gpus per replica
        memMB: memory per replica, in MiB
        h: a named resource, instead of cpu, gpu and memMB
        env: environment variables: ENV1=v1,ENV2=v2
        max_retries: how often to start again what failed
        mounts: mounts, such as type=bind,src=/host,dst=/job,readonly
        entrypoint: a program to run the words with, instead of sh
    """
    return specs.AppDef(
        name="sh",
        roles=[
            specs.Role(
                name="sh",
                image=image,
                entrypoint=entrypoint or "sh",
                args=list(args) if entrypoint else ["-c", shlex.join(args)],
                num_replicas=num_replicas,
                resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
                env=dict(env or {}),
                max_retries=max_retries,
                mounts=specs.parse_mounts(mounts or [], expand_home=False),
            )
        ],
    )


def python(
    *args: str,
    m: str | None = None,
    c: str | None = None,
    script: str | None = None,
    image: str = IMAGE,
    name: str = "launcher_utils_python",
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
    num_replicas: int = 1,
) -> specs.AppDef:
    """Runs `python` with a module, a command, or a script: one of the three.

    Args:
        args: arguments passed to the program in sys.argv[1:]
        m: run this module as a script
        c: run this program text
        script: run this file
        image: image to use
        name: name of the job
        cpu: number of cpus per replica
        gpu: number of gpus per replica
        memMB: memory per replica, in MiB
        h: a named resource, instead of cpu, gpu and memMB
        num_replicas: number of replicas to run
    """
    given = [["-m", m]] if m else []
    given += [["-c", c]] if c else []
    given += [[script]] if script else []
    if len(given) != 1:
        raise ValueError("exactly one of `-m`, `-c` and `--script` must be given")
    return specs.AppDef(
        name=name,
        roles=[
            specs.Role(
                name="python",
                image=image,
                entrypoint="python",
                args=[*given[0], *args],
                num_replicas=num_replicas,
                resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
                env={"HYDRA_MAIN_MODULE": m} if m else {},
            )
        ],
    )


def binary(
    *args: str,
    entrypoint: str,
    name: str = "launcher_utils_binary",
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
) -> specs.AppDef:
    """Runs a program of this machine. For schedulers without images.

    Args:
        args: arguments of the program
        entrypoint: path of the program
        name: name of the job
        num_replicas: number of replicas to run
        cpu: number of cpus per replica
        gpu: number of gpus per replica
        memMB: memory per replica, in MiB
        h: a named resource, instead of cpu, gpu and memMB
    """
    return specs.AppDef(
        name=name,
        roles=[
            specs.Role(
                name="binary",
                image=specs.NONE,
                entrypoint=entrypoint,
                args=[*args],
                num_replicas=num_replicas,
                resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
            )
        ],
    )


def copy(src: str, dst: str, image: str = IMAGE) -> specs.AppDef:
    """Copies a file from src to dst. The image must hold launcher.

    Args:
        src: path, file:// or http(s):// address to copy from
        dst: path or file:// address to copy to
        image: image to use
    """
    return specs.AppDef(
        name="launcher-utils-copy",
        roles=[
            specs.Role(
                name="launcher-utils-copy",
                image=image,
                entrypoint="python",
                args=["-m", "launcher.apps.utils.copy_main", "--src", src, "--dst", dst],
                resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
            )
        ],
    )


def booth(
    x1: float,
    x2: float,
    trial_idx: int = 0,
    tracker_base: str = "/tmp/launcher-util-booth",
    image: str = IMAGE,
) -> specs.AppDef:
    """Evaluates the booth function, f(x1, x2) = (x1 + 2*x2 - 7)^2 + (2*x1 + x2 - 5)^2. For trying out sweeps.

    The result is written to TRACKER_BASE/TRIAL_IDX. The image must hold launcher.

    Args:
        x1: x1
        x2: x2
        trial_idx: number of the trial
        tracker_base: folder of the results
        image: image to use
    """
    return specs.AppDef(
        name="launcher-utils-booth",
        roles=[
            specs.Role(
                name="launcher-utils-booth",
                image=image,
                entrypoint="python",
                args=[
                    *("-m", "launcher.apps.utils.booth_main"),
                    *(f"--x1={x1}", f"--x2={x2}"),
                    *("--trial_idx", str(trial_idx)),
                    *("--tracker_base", tracker_base),
                ],
                resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
            )
        ],
    )
