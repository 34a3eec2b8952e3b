"""What the pipeline of GitLab still needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from launcher.ci.doctor import Checks, Facts, Finding, of_branch
from launcher.ci.forge import ForgeError, Pull
from launcher.ci.gitlab import APPLY_JOB, ENVIRONMENT, HINT, PLAN_JOB, TOKEN, GitLab

FILES: Final = (".gitlab-ci.yml", ".gitlab")
"""The file of the pipeline, and the folder of files that it includes."""
_DEPTH: Final = 10
_INIT: Final = "launcher init --ci gitlab"


def checks(facts: Facts, gitlab: GitLab, branch: str, sha: str) -> Checks:
    """Judge the pipeline, its tokens, its schedule and the settings of the project."""
    jobs = {name: job for file in facts.files.values() for name, job in _jobs(facts, file)}
    apply = jobs.get(APPLY_JOB)
    return Checks(
        token=_of_token(gitlab, branch, sha),
        files=[_of_comments(gitlab), *_of_jobs(jobs), _of_group(apply, gitlab), _of_schedule(gitlab, branch)],
        branch=of_branch(facts, branch, lambda: _is_queued(gitlab)),
        requirement=None if apply is None else str(_mapping(apply.get("variables")).get("LAUNCHER", "")),
        pin="pin it in the variable LAUNCHER, with `==` or a commit",
        deepen='set the variable GIT_DEPTH to "0"',
        secret="add them to the variables of the project: Settings, CI/CD, Variables",
    )


def _jobs(facts: Facts, file: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The jobs of a file, each with what it extends."""
    every = {name: job for each in facts.files.values() for name, job in each.items()}
    for name, job in file.items():
        if isinstance(job, dict) and "script" in job:
            yield str(name), _extended(job, every, _DEPTH)


def _extended(job: Mapping[str, Any], every: Mapping[str, Any], depth: int) -> dict[str, Any]:
    bases = job.get("extends")
    made: dict[str, Any] = {}
    for base in (bases if isinstance(bases, list) else [bases]) if depth else ():
        made = _merged(made, _extended(_mapping(every.get(str(base))), every, depth - 1))
    return _merged(made, job)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that GitLab makes of two: mappings are merged, other values replaced."""
    made = dict(below)
    for name, value in above.items():
        old = made.get(name)
        made[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return made


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_token(gitlab: GitLab, branch: str, sha: str) -> Finding:
    try:
        gitlab.check_runs(sha)
        gitlab.pulls_of(sha)
        gitlab.checks_of(Pull(number=1, head_sha=sha, base_ref=branch, merged=False))
    except ForgeError as error:
        return Finding("token", "missing", str(error), error.hint or "")
    return Finding("token", "ok", "it may read merge requests, deployments and artifacts")


def _of_comments(gitlab: GitLab) -> Finding:
    try:
        facts = gitlab.token()
    except ForgeError as error:
        if error.permission == TOKEN:  # a pipeline is complete without comments
            detail = f"{TOKEN} is not set: plans are in the widget of merge requests, ends in the log"
            return Finding("comments", "ok", detail, f"for comments, {error.hint}")
        return Finding("comments", "missing", str(error), error.hint or "")
    if "api" not in (facts.get("scopes") or ()):
        return Finding("comments", "missing", f"{TOKEN} has not the scope api", HINT)
    until = f" until {facts['expires_at']}" if facts.get("expires_at") else ""
    return Finding("comments", "ok", f"{TOKEN} may comment{until}")


def _of_jobs(jobs: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    for name in (PLAN_JOB, APPLY_JOB):
        job = jobs.get(name)
        if job is None or name.replace(" ", " ci ") not in str(job["script"]):
            detail = f"no job `{name}` runs `{name.replace(' ', ' ci ')}`"
            yield Finding("pipeline", "missing", detail, _INIT)
            return
        artifacts = _mapping(job.get("artifacts"))
        if "launcher-ci" not in str(artifacts.get("paths", "")) or artifacts.get("when") != "always":
            wanted = "artifacts: {when: always, paths: [launcher-ci], expire_in: never}"
            yield Finding("artifacts", "missing", f"the job `{name}` keeps no launcher-ci", f"add `{wanted}`")
            return
    environment = jobs[APPLY_JOB].get("environment")
    given = environment.get("name") if isinstance(environment, dict) else environment
    if given != ENVIRONMENT:
        detail = f"the job `{APPLY_JOB}` has no environment, by which later applies find it"
        yield Finding("pipeline", "missing", detail, f"add `environment: {ENVIRONMENT}` to the job")
        return
    yield Finding("pipeline", "ok", "it plans merge requests and applies the default branch")


def _of_group(job: Mapping[str, Any] | None, gitlab: GitLab) -> Finding:
    group = str((job or {}).get("resource_group") or "")
    if not group:
        remedy = "add `resource_group: launcher-apply` to the job"
        return Finding("concurrency", "missing", "applies run at once", remedy)
    remedy = f"glab api --method PUT 'projects/:id/resource_groups/{group}?process_mode=oldest_first'"

    def judge() -> Finding:
        mode = gitlab.get(f"/resource_groups/{quote(group, safe='')}").get("process_mode")
        if mode != "oldest_first":
            return Finding("concurrency", "missing", f"applies that wait run in any order ({mode})", remedy)
        return Finding("concurrency", "ok", "applies wait for one another, the oldest first")

    return _asked("concurrency", judge, "the order of applies")


def _of_schedule(gitlab: GitLab, branch: str) -> Finding:
    def judge() -> Finding:
        if not any(each.get("active") for each in gitlab.get("/pipeline_schedules?per_page=100")):
            when = f"--cron '17 * * * *' --ref {branch}"
            remedy = f"glab schedule create {when} --description 'launcher report'"
            return Finding("schedule", "missing", "no pipeline schedule is active", remedy)
        return Finding("schedule", "ok", "a pipeline schedule is active")

    return _asked("schedule", judge, "pipeline schedules")


def _asked(subject: str, judge: Callable[[], Finding], what: str) -> Finding:
    try:
        return judge()
    except ForgeError as error:
        return Finding(subject, "unknown", f"{what} cannot be read: {error}", error.hint or "")


def _is_queued(gitlab: GitLab) -> bool:
    """Whether each merge is planned as it lands: in a merge train, or on a branch that is up to date."""
    project = gitlab.get("")
    return bool(project.get("merge_trains_enabled") or project.get("merge_method") in ("ff", "rebase_merge"))
