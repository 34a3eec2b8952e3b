"""A parameter server, workers that fit y = 3x + 1 on parts of the data, and a check of what they learned."""

import sys
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCServer

RATE, STEPS = 0.1, 400


def serve(port: str) -> None:
    weights = [0.0, 0.0]

    def push(slope: float, offset: float) -> None:
        weights[0] -= RATE * slope
        weights[1] -= RATE * offset

    server = SimpleXMLRPCServer(("", int(port)), logRequests=False, allow_none=True)
    server.register_function(push)
    server.register_function(lambda: weights, "pull")
    server.serve_forever()


def work(host: str, port: str, part: str) -> None:
    xs = [n / 10 for n in range(int(part), 20, 2)]
    with ServerProxy(f"http://{host}:{port}", allow_none=True) as server:
        for _ in range(STEPS):
            slope, offset = server.pull()
            errors = [slope * x + offset - (3 * x + 1) for x in xs]
            server.push(sum(e * x for e, x in zip(errors, xs, strict=True)) / len(xs), sum(errors) / len(xs))
    print(f"part {part} is done")


def check(host: str, port: str) -> None:
    with ServerProxy(f"http://{host}:{port}") as server:
        slope, offset = server.pull()
    print(f"learned {slope:.2f} and {offset:.2f}")
    assert abs(slope - 3) < 0.05 > abs(offset - 1)


{"serve": serve, "work": work, "check": check}[sys.argv[1]](*sys.argv[2:])
