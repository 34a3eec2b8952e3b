"""The texts of a compose file: `${VAR}` as variables, services as hosts, remedies for keys without place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from launcher.convert.draft import Draft, masked
from launcher.dataclass import dataclass
from launcher.specs.macros import escape
from launcher.specs.secret import is_sensitive

COMMANDS: Mapping[str, Sequence[str]] = {
    "httpd": ["httpd-foreground"],
    "influxdb": ["influxd"],
    "mariadb": ["mariadbd"],
    "memcached": ["memcached"],
    "mongo": ["mongod"],
    "mysql": ["mysqld"],
    "nginx": ["nginx", "-g", "daemon off;"],
    "postgres": ["postgres"],
    "rabbitmq": ["rabbitmq-server"],
    "redis": ["redis-server"],
    "valkey": ["valkey-server"],
    "zookeeper": ["zkServer.sh", "start-foreground"],
}
"""Official image → its own command."""
REASONS: Mapping[str, str] = {
    "annotations": "`metadata` of the role is for people and tools",
    "blkio_config": "containers share the disk alike",
    "build": "`docker compose build` makes the image; or put the files into `workspace`, with its Dockerfile",
    "cap_drop": "containers keep the capabilities of the engine",
    "cgroup": "containers have the cgroup of the engine",
    "configs": "mount the file: `type=bind,src=./FILE,dst=/FILE,readonly`",
    "container_name": "launcher names containers after the app; roles find each other by `$<role.NAME.host>`",
    "cpu_shares": "`resource: {cpu: …}` is a limit",
    "cpuset": "`resource: {cpu: …}` limits how many cores it takes",
    "develop": "a change of `workspace` runs the job again",
    "dns": "containers have the name servers of the engine",
    "domainname": "roles find each other by `$<role.NAME.host>`",
    "env_file": "it is not read: name each variable in `env`, secrets as `{secret: env:NAME}`",
    "extends": "write the fields of that service here, or give `docker compose config` to convert",
    "external_links": "containers of other apps are not on this network: `network` in cfg names another one",
    "group_add": "containers have the groups of their user",
    "hostname": "roles find each other by `$<role.NAME.host>`",
    "include": "give `docker compose config` to convert, which puts all files into one",
    "ipc": "containers have an IPC namespace of their own",
    "isolation": "launcher runs Linux containers",
    "labels": "`metadata` of the role is for people and tools",
    "logging": "launcher keeps the output for `launcher logs`: see log_max_size in cfg",
    "mac_address": "the engine chooses it",
    "mem_reservation": "`resource: {memory: …}` is a limit",
    "mem_swappiness": "it belongs to the engine's host",
    "memswap_limit": "it belongs to the engine's host",
    "networks": "all roles of a job are on one network; `network` in cfg names another one",
    "oom_kill_disable": "it belongs to the engine's host",
    "oom_score_adj": "it belongs to the engine's host",
    "pid": "containers have a PID namespace of their own",
    "pids_limit": "containers have no such limit",
    "platform": "name an image of that platform by its digest",
    "runtime": "`resource: {gpu: 1}` gives it GPUs",
    "secrets": "`{secret: file:PATH}` gives it to a variable in `env`",
    "security_opt": "containers have the security options of the engine",
    "stdin_open": "replicas read nothing from standard input",
    "stop_signal": "replicas get TERM, and KILL after grace_s of cfg",
    "storage_opt": "it belongs to the engine",
    "sysctls": "containers have those of the engine",
    "tty": "output is kept without a terminal",
    "userns_mode": "it belongs to the engine",
    "uts": "containers have a host name of their own",
    "volumes_from": "name the same volumes in `mounts`",
}
"""Key of a service, or of the file → the text on what to do instead."""

_DOLLAR = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?P<sign>:?[-?+])?)"
)
_HOST_KEY = re.compile(r"(?i)host|server|addr|endpoint|broker|node|upstream|(?:^|_)(?:db|url)$|^-h$")


class Invalid(ValueError):
    """Compose also refuses the value. The message is for users, and contains no secret."""


class TextPiece(NamedTuple):
    """A piece of a text: literal text, or the variable `name` with a default (None: it has none)."""

    text: str
    name: str = ""
    default: str | None = None
    odd: str = ""
    """The expression as written, if no variable of the job has the same meaning."""


def parts(text: str) -> list[TextPiece]:
    """Split a text into parts as Compose does. Raises Invalid for a text that Compose refuses."""
    found: list[TextPiece] = []
    at = 0
    while token := _DOLLAR.search(text, at):
        literal = text[at : token.start()] + ("$" if token["dollar"] else "")
        at = token.end()
        found.append(TextPiece(literal))
        if token["plain"]:
            found.append(TextPiece("", token["plain"]))
        elif token["name"]:
            end = _closing(text, at)
            whole = text[token.start() : end + 1]
            found.append(_variable(token["name"], token["sign"] or "", text[at:end], whole))
            at = end + 1
    return _joined([*found, TextPiece(text[at:])])


def _closing(text: str, at: int) -> int:
    depth = 1
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return end
    raise Invalid("a `${` is not closed")


def _variable(name: str, sign: str, rest: str, written: str) -> TextPiece:
    if not sign and rest:
        raise Invalid(f"`{written}` is no expression")
    if sign.endswith("-"):
        inner = parts(rest)
        text = "".join(part.default or "" if part.name else part.text for part in inner)
        return TextPiece("", name, text, written if any(part.name for part in inner) else "")
    return TextPiece("", name, None, written if sign.endswith("+") else "")


def _joined(found: Sequence[TextPiece]) -> list[TextPiece]:
    """Join neighbouring literals, since a `$` may precede text that reads as a reference."""
    out: list[TextPiece] = []
    for part in found:
        if not part.name and out and not out[-1].name:
            out[-1] = TextPiece(out[-1].text + part.text)
        elif part.name or part.text:
            out.append(part)
    return out


@dataclass(slots=True)
class Texts:
    """Writes the texts of roles.

    Attributes:
        hosts: name under which a service is reached → role.
    """

    draft: Draft
    hosts: Mapping[str, str]

    def literal(self, text: str) -> str:
        """Return a text for a place without references. Raises Invalid for a variable without a default."""
        found = parts(text)
        if missing := [part.name for part in found if part.name and part.default is None]:
            raise Invalid(f"`{missing[0]}` has no default, and no reference can stand here")
        return "".join(part.default or "" if part.name else part.text for part in found)

    def value(self, text: str, key: str | None = None) -> str:
        """Return a text with references.

        Args:
            key: the variable or option that has the value: `REDIS_HOST: redis` is a host, `NAME: redis` none.
                None where a host is not possible.
        """
        return "".join(self._written(part, key) for part in parts(text))

    def variable(self, role: str, name: str, text: str | None) -> None:
        """Set a variable of a role; None stands for its value in the environment of Compose."""
        found = parts(text) if text is not None else [TextPiece("", name)]
        names = [part.name for part in found if part.name]
        literal = "".join(part.text or part.default or "" for part in found)
        is_hidden = masked(literal) != literal or any(map(is_sensitive, names))
        if is_hidden or (is_sensitive(name) and text != ""):
            is_one = len(found) == 1 and names != []
            self.draft.hide(role, name, literal, names[0] if is_one else "")
            return
        written = self._written(found[0], None) if text is None else self.value(text, name)
        self.draft.put(("roles", role, "env", name), written)

    def command(self, role: str, words: Sequence[str], *, finds_hosts: bool = True) -> list[str]:
        """Return a command line as a list, run by a shell where it holds a secret."""
        pairs = zip(["", *words], words, strict=False)
        is_secret = any(is_sensitive(part.name) for word in words for part in parts(word) if part.name)
        if not is_secret and not self.draft.has_secret(words):
            return [self.value(word, before if finds_hosts else None) for before, word in pairs]
        line = " ".join(map(self._quoted, words))
        text = self.draft.shell_text(role, f"exec {line}")
        text = "".join(self._hosts(text, "" if finds_hosts else None, str))
        return ["sh", "-c", self._filled(text, words, role)]

    def shell_text(self, role: str, text: str) -> str:
        """Return text for a shell in the container, without hosts: for probes, which take no run macros."""
        return self._filled(self.draft.shell_text(role, self._plain(text)), [text], role)

    def _quoted(self, word: str) -> str:
        made = [f'"{_mark(part.name)}"' if part.name else shlex.quote(part.text) for part in parts(word)]
        return "".join(made) or "''"

    def _plain(self, text: str) -> str:
        return "".join(_mark(part.name) if part.name else part.text for part in parts(text))

    def _filled(self, text: str, texts: Sequence[str], role: str) -> str:
        """Return text for a shell with its variables; the shell expands variables of secrets."""
        for part in (part for each in texts for part in parts(each) if part.name):
            if is_sensitive(part.name):
                self.draft.hide(role, part.name)
                text = text.replace(_mark(part.name), f"${{{part.name}}}")
            else:
                text = text.replace(_mark(part.name), self._written(part, None))
        return text

    def _written(self, part: TextPiece, key: str | None) -> str:
        if not part.name:
            return "".join(self._hosts(part.text, key))
        if part.odd:
            why = "a variable has one default: `$<var.NAME>` is the value, with nothing put in its place"
            self.draft.lose(("vars", part.name), part.odd, why)
        self.declare(part)
        return f"$<var.{part.name}>"

    def declare(self, part: TextPiece) -> None:
        """Declare a variable of the job, which the environment may set, with the default of its first use."""
        at = ("vars", part.name)
        known = self.draft.fields.get("vars", {}).get(part.name)
        if part.default is not None and escape(masked(part.default)) != part.default:
            why = "a default can neither read as a reference nor hold a secret: give the value with --var"
            self.draft.lose(at, f"the default of {part.name}", why)
            part = part._replace(default=None)
        default = {} if part.default is None else {"default": part.default}
        if known is None:
            self.draft.put(at, {"type": "str", **default, "from_env": part.name})
        elif part.default is not None and known.setdefault("default", part.default) != part.default:
            self.draft.lose(at, f"another default of {part.name}", "a variable has one default")

    def _hosts(self, text: str, key: str | None, change: Callable[[str], str] = escape) -> Iterator[str]:
        """Yield the pieces of a changed literal text; services that it names become references."""
        if key is None or not self.hosts:
            yield change(text)
            return
        names = "|".join(sorted(map(re.escape, self.hosts), key=len, reverse=True))
        pattern = rf"(?:(?<=//)|(?<=@))(?:{names})(?=[/:?,]|\Z)|(?<![\w./$<-])(?:{names})(?=:(?:\d|\Z))"
        if _HOST_KEY.search(key):
            pattern += rf"|\A(?:{names})\Z"
        at = 0
        for found in re.finditer(pattern, text):
            yield change(text[at : found.start()])
            yield f"$<role.{self.hosts[found[0]]}.host>"
            at = found.end()
        yield change(text[at:])


def _mark(name: str) -> str:
    """Return a mark that represents a variable while its text is quoted and escaped."""
    return f"\0{name}\0"
