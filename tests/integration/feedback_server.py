"""A real HTTP server on loopback that fails in all ways: each request takes the next of `script`, then all is well."""

import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FeedbackServer:
    def __init__(self, script=(), port=0):
        self.script = list(script)
        self.requests = []
        """(time, status or deed, ids) of each request."""
        self.headers = []
        self.accepted = {}
        """id → item."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                outer._answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _answer(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        deed = self.script.pop(0) if self.script else "ok"
        ids = [item["id"] for item in body["items"]]
        self.requests.append((time.monotonic(), deed, ids))
        self.headers.append(dict(handler.headers))
        if deed == "hang":
            time.sleep(3)
            return
        if deed in ("reset", "taken-then-reset"):
            if deed == "taken-then-reset":
                self._take(body)
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        rejected = []
        if deed == "refuse-first":
            rejected = [{"index": 0, "error": {"message": "the value is no number", "code": "value"}}]
        status, _, wish = deed.partition(":") if deed[0].isdigit() else ("202", "", "")
        if status == "202":
            self._take({"items": body["items"][len(rejected) :]})
        answer = json.dumps({"accepted": len(ids) - len(rejected), "rejected": rejected}).encode()
        handler.send_response(int(status))
        if wish:
            handler.send_header("Retry-After", wish)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _take(self, body):
        for item in body["items"]:
            self.accepted[item["id"]] = item

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def feedback_server(*script, port=0):
    server = FeedbackServer(script, port)
    try:
        yield server
    finally:
        server.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
