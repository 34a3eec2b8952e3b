"""What a replica needs, in the words of a Docker engine."""

from __future__ import annotations

from typing import Any

from launcher.specs.app import Resource, Role

LEAST_MEMORY_MB = 6  # the engine refuses less
LEAST_CPU = 0.01

_GPU_CAPABILITIES = ["compute", "utility"]
_MIB = 2**20


def limits(resource: Resource) -> dict[str, Any]:
    """Memory, CPUs and GPUs of one replica; what is left open (-1) or 0 is not limited."""
    out: dict[str, Any] = {}
    if resource.memMB > 0:
        out["mem_limit"] = out["shm_size"] = _size(resource.memMB)
    if resource.cpu > 0:
        out["nano_cpus"] = round(resource.cpu * 1e9)
    if resource.gpu > 0:
        out["device_requests"] = [{"count": resource.gpu, "capabilities": [list(_GPU_CAPABILITIES)]}]
    return out


def restart_policy(role: Role) -> dict[str, Any] | None:
    """The engine restarts a replica by itself only where nothing else is to be restarted with it."""
    if role.max_retries > 0 and role.retry_policy == "REPLICA":
        return {"Name": "on-failure", "MaximumRetryCount": role.max_retries}
    return None


def _size(mebibytes: float) -> str:
    return f"{int(mebibytes)}m" if mebibytes == int(mebibytes) else f"{round(mebibytes * _MIB)}b"
