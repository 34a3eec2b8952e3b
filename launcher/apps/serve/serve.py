"""Register a model with TorchServe: serve its archive over HTTP, and give the management API its address."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

PORT = 8222


def main(argv: Sequence[str] | None = None) -> int:
    """Register the model, with further `--name value` pairs as parameters. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="serve", description="Register a model with TorchServe.")
    parser.add_argument("--model_path", required=True, help="path of the model archive")
    parser.add_argument("--management_api", required=True, help="such as http://localhost:8081")
    parser.add_argument("--port", type=int, default=PORT, help="port to offer the archive on")
    parser.add_argument("--host", default="", help="our address as the server sees it")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for the registration")
    parser.add_argument("--dryrun", action="store_true", help="print the registration, make none")
    args, more = parser.parse_known_args(argv)
    if len(more) % 2 or not all(word.startswith("--") for word in more[::2]):
        parser.error(f"want --name value pairs, got {' '.join(more)}")
    path = os.path.abspath(args.model_path)
    host = args.host or socket.gethostname()
    params = dict(zip((word[2:] for word in more[::2]), more[1::2], strict=True))
    where = f"http://{host}:{args.port}/{quote(os.path.basename(path))}"
    url = f"{args.management_api.rstrip('/')}/models?{urlencode({**params, 'url': where})}"
    print(f"POST {url}", flush=True)
    if args.dryrun:
        return 0
    try:
        os.stat(path)
        request = Request(url, method="POST")
        with _offered(os.path.dirname(path), args.port), urlopen(request, timeout=args.timeout) as answer:
            print(answer.read().decode(errors="replace"))
    except (OSError, URLError) as error:
        print(f"error: the model was not registered: {error}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _offered(folder: str, port: int) -> Iterator[None]:
    """Serve the files of a folder over HTTP while the block runs."""
    server = ThreadingHTTPServer(("", port), partial(SimpleHTTPRequestHandler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    sys.exit(main())
