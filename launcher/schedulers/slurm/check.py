"""Ask clusters whether they would take requests: equal requests once, each cluster in one round trip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.schedulers.slurm.cluster import program_name
from launcher.schedulers.slurm.clusters import Clusters
from launcher.schedulers.slurm.known import Place, place_of
from launcher.schedulers.slurm.request import SlurmRequest, bind_request
from launcher.schedulers.staged import Verdict
from launcher.specs.app import AppDryRunInfo

MOST = 100
"""The most different requests that a plan asks a cluster about: each takes its controller milliseconds."""

_FIELDS = (
    (r"account", "account"),
    (r"partition", "partition"),
    (r"\bqos spec", "qos"),
    (r"feature spec", "constraint"),
    (r"time limit is", "time"),
    (r"generic resource", "gres"),
    (r"license", "licenses"),
    (r"reservation", "reservation"),
    (r"node name", "nodelist"),
    (r"wckey", "wckey"),
)
"""Pattern in a refusal → the option of sbatch that it may be about. Source: slurm_errno.c."""

Alike = tuple[Place, str]
"""The cluster and the options of a request, the only parts that sbatch judges."""


def verdicts(
    requests: Mapping[str, AppDryRunInfo[SlurmRequest]],
    clusters: Clusters,
    known: dict[Alike, Verdict | None],
) -> dict[str, Verdict]:
    """The verdicts of `StagedScheduler.check`. Raises SchedulerError when a cluster cannot be asked.

    Args:
        known: the verdicts so far, None for a request that is taken; new ones are added.
    """
    keys = {app_id: (place_of(info.cfg), str(info.request.options)) for app_id, info in requests.items()}
    first: dict[Alike, str] = {}
    for app_id, key in keys.items():
        if key not in known:
            first.setdefault(key, app_id)
    for place in dict.fromkeys(place for place, _ in first):
        asked = {key: app_id for key, app_id in first.items() if key[0] == place}
        jobs = [_job(app_id, requests[app_id].request) for app_id in [*asked.values()][:MOST]]
        answers = clusters.at(place).ask("check", jobs=jobs)["answers"]
        left = {"unchecked": f"there are {len(asked)} different requests, and a plan asks about {MOST}"}
        for k, (key, app_id) in enumerate(asked.items()):
            known[key] = _verdict(answers[k] if k < MOST else left, requests[app_id].cfg)
    return {app_id: verdict for app_id, key in keys.items() if (verdict := known[key]) is not None}


def _job(app_id: str, request: SlurmRequest) -> dict[str, Any]:
    """The fields by which the agent asks about a request."""
    options = request.options
    return {
        "script": bind_request(request, app_id, program=program_name()).script,
        "partition": options.get("partition", ""),
        "one_node": "1" in (options.get("ntasks"), options.get("nodes")),
    }


def _verdict(answer: Mapping[str, str], cfg: Mapping[str, Any]) -> Verdict | None:
    refusal = answer.get("refused", "")
    return Verdict(refusal, _path(refusal, cfg), answer.get("unchecked", "")) if answer else None


def _path(refusal: str, cfg: Mapping[str, Any]) -> str:
    """The field of the job that a refusal is about; "" where that is unknown, and "" without a refusal."""
    unknown = re.findall(r"unrecognized option '--([\w-]+)", refusal)
    for pattern, option in (*_FIELDS, *(("", name) for name in unknown)):
        if not re.search(pattern, refusal, re.IGNORECASE):
            continue
        if cfg.get(option):
            return f"cfg.{option}"
        if option in (cfg.get("sbatch") or {}):
            return f"cfg.sbatch.{option}"
        if option == "time" and cfg.get("timeout_s"):
            return "timeout_s"
    return ""
