"""The engine as the tests see it: plain HTTP on its socket, with no code of ours or of the SDK between."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

DEFAULT_HOST = "unix:///var/run/docker.sock"
TIMEOUT_S = 240.0
_REMOVALS = 25


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Refused(Exception):
    """The engine answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Thing(NamedTuple):
    """An object on the engine that a test may leave behind: a container, network, volume or image."""

    kind: str
    id: str
    name: str
    state: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.name, f"({self.state})" if self.state else "")))


class Daemon:
    """One Docker engine. Every call is one request on one connection."""

    def __init__(self, host: str = "") -> None:
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST

    @property
    def socket_path(self) -> str:
        return self.host.removeprefix("unix://")

    def _connect(self) -> http.client.HTTPConnection:
        if self.host.startswith("unix://"):
            return _Connection(self.socket_path)
        return http.client.HTTPConnection(self.host.partition("://")[2], timeout=TIMEOUT_S)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the engine's answer, parsed when it is JSON. Raises Refused; OSError without an engine."""
        connection = self._connect()
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(answer.status, text.decode(errors="replace").strip())
        is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
        return json.loads(text) if is_json and text else text

    def answers(self) -> bool:
        try:
            self.ask("GET", "/_ping")
        except (OSError, http.client.HTTPException, Refused):
            return False
        return True

    # What is there.

    def containers(self) -> list[Thing]:
        found = self.ask("GET", "/containers/json", all="1")
        return [
            Thing("container", one["Id"], one["Names"][0].lstrip("/"), one["State"], one["Labels"] or {})
            for one in found
            if one["Names"]
        ]

    def networks(self) -> list[Thing]:
        found = self.ask("GET", "/networks")
        return [Thing("network", one["Id"], one["Name"], "", one["Labels"] or {}) for one in found]

    def volumes(self) -> list[Thing]:
        found = self.ask("GET", "/volumes")["Volumes"] or []
        return [Thing("volume", one["Name"], one["Name"], "", one["Labels"] or {}) for one in found]

    def images(self) -> list[Thing]:
        found = self.ask("GET", "/images/json")
        return [
            Thing("image", one["Id"], " ".join(one["RepoTags"] or ["<none>"]), "", one["Labels"] or {})
            for one in found
        ]

    def everything(self) -> list[Thing]:
        return [*self.containers(), *self.networks(), *self.volumes(), *self.images()]

    def inspect(self, container: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/containers/{quote(container)}/json")
        return found

    # What tests do behind the launcher's back.

    def stop(self, container: str, *, grace_s: int = 0) -> None:
        self.ask("POST", f"/containers/{container}/stop", t=str(grace_s))

    def kill(self, container: str) -> None:
        self.ask("POST", f"/containers/{container}/kill")

    def tag(self, image: str, name: str) -> None:
        repo, _, version = name.rpartition(":")
        self.ask("POST", f"/images/{quote(image)}/tag", repo=repo, tag=version)

    def remove_image(self, name: str) -> None:
        """Remove an image by force: a busy engine may count a removed container of it for ever."""
        self.remove([Thing("image", name, name, "", {})])

    def remove(self, things: Iterable[Thing]) -> None:
        """Remove by force, containers first: they use the others. Skips objects that are gone or in use."""
        order = ("container", "network", "volume", "image")
        for thing in sorted(things, key=lambda one: order.index(one.kind)):
            query = {} if thing.kind == "network" else {"force": "1"}
            if thing.kind == "container":
                query["v"] = "1"
            self._delete(f"/{thing.kind}s/{quote(thing.id)}", query)

    def release(self, network: Thing) -> None:
        """Disconnect containers that are gone from a network: a busy engine may have kept their endpoints."""
        here = {container.id for container in self.containers()}
        for container in self._endpoints(network):
            if container not in here:
                with contextlib.suppress(Refused):  # the engine has seen to it by now
                    body = {"Container": container, "Force": True}
                    self.ask("POST", f"/networks/{network.id}/disconnect", body)

    def miscounts(self, network: Thing) -> bool:
        """Return whether the engine refuses to remove a network for its endpoints, and lists none.

        It may miss the end of an endpoint, and then counts it until it is restarted.
        """
        try:
            self.ask("DELETE", f"/networks/{network.id}")
        except Refused as refused:
            return "has active endpoints" in str(refused) and not self._endpoints(network)
        return False

    def _endpoints(self, network: Thing) -> dict[str, Any]:
        """Container id → its endpoint in a network."""
        found: dict[str, Any] = self.ask("GET", f"/networks/{network.id}").get("Containers") or {}
        return found

    def with_endpoints(self, network: Thing) -> Thing:
        """Return the network; its state names the containers that are in it."""
        found = self._endpoints(network).items()
        names = [f"{one['Name']} {container[:12]}" for container, one in found]
        return network._replace(state=f"in it: {', '.join(names) or 'none'}")

    def _delete(self, path: str, query: dict[str, str]) -> None:
        """Ask again where the engine met a log that it was still writing: the container stays "removing"."""
        for attempt in range(_REMOVALS):
            try:
                self.ask("DELETE", path, **query)
                return
            except Refused as refused:
                if refused.status in (403, 404, 409) or "unrecognized image ID" in str(refused):
                    return  # the last one: an image that another process removes at this moment
                if "directory not empty" not in str(refused) or attempt == _REMOVALS - 1:
                    raise
                time.sleep(0.2)


def is_ours(thing: Thing) -> bool:
    """Return whether launcher or its tests made the object."""
    named = thing.name == "launcher" or thing.name.startswith(("launcher-test/", "launcher-workspace:"))
    return any(label.startswith("launcher.") for label in thing.labels) or named


def reason() -> str:
    """Return why the tests cannot use Docker here; "" when they can."""
    if not Daemon().answers():
        return f"no Docker engine answers on {Daemon().host}; tests/engines/dockerd up DIR starts one"
    missing = [name for name in ("docker", "busybox") if not shutil.which(name)]
    return f"there is no `{'`, no `'.join(missing)}` command to make images with" if missing else ""
