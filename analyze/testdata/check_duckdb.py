"""Checks the figures of an analysis against DuckDB and NumPy, which compute them anew from the same files.

    parley analyze run.parquet --format json > run.json
    python check_duckdb.py run.json

Needs duckdb and numpy. The paths of the requests files stand in the JSON. Every figure has to agree to 1e-9
relative; one that differs, or that is on one side only, fails the check. Shards of one run are read
together if they have one origin. Journals cannot be checked: DuckDB does not read them.
"""

import json
import math
import sys

import duckdb
import numpy as np

TOLERANCE = 1e-9
checked = 0
problems = []


def same(where, got, want):
    """Compares one number; None stands for no value."""
    global checked
    checked += 1
    if got is None or want is None:
        if got is not want:
            problems.append(f"{where}: parley {got}, here {want}")
        return
    if not math.isclose(float(got), float(want), rel_tol=TOLERANCE, abs_tol=1e-12):
        problems.append(f"{where}: parley {got!r}, here {want!r}")


def figures(moment):
    """The figures of a turn as SQL, in milliseconds."""
    f = f"{moment}_ns"
    ms = lambda a, b: f"({b} - {a}) / 1e6"
    return {
        "ttft": ms(f, "first_token_ns"),
        "ttft_sent": ms("sent_ns", "first_token_ns"),
        "ttft_start": ms("start_ns", "first_token_ns"),
        "ttft_scheduled": ms("scheduled_ns", "first_token_ns"),
        "ttfb": ms(f, "first_byte_ns"),
        "ttfa": ms(f, "first_answer_ns"),
        # From the lists, not from the column that the file has.
        "tpot": """case when len(chunk_ns) > 1 and completion_tokens > first_tokens
                   then (chunk_ns[len(chunk_ns)] - chunk_ns[1]) / 1e6 / (completion_tokens - first_tokens) end""",
        "tpot_request": """case when completion_tokens > 1
                   then ((last_token_ns - sent_ns) - (first_token_ns - sent_ns)) / 1e6 / (completion_tokens - 1) end""",
        "e2e": ms(f, "last_token_ns"),
        "e2e_scheduled": ms("scheduled_ns", "last_token_ns"),
        "normalized_latency": f"case when completion_tokens > 0 then ({ms(f, 'last_token_ns')}) / completion_tokens end",
        "send_lag": ms("scheduled_ns", "sent_ns"),
        "lag_slot": f"greatest(0, {ms('scheduled_ns', 'ready_ns')})",
        "lag_scheduler": "(start_ns - greatest(scheduled_ns, coalesce(ready_ns, scheduled_ns))) / 1e6",
        "lag_connection": ms("start_ns", "sent_ns"),
        "write_time": ms("sent_ns", "wrote_ns"),
    }


FAILED = "('http_error','stream_error','transport_error','timeout','incomplete','empty')"
NOT_SENT = "('shed','not_reached')"


