"""The configuration of the `docker` command: the address of the engine, and credentials of registries.

The address is DOCKER_HOST, else that of the Docker context in use, else the default socket. The Docker SDK
reads the credentials of `docker login`; it is loaded only when the configuration holds some.
"""

from __future__ import annotations

import hashlib
import json
import os
from _thread import allocate_lock
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from launcher.files import read_regular
from launcher.schedulers.docker import DEFAULT_HOST, config_folder
from launcher.schedulers.docker.client.errors import SHAPES, EngineError, EngineUnreachable


class Endpoint(NamedTuple):
    """The address of an engine, and its TLS options: {} without TLS.

    Attributes:
        tls: `client_cert` (certificate, key), None for none; `ca_cert`, None for those of this machine;
            `verify`.
    """

    host: str
    tls: Mapping[str, Any]


_SCHEMES = ("unix", "tcp", "http", "https", "ssh")
_TLS_FILES = ("ca.pem", "cert.pem", "key.pem")


def endpoint(environ: Mapping[str, str] | None = None) -> Endpoint:
    """The address that the `docker` command would use.

    Raises EngineUnreachable for an invalid host or an unknown context.
    """
    environ = os.environ if environ is None else environ
    if host := environ.get("DOCKER_HOST", "").strip():
        return Endpoint(_checked(host, "DOCKER_HOST"), _tls_of(environ))
    config = config_folder(environ)
    name = environ.get("DOCKER_CONTEXT") or _read(os.path.join(config, "config.json")).get("currentContext")
    if not name or name == "default":
        return Endpoint(DEFAULT_HOST, {})
    source = "DOCKER_CONTEXT" if environ.get("DOCKER_CONTEXT") else "currentContext"
    return _context(config, str(name), source)


def is_on_this_host(host: str) -> bool:
    """Whether the engine at this address runs on this machine, so that its containers can be reached.

    Raises ValueError for an invalid address.
    """
    name = urlsplit(host).hostname or ""
    numbers = name.replace(".", "").isdigit()
    return host.startswith("unix://") or name in ("", "localhost", "::1") or (name[:4] == "127." and numbers)


def shares_folders(host: str) -> bool:
    """Whether containers of the engine at `host` can mount folders of this machine; not over a network."""
    return host.startswith("unix://")


def _checked(host: str, source: str) -> str:
    scheme, colons, rest = host.partition("://")
    option = scheme == "ssh" and rest.rpartition("@")[2].startswith(("-", "/"))  # never pass an option to ssh
    relative = scheme == "unix" and not rest.startswith("/")  # a watcher has another working directory
    if not colons or scheme not in _SCHEMES or not rest.strip("/") or option or relative:
        raise EngineUnreachable(
            f"{source} is `{host}`, which is not the address of a Docker engine", hint=SHAPES
        )
    return host


def _tls_of(environ: Mapping[str, str]) -> dict[str, Any]:
    """TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH ask for: verified when the former is not empty."""
    verify, folder = environ.get("DOCKER_TLS_VERIFY"), environ.get("DOCKER_CERT_PATH")
    if not verify and not (environ.get("DOCKER_TLS") and folder):
        return {}
    folder = folder or os.path.join(environ.get("HOME", "/"), ".docker")
    return _tls(folder, verify=bool(verify), source="DOCKER_CERT_PATH")


def _tls(folder: str, *, verify: bool, source: str = "") -> dict[str, Any]:
    """TLS with the files of a folder.

    Args:
        source: the setting that names the folder; then the folder must have all files. Without it the folder
            may have only a CA: then the engine asks for no client certificate.
    """
    paths = [os.path.join(folder, name) for name in _TLS_FILES]
    there = [path if os.path.isfile(path) else None for path in paths]
    missing = [path for path in paths[0 if verify else 1 :] if path not in there]
    if source and missing:
        raise EngineUnreachable(
            f"there is no {missing[0]}, which the TLS of the Docker engine needs",
            hint=f"{source} names the folder with {', '.join(_TLS_FILES)}",
        )
    ca, cert, key = there
    return {
        "client_cert": (cert, key) if cert and key else None,
        "ca_cert": ca if verify else None,
        "verify": verify,
    }


