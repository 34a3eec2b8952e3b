"""Answers each line with the same line in capital letters."""

import socketserver
import sys
import time


class Shout(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line.upper())


time.sleep(0.5)  # as if it had to load something before it can answer
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", int(sys.argv[1])), Shout).serve_forever()
