"""The credentials of `docker login`, as headers of a pull, push or build.

The Docker SDK reads the credentials. It is loaded only when the Docker configuration holds some.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any

from launcher.schedulers.docker.client.errors import EngineError, package_missing

_LOGIN = Lock()  # warning filters, and the credentials that the SDK caches, belong to the whole process
_ANY_SOCKET = "unix:///nothing/is/sent/there"
_ANY_VERSION = "1.41"
_NONE = "e30="  # base64 of {}
_HUB = "docker.io"


def headers(image: str, doing: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The header with the credentials for the registry of `image`; for all registries when it is "".

    Raises EngineError when they cannot be read, or need the SDK and it is not installed.
    """
    if not _is_logged_in(image, _configuration(os.environ if environ is None else environ)):
        return {"X-Registry-Auth": _NONE} if image else {}
    try:
        return _of_sdk(image, doing)
    except ModuleNotFoundError as error:
        raise package_missing(
            error.name or "docker", f"cannot {doing} with the credentials of `docker login`"
        ) from None


def registry_of(image: str) -> str:
    """`host:5000/web:1` → `host:5000`; `docker.io` for a name without a host."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return _host(first) if is_host else _HUB


def _is_logged_in(image: str, configuration: Mapping[str, Any] | None) -> bool:
    """Whether the configuration may hold credentials for the image's registry; for any when it is ""."""
    if configuration is None:
        return True  # broken: the SDK reports the reason
    if configuration.get("credsStore"):
        return True
    known = {_host(str(key)) for part in ("auths", "credHelpers") for key in configuration.get(part) or ()}
    return registry_of(image) in known if image else bool(known)


def _host(key: str) -> str:
    """The host of a registry as the configuration names it, such as `https://index.docker.io/v1/`."""
    host = key.partition("://")[2] or key
    host = host.partition("/")[0]
    return _HUB if host in ("index.docker.io", "registry-1.docker.io") else host


def _configuration(environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The Docker configuration, {} where there is none; None for one that cannot be read."""
    folder = environ.get("DOCKER_CONFIG") or os.path.join(environ.get("HOME", "/"), ".docker")
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _of_sdk(image: str, doing: str) -> dict[str, Any]:
    import warnings

    from docker import APIClient, auth  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from docker.errors import DockerException  # type: ignore[import-untyped,import-not-found,unused-ignore]

    found: dict[str, Any] = {}
    try:
        with _LOGIN, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK also raises what it warns of
            client = APIClient(_ANY_SOCKET, version=_ANY_VERSION)
            if image:
                registry, _ = auth.resolve_repository_name(image)
                found["X-Registry-Auth"] = auth.get_config_header(client, registry) or _NONE
            else:
                client._set_auth_headers(found)
    except (DockerException, RuntimeError) as error:  # RuntimeError: a credential store that fails
        raise EngineError(f"cannot {doing}: {error}", hint="see whether `docker login` works") from None
    return found
