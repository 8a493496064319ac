"""A service of two pages that asks a database: the `app` host of the test, run by Debian's own Python.

    service.py ADDRESS DATABASE LIBRARY

Its spans are user events (`request`, with the trace's id from the request's `traceparent`), and its one connection is
guarded by a mutex of the C library, so that requests wait for each other.
"""

import ctypes
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

address, database, library = sys.argv[1:]
trace = ctypes.CDLL(library)
libc = ctypes.CDLL("libc.so.6")
request = ctypes.c_uint32()
assert trace.posix_trace_eventid_open(b"request", ctypes.byref(request)) == 0
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_init(mutex, None)
connection = psycopg2.connect(host=database, dbname="postgres", user="postgres")
connection.autocommit = True


class Pages(BaseHTTPRequestHandler):
    """`/slow` sums a large table, and each other page looks for a file that is not there first."""

    def do_GET(self):
        parent = self.headers.get("traceparent", "")
        named = parent.split("-")[1].encode() if "-" in parent else b""
        trace.posix_trace_begin_np(request, named, len(named))
        query = "select sum(n) from numbers" if self.path == "/slow" else "select max(n) from numbers where n < 1000"
        if self.path != "/slow":
            try:
                os.stat("/srv/pages" + self.path)
            except FileNotFoundError:
                pass
        libc.pthread_mutex_lock(mutex)
        try:
            with connection.cursor() as cursor:
                # As SQLCommenter has it, so that the server's own records name the request.
                cursor.execute(f"{query} /*traceparent='{parent}'*/")
                body = f"{cursor.fetchone()[0]}\n".encode()
        finally:
            libc.pthread_mutex_unlock(mutex)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        trace.posix_trace_end_np(request, named, len(named))

    def log_message(self, *_):
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """A server whose threads do not keep it from ending."""

    daemon_threads = True


Server((address, 8000), Pages).serve_forever()
