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
import pyarrow.parquet as pq

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
        "tpot": """case when len(chunk_ns) > 1 and completion_tokens - hidden > first_tokens and not bursts
                   then (chunk_ns[len(chunk_ns)] - chunk_ns[1]) / 1e6 / (completion_tokens - hidden - first_tokens) end""",
        "tpot_request": """case when completion_tokens - hidden > 1 and not bursts
                   then ((last_token_ns - sent_ns) - (first_token_ns - sent_ns)) / 1e6 / (completion_tokens - hidden - 1) end""",
        "e2e": ms(f, "last_token_ns"),
        "e2e_scheduled": ms("scheduled_ns", "last_token_ns"),
        "normalized_latency": f"case when completion_tokens > 0 then ({ms(f, 'last_token_ns')}) / completion_tokens end",
        "send_lag": ms("scheduled_ns", "case when attempts > 1 then start_ns else sent_ns end"),
        "lag_slot": f"greatest(0, {ms('scheduled_ns', 'ready_ns')})",
        "lag_scheduler": "(start_ns - greatest(scheduled_ns, coalesce(ready_ns, scheduled_ns))) / 1e6",
        "lag_connection": "case when attempts <= 1 then (sent_ns - start_ns) / 1e6 end",
        "lag_retries": "case when attempts > 1 then (sent_ns - start_ns) / 1e6 end",
        "write_time": ms("sent_ns", "wrote_ns"),
    }


FAILED = "('http_error','stream_error','transport_error','timeout','incomplete','empty')"
NOT_SENT = "('shed','not_reached')"


class Run:
    def __init__(self, run, moment):
        self.db = duckdb.connect()
        self.figures = figures(moment)
        files = ", ".join("'" + f.replace("'", "''") + "'" for f in run["files"])
        # Numbers of tokens that cannot be true are not known.
        untrue = lambda c: f"({c} < 0 or {c} > 100000000)"
        counts = ", ".join(f"case when {untrue(c)} then null else {c} end as {c}" for c in ("prompt_tokens", "cached_tokens", "reasoning_tokens"))
        small = """(bytes_received > 0 and coalesce(timing_note, '') not like '%gzip%' and bytes_received <
            completion_tokens - case when reasoning_tokens > 0 and first_token_ns = first_answer_ns then reasoning_tokens else 0 end)"""
        self.db.execute(f"""create table r as select *,
            coalesce(sent_ns, start_ns, ready_ns, scheduled_ns) as moment,
            coalesce(done_ns, last_token_ns, first_token_ns, sent_ns, start_ns) as ended,
            case when len(chunk_tokens) > 0 and chunk_tokens[1] > 0 then chunk_tokens[1] else 1 end as first_tokens,
            case when reasoning_tokens > 0 and first_token_ns = first_answer_ns then reasoning_tokens else 0 end as hidden,
            case when len(chunk_ns) = 1 then (case when len(chunk_tokens) = 1 then greatest(chunk_tokens[1], coalesce(completion_tokens, 0)) else coalesce(completion_tokens, 1) end) > 1
                 when len(chunk_ns) > 1 then 2 * len(list_filter(range(2, len(chunk_ns) + 1), lambda i: chunk_ns[i] = chunk_ns[i - 1])) > len(chunk_ns) - 1
                 else false end as bursts
            from (select * replace (case when {untrue("completion_tokens")} or {small} then null else completion_tokens end as completion_tokens)
                from (select * replace ({counts}) from read_parquet([{files}])))""")
        w = run["window"]
        self.start, self.stop = round(w["from_s"] * 1e9), round(w["to_s"] * 1e9)
        self.kind = w["kind"]
        self.whole = w["kind"] in ("all", "turns") or (w["kind"] == "steady" and w["how"].endswith("the whole run is used"))
        last = w.get("last_turn", 0)
        self.turns = f"turn >= {w['first_turn']}" + (f" and turn < {last}" if last else "")
        # Whose tokens, ends and time count in rates: everybody's, or those of the chosen turns.
        self.rated = f"phase <> 'warmup' and {self.turns}" if w["kind"] == "turns" else "true"
        self.spans = [(self.start, self.stop)]
        if w["kind"] == "turns":
            self.spans = union(self.db.execute(f"select sent_ns, ended + 1 from r where {self.rated} and sent_ns is not null and ended >= sent_ns").fetchall())

    def seconds(self):
        return sum(b - a for a, b in self.spans) / 1e9

    def value(self, sql):
        return self.db.execute(sql).fetchone()[0]

    def window(self):
        held = f"moment >= {self.start} and moment < {self.stop}"
        if self.whole:
            held = f"(moment is null or {held})"
        return f"phase <> 'warmup' and {self.turns} and {held}"

    def done(self):
        return f"{self.rated} and (" + " or ".join(f"ended >= {a} and ended < {b}" for a, b in self.spans) + ")"