def _context(config: str, name: str, source: str) -> Endpoint:
    """The address of a context. Its files are in folders named by the hash of its name."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    meta = _read(os.path.join(config, "contexts", "meta", digest, "meta.json"))
    docker = _object(_object(meta.get("Endpoints")).get("docker"))
    if not docker.get("Host"):
        known = ", ".join(_names(config)) or "only `default`"
        raise EngineUnreachable(
            f"{source} is `{name}`: there is no such Docker context",
            hint=f"known: {known}; `docker context ls` lists them",
        )
    folder = os.path.join(config, "contexts", "tls", digest, "docker")
    verify = not docker.get("SkipTLSVerify")
    tls = _tls(folder, verify=verify) if os.path.isdir(folder) or not verify else {}
    return Endpoint(_checked(str(docker["Host"]), f"the host of Docker context {name}"), tls)


def _names(config: str) -> list[str]:
    folder = os.path.join(config, "contexts", "meta")
    found: set[str] = set()
    with suppress(OSError):
        for entry in os.listdir(folder):
            with suppress(EngineUnreachable):  # a broken file of another context
                found.add(str(_read(os.path.join(folder, entry, "meta.json")).get("Name") or ""))
    return sorted(found - {""})


def _read(path: str) -> dict[str, Any]:
    """The JSON object in a file; {} for a missing file. Raises EngineUnreachable for a broken one."""
    try:
        found = json.loads(read_regular(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise EngineUnreachable(
            f"cannot read {path}: {error}", hint="fix the file, or set DOCKER_HOST"
        ) from None
    return _object(found)


def _object(value: object) -> dict[str, Any]:
    """A JSON object; {} for another value."""
    return value if isinstance(value, dict) else {}


# Credentials

# The SDK's cache of credentials and the warning filters are shared by the whole process.
_LOGIN = allocate_lock()
_ANY_SOCKET = "unix:///nothing/is/sent/there"
_ANY_VERSION = "1.41"
_NONE = "e30="  # base64 of {}
_HUB = "docker.io"


def login_headers(image: str, doing: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The header with the credentials for the registry of `image`; for all registries when it is "".

    Raises EngineError when they cannot be read, or need the SDK and it is not installed.
    """
    if not _is_logged_in(image, os.environ if environ is None else environ):
        return {"X-Registry-Auth": _NONE} if image else {}
    try:
        return _of_sdk(image, doing)
    except ModuleNotFoundError as error:
        raise EngineError(
            f"cannot {doing} with the credentials of `docker login`: that needs the Python package"
            f" `{error.name or 'docker'}`",
            hint="pip install 'docker>=7'",
        ) from None


def registry_of(image: str) -> str:
    """The registry of an image name: `host:5000/web:1` → `host:5000`; `docker.io` where it has no host."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return _host(first) if is_host else _HUB


def _is_logged_in(image: str, environ: Mapping[str, str]) -> bool:
    """Whether the configuration may hold credentials for the image's registry; for any when it is ""."""
    try:
        configuration = _read(os.path.join(config_folder(environ), "config.json"))
    except EngineUnreachable:
        return True  # broken: the SDK reports the reason
    if configuration.get("credsStore"):
        return True
    known = {_host(str(key)) for part in ("auths", "credHelpers") for key in _object(configuration.get(part))}
    return registry_of(image) in known if image else bool(known)


def _host(key: str) -> str:
    """The host of a registry as the configuration names it, such as `https://index.docker.io/v1/`."""
    host = key.partition("://")[2] or key
    host = host.partition("/")[0]
    return _HUB if host in ("index.docker.io", "registry-1.docker.io") else host


def _of_sdk(image: str, doing: str) -> dict[str, Any]:
    import warnings

    from docker import APIClient, auth  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from docker.errors import DockerException  # type: ignore[import-untyped,import-not-found,unused-ignore]

    found: dict[str, Any] = {}
    try:
        with _LOGIN, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK also raises the problems that it warns of
            client = APIClient(_ANY_SOCKET, version=_ANY_VERSION)
            if image:
                registry, _ = auth.resolve_repository_name(image)
                found["X-Registry-Auth"] = auth.get_config_header(client, registry) or _NONE
            else:
                client._set_auth_headers(found)
    except (DockerException, RuntimeError) as error:  # RuntimeError: a credential store that fails
        raise EngineError(f"cannot {doing}: {error}", hint="see whether `docker login` works") from None
    return found
