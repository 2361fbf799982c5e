"""Compares the speed of an analysis with DuckDB computing the same percentiles of the same file, on the same cores.

    go build -o /tmp/synthrun ./analyze/internal/synthrun
    python analyze/testdata/bench_duckdb.py /tmp/synthrun [--rows 10000000] [--chunks 32] [--dir DIR]

Needs duckdb. The file is made once and kept in DIR (the folder for temporary files); 10 million rows with 32
chunks each take some 5 GB. Prints, for turns alone and with chunk figures, the seconds and the peak memory of
both, and the ratio of "parley" to DuckDB. The line "all" has the intervals too, with conversations as clusters.
Both of parley's times include what DuckDB is not asked for: counts by status, rates, peak in flight, the verdict.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

TURNS = ["ttft", "ttft_start", "ttft_scheduled", "tpot", "tpot_request", "e2e", "e2e_scheduled", "send_lag"]

SQL_TURNS = """
select {columns} from (select
    (first_token_ns - sent_ns) / 1e6 as ttft, (first_token_ns - start_ns) / 1e6 as ttft_start, (first_token_ns - scheduled_ns) / 1e6 as ttft_scheduled,
    tpot_ms as tpot, case when completion_tokens > 1 then (last_token_ns - first_token_ns) / 1e6 / (completion_tokens - 1) end as tpot_request,
    (last_token_ns - sent_ns) / 1e6 as e2e, (last_token_ns - scheduled_ns) / 1e6 as e2e_scheduled, (sent_ns - scheduled_ns) / 1e6 as send_lag
    from read_parquet('{file}') where status = 'ok' and phase <> 'warmup')
"""

SQL_GAPS = """
select quantile_cont(gap, [0.5, 0.9, 0.95, 0.99]), avg(gap), max(gap) from (
    select unnest(list_transform(range(2, len(chunk_ns) + 1), lambda i: (chunk_ns[i] - chunk_ns[i - 1]) / 1e6)) as gap
    from read_parquet('{file}') where status = 'ok' and phase <> 'warmup')
"""

SQL_ITL = """
select quantile_cont(itl, [0.5, 0.9, 0.95, 0.99]), avg(itl), max(itl) from (
    select unnest(list_resize([(chunk_ns[i] - chunk_ns[i - 1]) / 1e6 / chunk_tokens[i]], chunk_tokens[i], (chunk_ns[i] - chunk_ns[i - 1]) / 1e6 / chunk_tokens[i])) as itl
    from (select chunk_ns, chunk_tokens, unnest(range(2, len(chunk_ns) + 1)) as i
        from read_parquet('{file}') where status = 'ok' and phase <> 'warmup') where chunk_tokens[i] > 0)
"""


def duckdb_child(file, kind, threads):
    """Runs in a process of its own, so that its peak memory is its own."""
    import duckdb

    db = duckdb.connect()
    db.execute(f"set threads = {threads}")
    columns = ", ".join(f"quantile_cont({f}, [0.5, 0.9, 0.95, 0.99]), avg({f}), stddev_samp({f}), min({f}), max({f})" for f in TURNS)
    print(db.execute(SQL_TURNS.format(columns=columns, file=file)).fetchall())
    if kind == "chunks":
        print(db.execute(SQL_GAPS.format(file=file)).fetchall())
        print(db.execute(SQL_ITL.format(file=file)).fetchall())


def measure(command):
    """Seconds and peak memory in MB of a command."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        return None, usage.ru_maxrss / 1024, seconds
    return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("synthrun")
    parse.add_argument("--rows", type=int, default=10_000_000)
    parse.add_argument("--chunks", type=int, default=32)
    parse.add_argument("--dir", default=tempfile.gettempdir())
    parse.add_argument("--kinds", default="turns,chunks")
    parse.add_argument("--child", nargs=2)
    args = parse.parse_args()
    threads = len(os.sched_getaffinity(0))
    if args.child:
        return duckdb_child(args.child[0], args.child[1], threads)
    file = os.path.join(args.dir, f"parley-bench-{args.rows}-{args.chunks}.parquet")
    if not os.path.exists(file):
        subprocess.run([args.synthrun, "-o", file, "-rows", str(args.rows), "-chunks", str(args.chunks), "-clean"], check=True)
    print(f"{os.path.getsize(file) / 1e9:.2f} GB, {threads} cores")
    print(f"{'figures':10} {'tool':8} {'seconds':>8} {'CPU s':>8} {'peak MB':>8}")
    failed = False
    for kind in args.kinds.split(","):
        figures = [] if kind == "chunks" else ["-figures", ",".join(TURNS)]
        open(file, "rb").read(1)
        command = [args.synthrun, "-o", file, "-conversations", "0", "-json", os.devnull, "-window", "all", *figures]
        full = measure(command)
        ours = measure([*command, "-no-intervals"])
        theirs = measure([sys.executable, __file__, args.synthrun, "--child", file, kind])
        for tool, m in (("all", full), ("parley", ours), ("DuckDB", theirs)):
            print(f"{kind:10} {tool:8} {'failed' if m[0] is None else f'{m[0]:.1f}':>8} {m[2]:8.1f} {m[1]:8.0f}")
        if ours[0] and theirs[0]:
            print(f"{kind:10} ratio    {ours[0] / theirs[0]:8.2f}")
            failed = failed or ours[0] > 1.5 * theirs[0]
        failed = failed or ours[0] is None
    return 1 if failed else 0


sys.exit(main())
