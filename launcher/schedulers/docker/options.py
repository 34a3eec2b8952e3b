"""The run options of local_docker."""

from __future__ import annotations

from typing import TypedDict

from launcher.schedulers.checks import add_times
from launcher.schedulers.docker.names import NETWORK
from launcher.specs.runopts import runopts

DEFAULT_GRACE_S = 10.0
PULL_POLICIES = ("missing", "always", "never")
PORT_POLICIES = ("ephemeral", "fixed", "none")


class DockerOpts(TypedDict, total=False):
    """The run options that programs name, for type checkers; `options` has all."""

    copy_env: list[str] | None
    env: dict[str, str] | None
    privileged: bool | None


def options() -> runopts:
    opts = runopts()
    _of_containers(opts)
    _of_commands(opts)
    _of_images(opts)
    _of_logs_and_time(opts)
    return opts


def _of_containers(opts: runopts) -> None:
    opts.add(
        "copy_env",
        list[str],
        "variables of the submitting process that containers get, as patterns such as AWS_*",
    )
    opts.add("env", dict[str, str], "variables for all containers; those of a role win")
    opts.add("privileged", bool, "give containers all rights on the engine's host", default=False)
    opts.add(
        "network",
        str,
        f"network of the containers: `{NETWORK}` is made when it is missing and resolves their names;"
        " or one that exists, or host, or none",
        default=NETWORK,
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.:-]*",
        wants="the name of a network",
    )
    opts.add(
        "ports",
        str,
        "how port_map is published on 127.0.0.1: ephemeral (the engine picks the port), fixed (the same"
        " number; one replica only) or none",
        default="ephemeral",
        choices=PORT_POLICIES,
    )


def _of_commands(opts: runopts) -> None:
    opts.add(
        "user",
        str,
        "user that runs the commands, as name or uid[:gid]; the image's if not given",
        pattern=r"[^\s\0]+",
        wants="a name or uid, with :group or :gid if need be",
    )
    opts.add(
        "workdir",
        str,
        "folder in the container that commands run in, and that the files of a workspace go into; the"
        " image's if not given",
        pattern=r"/[^\0]*",
        wants="an absolute path in the container",
    )
    opts.add(
        "override_entrypoint",
        bool,
        "run the role's entrypoint instead of the image's ENTRYPOINT, not as its arguments",
        default=False,
    )
    opts.add(
        "init",
        bool,
        "run the command below a small init process, which collects orphaned processes",
        default=True,
    )


def _of_images(opts: runopts) -> None:
    opts.add(
        "image_pull",
        str,
        "when images are pulled: missing, always or never",
        default="missing",
        choices=PULL_POLICIES,
    )
    opts.add(
        "image_repo",
        str,
        "repository that images built from a workspace are named after and pushed to",
        pattern=r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*",
        wants="a repository such as ghcr.io/team/app, without a tag",
    )
    opts.add("quiet", bool, "do not report pulling, building and pushing", default=False)


def _of_logs_and_time(opts: runopts) -> None:
    opts.add(
        "log_max_size",
        str,
        "size of a replica's log file before a new one is begun",
        default="100m",
        pattern=r"[1-9][0-9]*[bkmgBKMG]?",
        wants="a size such as 100m or 1g",
    )
    opts.add("log_max_files", int, "log files per replica; older output is deleted", default=5, minimum=1)
    add_times(opts, DEFAULT_GRACE_S)
