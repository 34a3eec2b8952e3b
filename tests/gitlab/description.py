"""The requests in use, as the pages of GitLab's REST API describe them: each is checked against these facts.

https://docs.gitlab.com/api/ and, for the token of a job, https://docs.gitlab.com/ci/jobs/ci_job_token/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

_PAGE = {"page": r"[1-9]\d*", "per_page": r"[1-9]\d?|100"}


class Operation(NamedTuple):
    """One endpoint.

    Attributes:
        page: of the documentation, below https://docs.gitlab.com/api/.
        query: parameter → its values, as a regular expression.
        required: the parameters and fields of the body that must be there.
        body: field → its type.
        by_job: whether the token of a job is accepted.
    """

    method: str
    path: str
    page: str
    query: Mapping[str, str] = MappingProxyType({})
    required: tuple[str, ...] = ()
    body: Mapping[str, type] = MappingProxyType({})
    by_job: bool = False


_MR = "/projects/{id}/merge_requests/{iid}"
OPERATIONS = (
    Operation("GET", "/projects/{id}", "projects"),
    Operation("GET", "/projects/{id}/repository/commits/{sha}/merge_requests", "commits",
        {**_PAGE, "state": "opened|closed|locked|merged"}, by_job=True),
    Operation("GET", _MR, "merge_requests", by_job=True),
    Operation(
        "GET", f"{_MR}/notes", "notes", {**_PAGE, "sort": "asc|desc", "order_by": "created_at|updated_at"},
        by_job=True,
    ),
    Operation("POST", f"{_MR}/notes", "notes", required=("body",), body={"body": str}),
    Operation("PUT", f"{_MR}/notes/{{note}}", "notes", required=("body",), body={"body": str}),
    Operation(
        "GET", "/projects/{id}/deployments", "deployments",
        {**_PAGE, "environment": ".+", "order_by": "id|iid|created_at|updated_at|finished_at|ref",
            "sort": "asc|desc", "status": "created|running|success|failed|canceled|blocked"},
        by_job=True,
    ),
    Operation("GET", "/projects/{id}/jobs/{job}/artifacts/{*path}", "job_artifacts", by_job=True),
    Operation("GET", "/projects/{id}/jobs/artifacts/{ref}/raw/{*path}", "job_artifacts", {"job": ".+"},
        required=("job",), by_job=True),
    Operation("GET", "/projects/{id}/resource_groups/{key}", "resource_groups"),
    Operation("GET", "/projects/{id}/pipeline_schedules", "pipeline_schedules", _PAGE),
    Operation("GET", "/personal_access_tokens/self", "personal_access_tokens"),
    Operation("GET", "/user", "users"),
)  # fmt: skip


def operation(method: str, path: str) -> Operation | None:
    """Return the endpoint of a request. `path` is below `/api/v4`, and encoded."""
    return next((each for each in OPERATIONS if each.method == method and _matches(each.path, path)), None)


def violations(method: str, path: str, query: dict[str, str], body: Any) -> Iterator[str]:
    """Yield where a request differs from the facts."""
    found = operation(method, path)
    if found is None:
        yield f"{method} {path} is not described"
        return
    given = {**query, **(body or {})}
    yield from (f"{method} {path}: {name} is missing" for name in found.required if not given.get(name))
    for name, text in query.items():
        if not re.fullmatch(found.query.get(name, r"\b\B"), text):
            yield f"{method} {path}: there is no parameter {name}={text}"
    for name, value in (body or {}).items():
        if name not in found.body or not isinstance(value, found.body[name]):
            yield f"{method} {path}: there is no field {name} of this type"


def _matches(template: str, path: str) -> bool:
    pattern = re.sub(r"\{\*\w+\}", ".+", re.sub(r"\{\w+\}", "[^/]+", template))
    return re.fullmatch(pattern, path) is not None
