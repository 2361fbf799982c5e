"""Reads parley's files with two independent readers, DuckDB and pyarrow, and compares what they say.

usage: read_files.py CONVERSATIONS REQUESTS [TELEMETRY]
"""
import json
import sys

import duckdb
import pyarrow.parquet as pq


def check(condition, text):
    if not condition:
        sys.exit(f"read_files: {text}")


def metadata(path, kind):
    footer = {k.decode(): v.decode() for k, v in pq.read_metadata(path).metadata.items()}
    check(footer["parley.kind"] == kind, f"{path}: kind {footer.get('parley.kind')}")
    check(footer["parley.version"].split(".")[0] == "1", f"{path}: version {footer['parley.version']}")
    return json.loads(footer["parley.meta"])


def both(path, query):
    """One figure by DuckDB, and the rows by pyarrow."""
    return duckdb.sql(query.format(f"read_parquet('{path}')")).fetchall()[0], pq.read_table(path)


conversations, requests = sys.argv[1:3]

meta = metadata(conversations, "conversations")
(n, turns, messages), table = both(
    conversations, "select count(*), sum(len(turns)), sum(len(messages)) from {}"
)
rows = table.to_pylist()
check(n == len(rows) == meta["conversations"] > 0, f"{n} conversations, {len(rows)}, {meta['conversations']}")
check(turns == sum(len(r["turns"]) for r in rows) == meta["turns"], "turns differ")
check(messages == sum(len(r["messages"]) for r in rows), "messages differ")
for r in rows:
    check(all(m["role"] in ("system", "developer", "user", "assistant", "tool") for m in r["messages"]), "a role")
    check(all(0 < t["message_index"] <= len(r["messages"]) for t in r["turns"]), "a message index")

run = metadata(requests, "requests")
check(run["dataset"]["content_hash"] == meta["content_hash"], "the run's dataset is another one")
(n, chunks, first, tags), table = both(
    requests,
    "select count(*), sum(len(chunk_ns)), sum(chunk_ns[1]), count(*) filter (tags is not null) from {}",
)
rows = table.to_pylist()
check(n == len(rows) == run["planned"] == run["rows"] > 0, f"{n} rows, planned {run['planned']}")
check(chunks == sum(len(r["chunk_ns"]) for r in rows) > 0, "chunk times differ")
check(first == sum(r["chunk_ns"][0] for r in rows if r["chunk_ns"]), "first chunks differ")
counts = {}
for r in rows:
    counts[r["status"]] = counts.get(r["status"], 0) + 1
    if r["status"] != "ok":
        continue
    moments = [r[c] for c in ("start_ns", "sent_ns", "first_byte_ns", "first_event_ns", "first_token_ns", "last_token_ns", "done_ns")]
    check(None not in moments and moments == sorted(moments), f"{r['request_id']}: moments {moments}")
    check(r["chunk_ns"] == sorted(r["chunk_ns"]) and r["chunk_ns"][0] == r["first_token_ns"], "chunk times")
    check(abs(r["ttft_ms"] - (r["first_token_ns"] - r["sent_ns"]) / 1e6) < 1e-9, "ttft_ms")
check(counts == {k: v for k, v in run["counts"].items() if v}, f"statuses {counts}, metadata {run['counts']}")

for path in sys.argv[3:]:
    metadata(path, "telemetry")
    (n, names), table = both(path, "select count(*), count(distinct name) from {}")
    check(n == table.num_rows > 0 and names > 3, f"{path}: {n} samples of {names} figures")

fields = pq.read_schema(requests)
lack = [f.name for f in fields if not (f.metadata or {}).get(b"doc")]
if lack or fields.field("ttft_ms").metadata.get(b"unit") != b"ms":
    sys.exit(f"pyarrow shows no meaning of {lack}, or no unit of ttft_ms")
print(f"DuckDB {duckdb.__version__} and pyarrow read {len(rows)} rows and {chunks} chunk times alike")
