"""Compares the cost of an analysis with that of DuckDB and polars working out a part of it from the same file.

    make bench-analyze                      # 1 million rows, 54 million gaps; PARLEY_PYTHON has duckdb and polars
    python analyze/testdata/bench_duckdb.py /tmp/synthrun [--rows 1000000] [--chunks 63] [--dir DIR]

parley works out all of its default figures by turn index: every latency, ITL and chunk gaps, intervals, rates,
the window, the verdict. DuckDB and polars are asked for p50, p90, p95 and p99 of TTFT, TPOT, E2E and of all gaps,
by turn index and in all, and for nothing else; polars has no streaming quantile, so it collects. Each runs in a
process of its own on the same number of threads, with its default memory limit. Prints CPU seconds, seconds and
peak memory of each, and the ratios of parley to DuckDB; exits 1 if CPU is above 1.2 times DuckDB's, or memory
above it. The file is made once and kept in DIR (the folder for temporary files).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = """select turn, (first_token_ns - sent_ns) / 1e6 as ttft, tpot_ms as tpot, (last_token_ns - sent_ns) / 1e6 as e2e
    from read_parquet('{file}') where status = 'ok' and phase <> 'warmup'"""
GAPS = """select turn, unnest(list_transform(range(2, len(chunk_ns) + 1), lambda i: (chunk_ns[i] - chunk_ns[i - 1]) / 1e6)) as gap
    from read_parquet('{file}') where status = 'ok' and phase <> 'warmup'"""
QS = [0.5, 0.9, 0.95, 0.99]


def with_duckdb(file, threads):
    import duckdb

    db = duckdb.connect()
    db.execute(f"set threads = {threads}")
    columns = ", ".join(f"quantile_cont({f}, {QS})" for f in ("ttft", "tpot", "e2e"))
    db.execute(f"select turn, {columns} from ({TURNS.format(file=file)}) group by grouping sets ((turn), ())").fetchall()
    rows = db.execute(f"select turn, count(*), quantile_cont(gap, {QS}) from ({GAPS.format(file=file)}) group by grouping sets ((turn), ())").fetchall()
    print([n for turn, n, _ in rows if turn is None][0])


def with_polars(file, threads):
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars as pl

    rows = pl.scan_parquet(file).filter((pl.col("status") == "ok") & (pl.col("phase") != "warmup"))
    turns = rows.select("turn", ttft=(pl.col("first_token_ns") - pl.col("sent_ns")) / 1e6, tpot="tpot_ms", e2e=(pl.col("last_token_ns") - pl.col("sent_ns")) / 1e6).collect()
    gaps = rows.select("turn", gap=pl.col("chunk_ns").list.diff(null_behavior="drop")).explode("gap").drop_nulls().with_columns(pl.col("gap") / 1e6).collect()
    for frame, names in ((turns, ("ttft", "tpot", "e2e")), (gaps, ("gap",))):
        wanted = [pl.col(n).quantile(q, "linear").alias(f"{n}{q}") for n in names for q in QS]
        frame.group_by("turn").agg(wanted)
        frame.select(wanted)
    print(gaps.height)


def measure(command):
    """CPU seconds, seconds and peak memory in MB of a command, and what it printed."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1024, text


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("synthrun")
    parse.add_argument("--rows", type=int, default=1_000_000)
    parse.add_argument("--chunks", type=int, default=63)
    parse.add_argument("--repeat", type=int, default=3)
    parse.add_argument("--dir", default=tempfile.gettempdir())
    parse.add_argument("--child", nargs=2)
    args = parse.parse_args()
    threads = min(2, len(os.sched_getaffinity(0)))
    if args.child:
        return {"duckdb": with_duckdb, "polars": with_polars}[args.child[0]](args.child[1], threads)
    file = os.path.join(args.dir, f"parley-bench-{args.rows}-{args.chunks}.parquet")
    if not os.path.exists(file):
        subprocess.run([args.synthrun, "-o", file, "-rows", str(args.rows), "-chunks", str(args.chunks), "-clean"], check=True)
    os.environ["GOMAXPROCS"] = str(threads)
    commands = {
        "parley": [args.synthrun, "-o", file, "-conversations", "0", "-json", os.devnull, "-by", "turn"],
        "DuckDB": [sys.executable, __file__, args.synthrun, "--child", "duckdb", file],
        "polars": [sys.executable, __file__, args.synthrun, "--child", "polars", file],
    }
    took = {name: [] for name in commands}
    for _ in range(args.repeat):  # by turns, so that what else the machine does hits all alike
        for name, command in commands.items():
            took[name].append(measure(command))
    print(f"{os.path.getsize(file) / 1e6:.0f} MB, {args.rows:,} rows, {int(took['DuckDB'][0][3]):,} gaps, {threads} threads, median of {args.repeat}")
    print(f"{'':8} {'CPU s':>8} {'s':>8} {'peak MB':>8}")
    middle = {}
    for name, runs in took.items():
        middle[name] = [statistics.median(r[i] for r in runs) for i in range(3)]
        print(f"{name:8} {middle[name][0]:8.2f} {middle[name][1]:8.2f} {middle[name][2]:8.0f}")
    ratios = [middle["parley"][i] / middle["DuckDB"][i] for i in range(3)]
    print(f"{'ratio':8} {ratios[0]:8.2f} {ratios[1]:8.2f} {ratios[2]:8.2f}   parley / DuckDB")
    return 1 if ratios[0] > 1.2 or ratios[2] > 1 else 0


sys.exit(main())
