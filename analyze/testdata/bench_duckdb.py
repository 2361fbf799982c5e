"""Compares the cost of an analysis with that of DuckDB and polars working out a part of it from the same file.

    make bench-analyze                      # 1 million rows, 54 million gaps; PARLEY_PYTHON has duckdb and polars
    python analyze/testdata/bench_duckdb.py /tmp/synthrun [--rows 1000000] [--chunks 63] [--large 10000000] [--no-polars] [--dir DIR]

parley works out all of its default figures by turn index: every latency, ITL and chunk gaps, intervals, rates,
the window, the verdict. DuckDB and polars are asked for p50, p90, p95 and p99 of TTFT, TPOT, E2E and of all gaps,
by turn index and in all, and for nothing else; polars has no streaming quantile, so it collects. Each runs in a
process of its own on the same number of threads, with its default memory limit, by turns. Prints CPU seconds,
seconds and peak memory of each, and the ratios of parley to DuckDB; exits 1 if CPU is above 1.2 times DuckDB's, or
memory above it: the best of each one's repeats, for what else the machine does only adds. The file is made once and
kept in DIR (the folder for temporary files).

--large N analyzes N rows of short chunk lists too, and exits 1 if that takes more than 2 GB. That file is removed.
"""

import argparse
import os
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
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024 / 1e6, text


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("synthrun")
    parse.add_argument("--rows", type=int, default=1_000_000)
    parse.add_argument("--chunks", type=int, default=63)
    parse.add_argument("--repeat", type=int, default=3)
    parse.add_argument("--dir", default=tempfile.gettempdir())
    parse.add_argument("--large", type=int, default=0)
    parse.add_argument("--no-polars", action="store_true")
    parse.add_argument("--child", nargs=2)
    args = parse.parse_args()
    threads = min(2, len(os.sched_getaffinity(0)))
    if args.child:
        return {"duckdb": with_duckdb, "polars": with_polars}[args.child[0]](args.child[1], threads)
    file = os.path.join(args.dir, f"parley-bench-{args.rows}-{args.chunks}.parquet")
    if not os.path.exists(file):
        subprocess.run([args.synthrun, "-o", file, "-rows", str(args.rows), "-chunks", str(args.chunks), "-clean"], check=True)
    os.environ["GOMAXPROCS"] = str(threads)

    def parley(file):
        return [args.synthrun, "-o", file, "-conversations", "0", "-json", os.devnull, "-by", "turn"]

    commands = {
        "parley": parley(file),
        "DuckDB": [sys.executable, __file__, args.synthrun, "--child", "duckdb", file],
        "polars": [sys.executable, __file__, args.synthrun, "--child", "polars", file],
    }
    if args.no_polars:
        del commands["polars"]
    took = {name: [] for name in commands}
    for _ in range(args.repeat):  # by turns, so that what else the machine does hits all alike
        for name, command in commands.items():
            took[name].append(measure(command))
    print(f"{os.path.getsize(file) / 1e6:.0f} MB, {args.rows:,} rows, {int(took['DuckDB'][0][3]):,} gaps, {threads} threads, best of {args.repeat}")
    print(f"{'':8} {'CPU s':>8} {'s':>8} {'peak MB':>8}")
    best = {name: [min(r[i] for r in runs) for i in range(3)] for name, runs in took.items()}
    for name, (cpu, seconds, peak) in best.items():
        print(f"{name:8} {cpu:8.2f} {seconds:8.2f} {peak:8.0f}")
    ratios = [best["parley"][i] / best["DuckDB"][i] for i in range(3)]
    print(f"{'ratio':8} {ratios[0]:8.2f} {ratios[1]:8.2f} {ratios[2]:8.2f}   parley / DuckDB")
    failed = ratios[0] > 1.2 or ratios[2] > 1
    if args.large:
        file = os.path.join(args.dir, f"parley-bench-large-{os.getpid()}.parquet")
        try:
            subprocess.run([args.synthrun, "-o", file, "-rows", str(args.large), "-chunks", "4", "-clean"], check=True, stdout=subprocess.DEVNULL)
            cpu, seconds, peak, _ = measure(parley(file))
        finally:
            if os.path.exists(file):
                os.remove(file)
        print(f"{args.large:,} rows: {cpu:.1f} CPU s, {seconds:.1f} s, peak {peak:.0f} MB, of 2,000 at most")
        failed = failed or peak > 2000
    return 1 if failed else 0


sys.exit(main())
