"""Reads comma-separated values with Python's own reader; prints the rows as JSON lines."""

import csv
import json
import sys

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    for row in csv.DictReader(file, strict=True):
        print(json.dumps(row))