class Run:
    def __init__(self, run, moment):
        self.db = duckdb.connect()
        self.figures = figures(moment)
        files = ", ".join("'" + f.replace("'", "''") + "'" for f in run["files"])
        self.db.execute(f"""create table r as select *,
            coalesce(sent_ns, start_ns, ready_ns, scheduled_ns) as moment,
            coalesce(done_ns, last_token_ns, first_token_ns, sent_ns, start_ns) as ended,
            case when len(chunk_tokens) > 0 and chunk_tokens[1] > 0 then chunk_tokens[1] else 1 end as first_tokens
            from read_parquet([{files}])""")
        w = run["window"]
        self.start, self.stop = round(w["from_s"] * 1e9), round(w["to_s"] * 1e9)
        self.kind = w["kind"]
        self.whole = w["kind"] in ("all", "turns") or (w["kind"] == "steady" and not w["steady"])
        last = w.get("last_turn", 0)
        self.turns = f"turn >= {w['first_turn']}" + (f" and turn < {last}" if last else "")

    def value(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def window(self):
        held = f"moment >= {self.start} and moment < {self.stop}"
        if self.whole:
            held = f"(moment is null or {held})"
        return f"phase <> 'warmup' and {self.turns} and {held}"

    def done(self):
        return f"phase <> 'warmup' and {self.turns} and ended >= {self.start} and ended < {self.stop}"


def check_distribution(where, figure, values, failed=None):
    """Compares a distribution with NumPy's of the same values."""
    n = len(values)
    same(f"{where}: n", figure["n"], n)
    if n == 0:
        return
    same(f"{where}: mean", figure["mean"], np.mean(values))
    same(f"{where}: std", figure["std"], np.std(values, ddof=1) if n > 1 else None)
    same(f"{where}: min", figure["min"], np.min(values))
    same(f"{where}: max", figure["max"], np.max(values))
    for p in figure["percentiles"]:
        want = float(np.percentile(values, p["p"])) if n >= p["needs"] else None
        same(f"{where}: p{p['p']}", p["value"], want)
        tail = min(p["p"], 100 - p["p"]) / 100
        beyond = lambda k: (1 - tail) ** k + k * tail * (1 - tail) ** (k - 1)
        if not (beyond(p["needs"]) <= 0.01 < beyond(p["needs"] - 1)):
            problems.append(f"{where}: p{p['p']} wants {p['needs']} rows")
        if p["value"] is not None and p["low"] is not None and p["high"] is not None:
            if not p["low"] <= p["value"] <= p["high"]:
                problems.append(f"{where}: p{p['p']} {p['value']} outside of its interval")
    for p in figure.get("failure_aware", []):
        ordered = np.sort(np.concatenate([values, np.full(failed, np.inf)]))
        if len(ordered) < p["needs"]:
            same(f"{where}: aware p{p['p']}", p["value"], None)
            continue
        rank = p["p"] / 100 * (len(ordered) - 1)
        low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
        infinite = bool(np.isinf(high))
        if infinite != p.get("infinite", False):
            problems.append(f"{where}: aware p{p['p']} infinite: {p.get('infinite', False)}, here {infinite}")
        same(f"{where}: aware p{p['p']}", p["value"], None if infinite else low + (high - low) * (rank - math.floor(rank)))


def check_sql_percentiles(where, run, figure, condition, sql):
    """The same percentiles by DuckDB's quantile_cont."""
    for p in figure["percentiles"]:
        if p["value"] is not None:
            want = run.value(f"select quantile_cont(({sql})::double, {p['p'] / 100!r}) from r where {condition} and status = 'ok'")
            same(f"{where}: DuckDB p{p['p']}", p["value"], want)


def check_group(where, run, group, held, done, seconds, objectives, moment):
    counts = group["counts"]
    same(f"{where}: planned", counts["planned"], run.value(f"select count(*) from r where {held}"))
    for status, n in run.db.execute(f"select status, count(*) from r where {held} group by 1").fetchall():
        same(f"{where}: {status}", counts["by_status"].get(status), n)
    ok = run.value(f"select count(*) from r where {held} and status = 'ok'")
    failed = run.value(f"select count(*) from r where {held} and status in {FAILED}")
    same(f"{where}: ok", counts["ok"], ok)
    same(f"{where}: failed", counts["failed"], failed)
    same(f"{where}: sent", counts["sent"], run.value(f"select count(*) from r where {held} and status not in {NOT_SENT}"))
    same(f"{where}: error rate", counts["error_rate"], failed / (ok + failed) if ok + failed else None)
    same(f"{where}: censored", counts["censored"], run.value(f"select count(*) from r where {held} and status = 'canceled'"))
    same(f"{where}: conversations", counts["conversations"], run.value(f"select count(distinct (conversation_id, instance)) from r where {held}"))
    for kind, n in run.db.execute(f"select error_kind, count(*) from r where {held} and error_kind is not null group by 1").fetchall():
        same(f"{where}: errors of kind {kind}", counts["error_kinds"].get(kind), n)
    for figure in group["figures"]:
        name = f"{where}: {figure['name']}"
        if figure["name"] in run.figures:
            sql = run.figures[figure["name"]]
            values = run.db.execute(f"select ({sql})::double as v from r where {held} and status = 'ok' and ({sql}) is not null").fetchnumpy()["v"]
            check_distribution(name, figure, np.asarray(values), failed)
            check_sql_percentiles(name, run, figure, held, sql)
        elif figure["name"] in ("itl", "chunk_gap"):
            check_distribution(name, figure, chunk_values(run, held, figure["name"]))
        elif figure["name"].startswith("conversation_time"):
            check_distribution(name, figure, conversation_values(run, figure["name"]))
        else:
            problems.append(f"{name}: no check for this figure")
    check_rates(where, run, group, held, done, seconds)
    if group.get("goodput"):
        check_goodput(where, run, group["goodput"], done, seconds, objectives)
    if group.get("fluidity"):
        check_fluidity(where, run, group["fluidity"], held)


def chunk_values(run, held, name):
    rows = run.db.execute(f"select chunk_ns, chunk_tokens from r where {held} and status = 'ok' and len(chunk_ns) > 1").fetchall()
    out = []
    for ns, tokens in rows:
        gaps = np.diff(np.array(ns, dtype=np.int64)) / 1e6
        if name == "chunk_gap" or len(tokens) != len(ns):
            out.append(gaps)
            continue
        carried = 0.0
        for gap, k in zip(gaps, tokens[1:]):
            carried += gap
            if k > 0:
                out.append(np.full(k, carried / k))
                carried = 0.0
    return np.concatenate(out) if out else np.array([])


def conversation_values(run, name):
    held = run.window()
    minus = "- coalesce(sum(think_time_ms) filter (where turn > 0), 0)" if name.endswith("without_think") else ""
    rows = run.db.execute(f"""
        select (max(ended) - max(scheduled_ns) filter (where turn = 0 and {held})) / 1e6 {minus} as v
        from r group by conversation_id, instance
        having bool_and(status = 'ok' and phase <> 'warmup') and count(*) filter (where turn = 0 and {held}) > 0""").fetchall()
    return np.array([v for (v,) in rows])


def check_rates(where, run, group, held, done, seconds):
    t, k = group["throughput"], group["tokens"]
    same(f"{where}: seconds", t["seconds"], seconds)
    sums = run.db.execute(f"""select count(*), sum(coalesce(prompt_tokens, 0)), sum(coalesce(cached_tokens, 0)), sum(coalesce(completion_tokens, 0))
        from r where {done} and status = 'ok'""").fetchone()
    requests, prompt, cached, completion = (v or 0 for v in sums)
    for name, want in (("requests", requests), ("prompt_tokens", prompt), ("cached_tokens", cached), ("completion_tokens", completion), ("total_tokens", prompt + completion)):
        same(f"{where}: {name} per second", t[name + "_per_s"], want / seconds)
    # In flight: rows of any moment whose time overlaps the window.
    spans = run.db.execute(f"""select greatest(sent_ns, {run.start}), least(ended, {run.stop}) from r where {without_window(run, held)}
        and sent_ns is not null and sent_ns < {run.stop} and ended > {run.start}""").fetchall()
    events = sorted([(a, 1) for a, b in spans if a < b] + [(b, -1) for a, b in spans if a < b])
    level = best = 0
    for _, d in events:
        level += d
        best = max(best, level)
    same(f"{where}: peak in flight", t["peak_in_flight"], best)
    same(f"{where}: mean in flight", t["mean_in_flight"], sum(b - a for a, b in spans if a < b) / (seconds * 1e9))
    sums = run.db.execute(f"""select sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(reasoning_tokens),
        sum(output_tokens_asked) filter (where completion_tokens is not null), sum(completion_tokens) filter (where output_tokens_asked is not null),
        sum(cached_tokens) filter (where prompt_tokens is not null) / sum(prompt_tokens) filter (where cached_tokens is not null),
        sum(expected_cached_tokens) filter (where expected_prompt_tokens is not null) / sum(expected_prompt_tokens) filter (where expected_cached_tokens is not null),
        avg(prompt_tokens), avg(completion_tokens)
        from r where {held} and status = 'ok'""").fetchone()
    for name, want in zip(("prompt", "cached", "completion", "reasoning", "asked", "asked_got"), sums):
        same(f"{where}: tokens {name}", k[name], want or 0)
    for name, want in zip(("cache_reuse", "cache_ceiling", "mean_prompt", "mean_completion"), sums[6:]):
        same(f"{where}: {name}", k[name], want)


def without_window(run, held):
    """The rows of a population at any moment: its condition without the window's part."""
    return held.replace(run.window(), "phase <> 'warmup'")


def check_goodput(where, run, goodput, done, seconds, objectives):
    met = " and ".join(f"coalesce(({run.figures[o['figure']]}) <= {o['limit_ms']!r}, true)" for o in objectives)
    good, tokens = run.db.execute(f"select count(*), sum(coalesce(completion_tokens, 0)) from r where {done} and status = 'ok' and {met}").fetchone()
    of = run.value(f"select count(*) from r where {done} and (status = 'ok' or status in {FAILED})")
    same(f"{where}: good turns", goodput["good"], good)
    same(f"{where}: turns that ended", goodput["of"], of)
    same(f"{where}: goodput", goodput["requests_per_s"], good / seconds)
    same(f"{where}: goodput in tokens", goodput["completion_tokens_per_s"], (tokens or 0) / seconds)
    same(f"{where}: share of good turns", goodput["share"], good / of if of else None)


def check_fluidity(where, run, fluidity, held):
    rows = run.db.execute(f"select sent_ns, chunk_ns, chunk_tokens from r where {held} and status = 'ok' and len(chunk_ns) > 0").fetchall()
    in_time = tokens = fluid = turns = 0
    for sent, ns, counts in rows:
        weights = counts if len(counts) == len(ns) else [1] * len(ns)
        arrivals = [at for at, k in zip(ns, weights) for _ in range(k)]
        if not arrivals:
            continue
        due, good = sent + fluidity["ttft_ms"] * 1e6, 0
        for at in arrivals:
            good += at <= due
            due = max(due, at) + fluidity["tpot_ms"] * 1e6
        in_time, tokens, turns = in_time + good, tokens + len(arrivals), turns + 1
        fluid += good >= 0.9 * len(arrivals)
    same(f"{where}: fluidity", fluidity["share"], in_time / tokens)
    same(f"{where}: fluid turns", fluidity["requests_at_0_9"], fluid / turns)
    same(f"{where}: tokens of fluidity", fluidity["tokens"], tokens)


def check_peak_rate(where, run, total):
    rows = run.db.execute("select chunk_ns, chunk_tokens, completion_tokens from r where phase <> 'warmup' and len(chunk_ns) > 0").fetchall()
    by_second = {}
    for ns, counts, completion in rows:
        if len(counts) == len(ns):
            weights = counts
        else:
            weights = [completion / len(ns) if completion else 1] * len(ns)
        for at, k in zip(ns, weights):
            by_second[at // 10**9] = by_second.get(at // 10**9, 0) + k
    inside = [v for s, v in by_second.items() if min((s + 1) * 10**9, run.stop) - max(s * 10**9, run.start) >= 5 * 10**8]
    if inside and total["throughput"]["peak_token_rate"] is not None:
        same(f"{where}: peak token rate", total["throughput"]["peak_token_rate"], max(inside))


def condition_of(key):
    column, value = key["column"], key["value"]
    if column == "time":
        column = "moment"
    elif column == "uncached_tokens":
        column = "(prompt_tokens - cached_tokens)"
    elif column.startswith("tag."):
        column = f"tags['{column[4:]}']"
    if value == "(none)":
        return f"{column} is null"
    low, high = key["low"], key["high"]
    if key["column"] == "time":
        low, high = round(low * 1e9), round(high * 1e9)
    if low is None and high is None:
        return f"{column} = '{value}'"
    if low == high:
        return f"{column} = {low!r}"
    parts = []
    if low is not None:
        parts.append(f"{column} >= {low!r}")
    if high is not None:
        parts.append(f"{column} < {high!r}")
    return " and ".join(parts)


def check_steady(where, run, result):
    """The steady window, by a slow and plain way: the level of active conversations at every change."""
    if not (run.kind == "steady" and result["window"]["steady"]):
        return
    spans = run.db.execute("select min(moment), max(ended) from r where ended is not null group by conversation_id, instance").fetchall()
    spans = [(a, b) for a, b in spans if b > a]
    moments = sorted({m for s in spans for m in s})
    change = {}
    for a, b in spans:
        change[a] = change.get(a, 0) + 1
        change[b] = change.get(b, 0) - 1
    level, steps = 0, []
    for a, b in zip(moments, moments[1:]):
        level += change[a]
        steps.append((level, b - a, a, b))
    total, passed = sum(s[1] for s in steps), 0
    for lv, length, _, _ in sorted(steps):
        passed += length
        if passed >= 0.75 * total:
            usual = lv
            break
    full = [s for s in steps if s[0] >= 0.9 * max(usual, 1)]
    same(f"{where}: steady from", run.start, min(s[2] for s in full))
    same(f"{where}: steady to", run.stop, max(s[3] for s in full))


def main():
    result = json.load(open(sys.argv[1]))
    for r in result["runs"]:
        run = Run(r, result["from"])
        where = r["label"]
        seconds = (run.stop - run.start) / 1e9
        objectives = result.get("objectives", [])
        check_steady(where, run, r)
        check_group(f"{where} total", run, r["total"], run.window(), run.done(), seconds, objectives, result["from"])
        check_peak_rate(where, run, r["total"])
        for g in r.get("groups", []):
            name = " ".join(k["value"] for k in g["keys"])
            only = " and ".join(condition_of(k) for k in g["keys"])
            check_group(f"{where} {name}", run, g, f"{run.window()} and {only}", f"{run.done()} and {only}", seconds, objectives, result["from"])
        for c in r.get("cache_by_turn", []):
            reuse, ceiling, n = run.db.execute(f"""select
                sum(cached_tokens) filter (where prompt_tokens is not null) / sum(prompt_tokens) filter (where cached_tokens is not null),
                sum(expected_cached_tokens) filter (where expected_prompt_tokens is not null) / sum(expected_prompt_tokens) filter (where expected_cached_tokens is not null),
                count(*) from r where {run.window()} and status = 'ok' and turn = {c['turn']}""").fetchone()
            same(f"{where}: reuse at turn {c['turn']}", c["reuse"], reuse)
            same(f"{where}: ceiling at turn {c['turn']}", c["ceiling"], ceiling)
            same(f"{where}: rows at turn {c['turn']}", c["rows"], n)
    for p in problems[:40]:
        print("DIFFERS", p)
    print(f"{checked} figures checked, {len(problems)} differ")
    return 1 if problems or checked < 100 else 0


sys.exit(main())