def union(spans):
    """Joins spans that touch."""
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def counts_of(ns, tokens, completion):
    """The tokens of each chunk: told, or spread evenly."""
    n = len(ns)
    if len(tokens) == n:
        counts = np.array(tokens, dtype=np.int64)
        counts[-1] += max(0, (completion or 0) - counts.sum())
        return counts
    if not completion or completion < 0:
        return np.ones(n, dtype=np.int64)
    return np.diff(np.arange(n + 1) * completion // n)


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
        same(f"{where}: p{p['p']}", p["value"], float(np.percentile(values, p["p"])))
        # So many that the largest of independent values lies above the percentile with 95 % confidence.
        inner = max(p["p"], 100 - p["p"]) / 100
        if not inner ** p["needs"] <= 0.05 + 1e-12 or not inner ** (p["needs"] - 1) > 0.05:
            problems.append(f"{where}: p{p['p']} wants {p['needs']} values")
        if p["effective"] is not None:
            if not 0 < p["effective"] <= n * (1 + 1e-9):
                problems.append(f"{where}: p{p['p']} counts {n} values for {p['effective']}")
            if p["carried"] != (inner ** p["effective"] <= 0.05 + 1e-9):
                problems.append(f"{where}: p{p['p']} carried {p['carried']} by {p['effective']} values")
        for low, high in (("low", "high"), ("lower", "upper")):
            if not p["carried"]:  # the largest of few values may well lie above their p99, and below the server's
                continue
            for bound, sign in ((low, 1), (high, -1)):
                if p[bound] is not None and sign * (p["value"] - p[bound]) < -1e-9 * abs(p["value"]):
                    problems.append(f"{where}: p{p['p']} {p['value']} beyond its {bound} {p[bound]}")
    for p in figure.get("failure_aware", []):
        ordered = np.sort(np.concatenate([values, np.full(failed, np.inf)]))
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


def check_group(where, run, group, held, done, seconds, objectives, moment, population):
    counts = group["counts"]
    same(f"{where}: planned", counts["planned"], run.value(f"select count(*) from r where {held}"))
    for status, n in run.db.execute(f"select status, count(*) from r where {held} group by 1").fetchall():
        same(f"{where}: {status}", counts["by_status"].get(status), n)
    ok = run.value(f"select count(*) from r where {held} and status = 'ok'")
    failed = run.value(f"select count(*) from r where {held} and status in {FAILED}")
    sent = run.value(f"select count(*) from r where {held} and status not in {NOT_SENT}")
    same(f"{where}: ok", counts["ok"], ok)
    same(f"{where}: failed", counts["failed"], failed)
    same(f"{where}: sent", counts["sent"], run.value(f"select count(*) from r where {held} and status not in {NOT_SENT}"))
    same(f"{where}: error rate", counts["error_rate"], failed / sent if sent else None)
    same(f"{where}: censored", counts["censored"], run.value(f"select count(*) from r where {held} and status = 'canceled'"))
    same(f"{where}: conversations", counts["conversations"], run.value(f"select count(distinct (conversation_id, instance)) from r where {held}"))
    for name, statuses in (("error_kinds", FAILED), ("not_sent", NOT_SENT)):
        kinds = dict(run.db.execute(f"select error_kind, count(*) from r where {held} and error_kind is not null and status in {statuses} group by 1").fetchall())
        for kind in kinds.keys() | counts.get(name, {}).keys():
            same(f"{where}: {name} {kind}", counts.get(name, {}).get(kind), kinds.get(kind))
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
    check_rates(where, run, group, held, done, seconds, population)
    if group.get("goodput"):
        check_goodput(where, run, group["goodput"], held, done, seconds, objectives)
    if group.get("fluidity"):
        check_fluidity(where, run, group["fluidity"], held)


def chunk_values(run, held, name):
    rows = run.db.execute(f"select chunk_ns, chunk_tokens, completion_tokens, hidden, bursts from r where {held} and status = 'ok' and len(chunk_ns) > 1").fetchall()
    out = []
    for ns, tokens, completion, hidden, bursts in rows:
        gaps = np.diff(np.array(ns, dtype=np.int64)) / 1e6
        if name == "chunk_gap":
            out.append(gaps)
            continue
        if bursts:
            continue
        counts = counts_of(ns, tokens, completion if len(tokens) == len(ns) else (completion or 0) - hidden)
        carried = 0.0
        for gap, k in zip(gaps, counts[1:]):
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


def ratio(a, b):
    return None if a is None or not b else a / b


def check_rates(where, run, group, held, done, seconds, population):
    t, k = group["throughput"], group["tokens"]
    same(f"{where}: seconds", t["seconds"], seconds)
    requests, prompt, prompts, cached, cacheds, odd = run.db.execute(f"""select count(*), sum(prompt_tokens), count(prompt_tokens), sum(cached_tokens), count(cached_tokens),
        count(*) filter (where cached_tokens > prompt_tokens) from r where {done} and status = 'ok'""").fetchone()
    if prompts < requests:
        prompt = None
    if cacheds < requests or odd:
        cached = None
    # Tokens at their arrival.
    lists = run.db.execute(f"select chunk_ns, chunk_tokens, completion_tokens, ended from r where {population}").fetchall()
    arrived = 0
    for ns, counts, completion, ended in lists:
        if not ns:
            ns, counts = ([ended], [completion]) if completion and ended is not None else ([], [])
        if ns:
            at = np.array(ns, dtype=np.int64)
            inside = np.zeros(len(ns), dtype=bool)
            for a, b in run.spans:
                inside |= (at >= a) & (at < b)
            arrived += int(counts_of(ns, counts, completion)[inside].sum())
    both = None if prompt is None else prompt / seconds + arrived / seconds
    for name, want in (("requests", requests), ("prompt_tokens", prompt), ("cached_tokens", cached), ("completion_tokens", arrived)):
        same(f"{where}: {name} per second", t[name + "_per_s"], ratio(want, seconds))
    same(f"{where}: tokens per second", t["total_tokens_per_s"], both)
    # In flight: rows of any moment, for as long as their time overlaps the window.
    spans = run.db.execute(f"select sent_ns, ended from r where {population} and sent_ns is not null").fetchall()
    spans = [(max(a, x), min(b, y)) for a, b in spans for x, y in run.spans if max(a, x) < min(b, y)]
    events = sorted([(a, 1) for a, b in spans] + [(b, -1) for a, b in spans])
    level = best = 0
    for _, d in events:
        level += d
        best = max(best, level)
    same(f"{where}: peak in flight", t["peak_in_flight"], best)
    same(f"{where}: mean in flight", t["mean_in_flight"], sum(b - a for a, b in spans) / (seconds * 1e9))
    sums = run.db.execute(f"""select sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(reasoning_tokens),
        coalesce(sum(output_tokens_asked) filter (where completion_tokens is not null), 0), coalesce(sum(completion_tokens) filter (where output_tokens_asked is not null), 0),
        avg(prompt_tokens), avg(completion_tokens)
        from r where {held} and status = 'ok'""").fetchone()
    for name, want in zip(("prompt", "cached", "completion", "reasoning", "asked", "asked_got", "mean_prompt", "mean_completion"), sums):
        same(f"{where}: tokens {name}", k[name], want)
    reuse, ceiling, rows = cache_of(run, f"{held} and status = 'ok'")
    same(f"{where}: cache reuse", k["cache_reuse"], reuse)
    same(f"{where}: cache ceiling", k["cache_ceiling"], ceiling)
    same(f"{where}: cache rows", k["cache_rows"], rows)


def cache_of(run, condition):
    """Reuse and its ceiling over the same rows: those whose server tells."""
    told = f"{condition} and prompt_tokens is not null and cached_tokens is not null"
    if run.value(f"select count(*) from r where {told} and cached_tokens > prompt_tokens"):
        return None, None, run.value(f"select count(*) from r where {told} and cached_tokens <= prompt_tokens")
    rows, prompt, cached, ceilings, ceiling, expected = run.db.execute(f"""select count(*), sum(prompt_tokens), sum(cached_tokens),
        count(expected_cached_tokens + expected_prompt_tokens), sum(expected_cached_tokens), sum(expected_prompt_tokens) from r where {told}""").fetchone()
    if rows == 0:
        ceiling, expected = run.db.execute(f"""select sum(expected_cached_tokens), sum(expected_prompt_tokens) from r
            where {condition} and expected_cached_tokens is not null and expected_prompt_tokens is not null""").fetchone()
        return None, ratio(ceiling, expected), 0
    return ratio(cached, prompt), ratio(ceiling, expected) if ceilings == rows else None, rows


def check_goodput(where, run, goodput, held, done, seconds, objectives):
    met = []
    for o in objectives:
        ok = f"coalesce(({run.figures[o['figure']]}) <= {o['limit_ms']!r}, false)"
        if o["figure"] in ("tpot", "tpot_request"):
            ok = f"(completion_tokens = 1 or {ok})"
        met.append(ok)
    met = "status = 'ok' and " + " and ".join(met)
    good, of = run.db.execute(f"select count(*) filter (where {met}), count(*) from r where {held} and status not in {NOT_SENT}").fetchone()
    same(f"{where}: good turns", goodput["good"], good)
    same(f"{where}: turns sent", goodput["of"], of)
    same(f"{where}: share of good turns", goodput["share"], good / of if of else None)
    ended, known, tokens = run.db.execute(f"select count(*), count(completion_tokens), sum(completion_tokens) from r where {done} and {met}").fetchone()
    same(f"{where}: goodput", goodput["requests_per_s"], ended / seconds)
    same(f"{where}: goodput in tokens", goodput["completion_tokens_per_s"], (tokens or 0) / seconds if known == ended else None)


def check_fluidity(where, run, fluidity, held):
    rows = run.db.execute(f"select sent_ns, chunk_ns, chunk_tokens, completion_tokens from r where {held} and status = 'ok' and len(chunk_ns) > 0").fetchall()
    in_time = tokens = fluid = turns = 0
    for sent, ns, counts, completion in rows:
        arrivals = [at for at, k in zip(ns, counts_of(ns, counts, completion)) for _ in range(k)]
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
    got = total["throughput"]["peak_token_rate"]
    if run.kind == "turns" or run.stop - run.start < 5 * 10**9:
        return same(f"{where}: best second", got, None)
    rows = run.db.execute("select chunk_ns, chunk_tokens, completion_tokens, ended from r where len(chunk_ns) > 0 or completion_tokens > 0").fetchall()
    steps = np.zeros(int(run.value("select max(ended) from r") // 10**7) + 2, dtype=np.int64)
    for ns, counts, completion, ended in rows:
        if not ns:
            ns, counts = [ended], [completion]
        np.add.at(steps, np.array(ns, dtype=np.int64) // 10**7, counts_of(ns, counts, completion))
    steps = steps[-(-run.start // 10**7):run.stop // 10**7]
    upTo = np.concatenate([[0], np.cumsum(steps)])
    same(f"{where}: best second", got, int((upTo[100:] - upTo[:-100]).max()))


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
    """The steady window, by a slow and plain way."""
    if run.kind != "steady" or run.whole:
        return
    main = "phase <> 'warmup' and ended is not null"
    first, last = run.db.execute(f"select min(moment), max(ended) from r where {main}").fetchone()
    spans = {(c, i): [a, b] for c, i, a, b in run.db.execute(f"select conversation_id, instance, min(moment), max(ended) from r where {main} group by 1, 2").fetchall()}
    # A conversation with turns still to come holds its place until the run stops to start turns.
    stop = min((meta["stop_ns"] for f in result["files"] if (meta := json.loads(pq.read_metadata(f).metadata[b"parley.meta"])).get("stop_ns") is not None), default=None)
    if stop is not None:
        for c, i in run.db.execute("select distinct conversation_id, instance from r where status = 'not_reached' and turn > 0 and coalesce(error_kind, '') <> 'conversation_failed'").fetchall():
            if (c, i) in spans and spans[c, i][0] < stop:
                spans[c, i][1] = max(spans[c, i][1], stop)
    spans = sorted((a, b) for a, b in spans.values() if b > a)
    change = {}
    for a, b in spans:
        change[a] = change.get(a, 0) + 1
        change[b] = change.get(b, 0) - 1
    level, steps = 0, []
    moments = sorted(change)
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
    start, end = min(s[2] for s in full), max(s[3] for s in full) + 1
    end = min(end, stop) if stop is not None else end
    if end <= last and last + 1 - end < 0.01 * (end - start):  # no drain to speak of
        end = last + 1
    # The opening burst: sent before the first answer began.
    turns = run.db.execute(f"select sent_ns, coalesce(first_token_ns, ended), ended, first_token_ns, last_token_ns, completion_tokens, status, phase from r where sent_ns is not null").fetchall()
    mine = [t for t in turns if t[7] != "warmup"]
    earliest = min(t[1] for t in mine)
    burst = [t for t in mine if t[0] < earliest]
    if len(burst) > 1:
        half = sorted(t[2] for t in burst)[len(burst) // 2] + 1
        start = max(start, half if end - half >= 0.4 * (end - start) else max(t[1] for t in burst) + 1)
    # MSER-5 on the series, five steps to a turn of mean length.
    lasted = [t[2] - t[0] for t in mine if start <= t[0] < end]
    k = int(min(max((end - start) / (sum(lasted) / len(lasted)), 1), 80))
    m = 5 * k
    width = (end - start) / m
    edges = start + width * np.arange(m + 1)
    flight, tokens, ttft, n = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m)
    share = lambda a, b: np.clip(np.minimum(b, edges[1:]) - np.maximum(a, edges[:-1]), 0, None) / width
    for sent, _, ended, begun, done, completion, status, phase in turns:
        if sent >= end or ended <= start:
            continue
        flight += share(sent, ended)
        if begun is None or done is None:
            continue
        if completion:
            if done > begun:
                tokens += completion * share(begun, done) * width / (done - begun)
            elif start <= begun < end:
                tokens[min(int((begun - start) / width), m - 1)] += completion
        if sent >= start and status == "ok" and phase != "warmup":
            i = min(int((sent - start) / width), m - 1)
            ttft[i] += (begun - sent) / 1e6
            n[i] += 1
    known = np.flatnonzero(n)
    before = known[np.clip(np.searchsorted(known, np.arange(m), side="right") - 1, 0, None)]
    cut = start
    for series in (flight, tokens, ttft[before] / n[before]):
        if k < 4:
            continue
        means = series.reshape(k, 5).mean(axis=1)
        z = [means[d:].var() / (k - d) for d in range(k // 2 + 1)]
        d = int(np.argmin(z))
        if not 0 < d < k // 2 or 5 * d > m * 2 // 5:
            continue
        first, rest = series[:5 * d], series[5 * d:]
        parts = max(len(rest) // len(first), 3)
        size = len(rest) // parts
        spread = np.std([rest[i * size:(i + 1) * size].mean() for i in range(parts)], ddof=1)
        if abs(first.mean() - rest.mean()) > max(0.05 * abs(rest.mean()), 2 * spread):
            cut = max(cut, start + int((end - start) * (5 * d / m)))
    same(f"{where}: steady from", run.start, cut)
    same(f"{where}: steady to", run.stop, end)
    before, after = run.db.execute(f"select count(*) filter (where moment < {run.start}), count(*) filter (where moment >= {run.stop}) from r where {main}").fetchone()
    same(f"{where}: turns before", result["window"]["turns_before"], before)
    same(f"{where}: turns after", result["window"]["turns_after"], after)


def main():
    result = json.load(open(sys.argv[1]))
    for r in result["runs"]:
        run = Run(r, result["from"])
        where = r["label"]
        seconds = run.seconds()
        objectives = result.get("objectives", [])
        check_steady(where, run, r)
        check_group(f"{where} total", run, r["total"], run.window(), run.done(), seconds, objectives, result["from"], run.rated)
        check_peak_rate(where, run, r["total"])
        whole = run.spans
        for g in r.get("groups", []):
            name = " ".join(k["value"] for k in g["keys"])
            only = " and ".join(condition_of(k) for k in g["keys"])
            # A group by time has what happened in its time, whenever the turn was sent.
            rest = " and ".join([condition_of(k) for k in g["keys"] if k["column"] != "time"] or ["true"])
            run.spans = whole
            for k in g["keys"]:
                if k["column"] == "time":
                    low, high = round(k["low"] * 1e9), round(k["high"] * 1e9)
                    run.spans = [(max(a, low), min(b, high)) for a, b in whole if max(a, low) < min(b, high)]
            check_group(f"{where} {name}", run, g, f"{run.window()} and {only}", f"{run.done()} and {rest}", run.seconds(), objectives, result["from"], f"{run.rated} and {rest}")
        run.spans = whole
        for c in r.get("cache_by_turn", []):
            reuse, ceiling, n = cache_of(run, f"{run.window()} and status = 'ok' and turn = {c['turn']}")
            n = n or run.value(f"select count(*) from r where {run.window()} and status = 'ok' and turn = {c['turn']}")
            same(f"{where}: reuse at turn {c['turn']}", c["reuse"], reuse)
            same(f"{where}: ceiling at turn {c['turn']}", c["ceiling"], ceiling)
            same(f"{where}: rows at turn {c['turn']}", c["rows"], n)
    for p in problems[:40]:
        print("DIFFERS", p)
    print(f"{checked} figures checked, {len(problems)} differ")
    return 1 if problems or checked < 100 else 0


sys.exit(main())
