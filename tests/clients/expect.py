"""Compares what the clients saw with what is promised. Usage: expect.py FOLDER NAME…"""

import json
import pathlib
import sys

FOLDER, NAMES = pathlib.Path(sys.argv[1]), sys.argv[2:]

# What each client lets its caller read of a refusal by the tool's limit: the HTTP status, or the JSON-RPC error with its
# data. The message, with scope and wait, reaches the caller of every one.
STATUS_ONLY = {"typescript-sdk", "typescript-client"}
LEGACY_CODE, MODERN_CODE = -32029, 429
CODES = {
    "python-mcp-1": LEGACY_CODE,
    "python-mcp-2": MODERN_CODE,
    "python-mcp-2-legacy": LEGACY_CODE,
    "fastmcp-3": LEGACY_CODE,
}

failures = []


def check(name, what, good, seen):
    if not good:
        failures.append(f"{name}: {what}; saw {seen}")


for name in NAMES:
    seen = json.loads((FOLDER / f"{name}.json").read_text())
    refusal = seen["refusal"] or {}
    text = refusal.get("text", "")
    check(name, "five exports are served", seen["served"] == 5, seen["served"])
    check(name, "the message names tool, limit and wait", "'export'" in text and "5 requests / 60s" in text, text)
    check(name, "the session goes on", seen["again"], seen)
    if name in STATUS_ONLY:
        check(name, "the status is readable", 429 in (refusal.get("status"), refusal.get("code")), refusal)
        continue
    data = refusal.get("data")
    if name in CODES:
        check(name, f"the code is {CODES[name]}", refusal.get("code") == CODES[name], refusal)
        check(name, "the data are readable", bool(data) and data.get("scope") == "tool", refusal)
    print(f"{name}: {refusal['type']} {refusal['code']}: {text}")

for failure in failures:
    print(failure, file=sys.stderr)
print(f"{len(NAMES)} clients, {len(failures)} failures")
sys.exit(bool(failures))
