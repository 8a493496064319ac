"""A web server under ddtrace, with its own load, that says in its system calls for which span it works.

traced_server.py REQUESTS SPANS: serves so many requests in eight threads, and writes the spans that the tracer
exports to the file SPANS, as lines of JSON. Within each span, calls of stat() have paths that name it.
"""

import http.server
import json
import os
import sys
import threading
import time
import urllib.request

from ddtrace.trace import TraceFilter, tracer

requests, exported = int(sys.argv[1]), open(sys.argv[2], "w")


class Export(TraceFilter):
    def process_trace(self, trace):
        for span in trace:
            line = {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}", "name": span.name}
            exported.write(json.dumps({**line, "start": span.start_ns, "duration": span.duration_ns}) + "\n")
        exported.flush()


def mark():
    span = tracer.current_span()
    name = f"{span.trace_id:032x}/{span.span_id:016x}" if span else "none"
    try:
        os.stat(f"/works-for/{name}")
    except OSError:
        pass


def work():
    os.getppid()
    time.sleep(0.0005)
    with open(os.devnull) as nothing:
        nothing.read()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        mark()
        with tracer.trace("request"):
            mark()
            work()
            mark()
            for _ in range(3):
                with tracer.trace("query"):
                    mark()
                    work()
                    mark()
            mark()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"done")
            mark()
        mark()
        os.getppid()
        mark()

    def log_message(self, *_):
        pass


def ask(url, count):
    for _ in range(count):
        urllib.request.urlopen(url).read()


# What is exported goes to the file, and to no agent.
tracer.configure(trace_processors=[Export()])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
url = f"http://127.0.0.1:{server.server_port}/"
threading.Thread(target=server.serve_forever, daemon=True).start()
time.sleep(2)
clients = [threading.Thread(target=ask, args=(url, requests // 8)) for _ in range(8)]
for client in clients:
    client.start()
for client in clients:
    client.join()
time.sleep(0.5)
tracer.flush()
exported.flush()
server.shutdown()
