"""Describe a local app as the schedulers' API does."""

from __future__ import annotations

import os

from launcher.holding.phrases import OUT_OF_MEMORY
from launcher.schedulers.answers import description_of
from launcher.schedulers.local import attemptfile
from launcher.schedulers.local.apprecord import app_record, replica_records
from launcher.schedulers.local.appview import AppView
from launcher.schedulers.local.attemptfile import Record
from launcher.schedulers.responses import DescribeAppResponse
from launcher.specs.app import AppDef
from launcher.specs.canonical import app_from_document

_URI_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")  # RFC 3986


def response(app_id: str, app_dir: str, view: AppView, record: Record | None) -> DescribeAppResponse:
    """The answer of `describe`. `record` None: the app was reserved and not recorded yet."""
    found = app_record("", "", app_id, view)
    found.message = _message(view)
    found.replicas = replica_records(app_dir, view)
    for each, seen in zip(found.replicas, view.replicas, strict=True):
        each.message = view.shown(seen)[1] or (f"killed: {OUT_OF_MEMORY}" if seen.oom else "")
    app = _app(record)
    if app is not None and record is not None:
        found.name, found.created_at = app.name, record["created_at"]
        found.output = str(record.get("output") or "")
    answer = description_of(found, app)
    request = attemptfile.read_request(app_dir) or {}
    answer.ui_url = _file_uri(request["log_dir"]) if request.get("log_dir") else None
    return answer


def name_of(record: Record) -> str:
    """The job's name, or the AppDef's."""
    key = record.get("key")
    return str(key[2] if key else record["name"])


def _app(record: Record | None) -> AppDef | None:
    if record is None:
        return None
    return app_from_document(record["document"], name_of(record), record.get("metadata") or {})


def _message(view: AppView) -> str:
    lost = "lost: " if view.state == "lost" else ""
    return "; ".join(part for part in (lost + view.message, *view.warnings) if part)


def _file_uri(path: str) -> str:
    """`file:` URI of an absolute path. By hand: pathlib and urllib.parse cost more than the whole answer."""
    return "file://" + "".join(chr(c) if c in _URI_SAFE else f"%{c:02X}" for c in os.fsencode(path))
