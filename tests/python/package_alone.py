"""Uses the Python package where nothing else is installed and no network is: LOG DAMAGED-LOG."""

import sys
import warnings

import tracer


def refused(function, *parts):
    """Checks that a call fails, and that the exception says all of these."""
    try:
        function()
    except tracer.TracerError as error:
        for part in parts:
            assert part in str(error), (part, str(error))
        return error
    raise AssertionError("it did not fail")


path, damaged = sys.argv[1:]
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    log = tracer.open(path)
    rows = list(log.events())
    assert len(rows) > 2_000, len(rows)
    assert [str(one.category.__name__) for one in warned] == ["TracerWarning"], warned
    assert "12 events were lost" in str(warned[0].message), warned[0].message

warnings.simplefilter("ignore", tracer.TracerWarning)
request = next(log.events(types=["request"]).__iter__())
assert request.type == "request" and request.time.tzinfo is not None and isinstance(request.data, dict), request
assert request._asdict()["pid"] == request.pid and "request" in repr(request)
assert sum(row.events for row in log.losses()) == 12
# It was completed: there is nothing to wait for.
assert len(list(log.events(follow=True))) == len(rows)
stat = log.stat()
assert stat.lost == 12 and stat["lost"] == 12 and isinstance(stat.threads, list)
assert log.info().events
assert "<table" in log._repr_html_() and "<table" in log.threads()._repr_html_()
assert log.timeline()._repr_svg_().startswith("<svg")

with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    left = list(tracer.open(damaged).events())
    assert 0 < len(left) <= len(rows)
    assert any("damaged" in str(one.message) for one in warned) or len(left) == len(rows), warned
with warnings.catch_warnings():
    warnings.simplefilter("error", tracer.TracerWarning)
    try:
        list(tracer.open(path).events())
        raise AssertionError("a warning is an error where that is asked for")
    except tracer.TracerWarning:
        pass

assert refused(lambda: tracer.open("/nowhere"), "/nowhere", "No such file", "check the path").remedy
refused(lambda: tracer.open(__file__), "not a trace log", "--log")
refused(lambda: log.events(types=["swich"]), "swich")
refused(lambda: log.events(start="soon"), "soon")
refused(lambda: log.events(start=3, end=2), "start is later than end")
refused(lambda: log.table("event"), "no table", "known are")
refused(lambda: log.events(columns=["nn"]), "nn")
refused(lambda: log.events(filter="pid =="), "filter")
refused(lambda: log.why("nothing-like-this"), "nothing-like-this")
refused(lambda: log.events().to_polars(), "polars is not installed", "pip install polars")
refused(lambda: tracer.sql("select 1", path), "duckdb is not installed")
print("all is as it should be")
