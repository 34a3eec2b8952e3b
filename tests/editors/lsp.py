"""A client of a language server over stdio: opens a text, reads its findings, asks for completions."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ANSWER_S = 60.0  # a loaded machine starts node in many seconds

SETTINGS = {
    "yaml": {
        "validate": True, "hover": True, "completion": True,
        "schemaStore": {"enable": False},  # nothing is fetched
        "kubernetesCRDStore": {"enable": False},
    },
    "http": {},
}  # fmt: skip
CAPABILITIES = {
    "workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}},
    "textDocument": {
        "publishDiagnostics": {},
        "hover": {"contentFormat": ["markdown"]},
        "completion": {
            "completionItem": {"snippetSupport": True, "documentationFormat": ["markdown", "plaintext"]}
        },
    },
}


class Finding(NamedTuple):
    """A diagnostic of the server: the text that it underlines, and its words. Lines count from 1."""

    line: int
    marked: str
    message: str


class Item(NamedTuple):
    """A completion: what the list shows, what is put in, what is said about it."""

    label: str
    text: str
    words: str


class Server:
    """A running language server. One text at a time is enough for tests."""

    def __init__(self, argv: Sequence[str], folder: Path) -> None:
        self.folder = folder
        self._number = 0
        self._heard: queue.Queue[Mapping[str, Any]] = queue.Queue()
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder
        )
        threading.Thread(target=self._listen, daemon=True).start()
        root = {"rootUri": folder.as_uri(), "workspaceFolders": None, "processId": None}
        self._ask("initialize", {**root, "capabilities": CAPABILITIES})
        self._say("initialized", {})
        self._say("workspace/didChangeConfiguration", {"settings": SETTINGS})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._ask("shutdown", None)
        self._say("exit", None)
        self._process.communicate(timeout=ANSWER_S)

    def findings(self, text: str) -> list[Finding]:
        """Return the findings of the server about a text, from top to bottom."""
        return self.findings_in([text])[0]

    def findings_in(self, texts: Sequence[str]) -> list[list[Finding]]:
        """Return the findings in each of several texts, open at once: the server waits before each text."""
        opened = {self._open(text): text for text in texts}
        found: dict[str, list[Finding]] = {}
        while len(found) < len(opened):
            events = self._wait(lambda message: message.get("method") == "textDocument/publishDiagnostics")
            uri, problems = events["params"]["uri"], events["params"]["diagnostics"]
            if uri in opened:
                found[uri] = sorted(_finding(opened[uri], problem) for problem in problems)
        for uri in opened:
            self._close(uri)
        return [found[uri] for uri in opened]

    def complete(self, text: str) -> dict[str, Item]:
        """Return the completions at the mark `|` in a text, by label."""
        text, position = _marked(text)
        uri = self._open(text)
        got = self._ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})
        self._close(uri)
        items = got["items"] if isinstance(got, dict) else got or []
        return {item["label"]: _item(item) for item in items}

    def hover(self, text: str) -> str:
        """Return the explanation of the server for the mark `|` in a text, as Markdown."""
        text, position = _marked(text)
        uri = self._open(text)
        got = self._ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})
        self._close(uri)
        return str(got["contents"]["value"]) if got else ""

    def _open(self, text: str) -> str:
        self._number += 1  # a name of its own: nothing said about another text can be taken for an answer
        uri = (self.folder / f"job-{self._number}.launcher.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._say("textDocument/didOpen", {"textDocument": document})
        return uri

    def _close(self, uri: str) -> None:
        self._say("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _ask(self, method: str, params: Any) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        answer = self._wait(lambda message: message.get("id") == number and "method" not in message)
        assert "error" not in answer, answer
        return answer["result"]

    def _say(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _wait(self, wanted: Any) -> Mapping[str, Any]:
        """Return the next message that is `wanted`; the server's own questions are answered on the way."""
        while True:
            message = self._heard.get(timeout=ANSWER_S)
            if wanted(message):
                return message
            if "id" in message and "method" in message:
                self._send({"id": message["id"], "result": _answer(message)})

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream
        while line := stream.readline():
            size = int(line.partition(b":")[2])
            while stream.readline().strip():
                pass  # further headers
            self._heard.put(json.loads(stream.read(size)))


def _answer(message: Mapping[str, Any]) -> Any:
    if message["method"] == "workspace/configuration":
        return [SETTINGS.get(item.get("section", ""), {}) for item in message["params"]["items"]]
    return None


def _marked(text: str) -> tuple[str, dict[str, int]]:
    before, mark, after = text.partition("|")
    assert mark, "the text has no mark"
    lines = before.split("\n")
    return before + after, {"line": len(lines) - 1, "character": len(lines[-1])}


def _finding(text: str, found: Mapping[str, Any]) -> Finding:
    start, end = found["range"]["start"], found["range"]["end"]
    line = [*text.split("\n"), ""][start["line"]]
    last = end["character"] if end["line"] == start["line"] else len(line)
    return Finding(start["line"] + 1, line[start["character"] : last], found["message"])


def _item(item: Mapping[str, Any]) -> Item:
    words = item.get("documentation") or ""
    text = item.get("textEdit", {}).get("newText") or item.get("insertText") or item["label"]
    return Item(item["label"], text, words["value"] if isinstance(words, dict) else words)
