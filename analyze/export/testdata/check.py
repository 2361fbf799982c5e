"""Checks exports by what their publishers publish, and one by another:

    check.py llm-d SCHEMA FILE...      llm-d's JSON schema (extra fields forbidden)
    check.py aiperf FOLDER...          AIPerf's own pydantic models; no field but those they name
    check.py mlperf FOLDER...          the models of MLCommons' submission checker
    check.py inferencex VLLM POINT     the point against what InferenceX's rule makes of the vllm-json file
"""

import json
import math
import pathlib
import sys

import yaml


def load(path):
    text = pathlib.Path(path).read_text()
    return yaml.safe_load(text) if str(path).endswith(".yaml") else json.loads(text)


def llmd(schema, *files):
    import jsonschema

    validator = jsonschema.Draft202012Validator(load(schema), format_checker=jsonschema.FormatChecker())
    experiments = set()
    for file in files:
        report = load(file)
        for problem in validator.iter_errors(report):
            yield f"{file}: {'/'.join(map(str, problem.path))}: {problem.message}"
        experiments.add(report["run"]["eid"])
        latency = report["results"]["request_performance"]["aggregate"]["latency"]
        for name in ("time_to_first_token", "time_per_output_token", "inter_token_latency", "request_latency"):
            if not latency[name]["mean"] > 0:
                yield f"{file}: {name} is {latency[name]}"
        stats = latency["request_latency"]
        order = [stats[k] for k in ("min", "p0p1", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99p9", "max")]
        if order != sorted(order):
            yield f"{file}: percentiles do not rise: {order}"
    if len(experiments) != 1:
        yield f"levels of one call have several experiments: {experiments}"


def aiperf(*folders):
    from aiperf.common.models.export_models import JsonExportData
    from aiperf.common.models.record_models import MetricRecordInfo, MetricRecordMetadata
    from aiperf.metrics.metric_registry import MetricRegistry

    tags = set(MetricRegistry.all_tags())
    for folder in map(pathlib.Path, folders):
        completed = failed = 0
        for n, line in enumerate((folder / "profile_export.jsonl").read_text().splitlines(), 1):
            MetricRecordInfo.model_validate_json(line)
            record = json.loads(line)
            if odd := set(record["metadata"]) - set(MetricRecordMetadata.model_fields):
                yield f"{folder}: line {n}: no such metadata: {odd}"
            if odd := set(record["metrics"]) - tags:
                yield f"{folder}: line {n}: no such metrics: {odd}"
            for name, metric in record["metrics"].items():
                unit = str(MetricRegistry.get_class(name).display_unit or MetricRegistry.get_class(name).unit)
                if metric["unit"] != unit:
                    yield f"{folder}: line {n}: {name} is in {metric['unit']}, AIPerf's is in {unit}"
            if record["error"] is None:
                completed += 1
            else:
                failed += 1
        text = (folder / "profile_export_aiperf.json").read_text()
        model = JsonExportData.model_validate_json(text)
        for name, value in json.loads(text).items():
            if name not in JsonExportData.model_fields and name not in tags:
                yield f"{folder}: the aggregate has no {name}"
            if isinstance(value, dict) and "unit" in value:
                unit = str(MetricRegistry.get_class(name).display_unit or MetricRegistry.get_class(name).unit)
                if value["unit"] != unit:
                    yield f"{folder}: {name} is in {value['unit']}, AIPerf's is in {unit}"
        if model.request_count.avg != completed or completed == 0:
            yield f"{folder}: {model.request_count.avg} requests, {completed} records without an error"


def mlperf(*folders):
    from submission_checker.layout import POINT_DIR_RE, canonical_model_name
    from submission_checker.models.file import SystemDescription
    from submission_checker.models.file.point_config import PointConfig
    from submission_checker.models.file.point_summary import PointSummary

    for root in map(pathlib.Path, folders):
        points = [p.parent for p in root.glob("results/*/*/r*/point.yaml")]
        if not points:
            yield f"{root} holds no point"
        for point in points:
            summary = PointSummary.model_validate(load(point / "result_summary.json"))
            config = PointConfig.model_validate(load(point / "point.yaml"))
            SystemDescription.model_validate(load(point / "system_desc.json"))
            load(point / "config.yaml")
            for r in config._check_results:
                if str(r.severity).lower().endswith("error"):
                    yield f"{point}: {r.rule}: {r.message}"
            if not POINT_DIR_RE.fullmatch(point.name) or point.name != f"r{config.concurrency}":
                yield f"{point}: the folder is not named for {config.concurrency} at once"
            if canonical_model_name(config.model_name) != config.model_name:
                yield f"{point}: the model's name is {config.model_name}"
            if not (summary.ttft_p90_ms > 0 and summary.tpot_p90_ms > 0 and summary.system_tps > 0 and summary.n_samples_completed > 0):
                yield f"{point}: measured nothing: {summary}"
            raw = load(point / "result_summary.json")
            if sum(raw["ttft"]["histogram"]["counts"]) != summary.n_samples_completed:
                yield f"{point}: the histogram of TTFT has other samples than were completed"


def inferencex(vllm, point):
    result, got = load(vllm), load(point)
    want = {}
    for key, value in result.items():
        if key.endswith("ms"):
            want[key.replace("_ms", "")] = float(value) / 1000
        if "tpot" in key:
            want[key.replace("_ms", "").replace("tpot", "intvty")] = 1000 / float(value)
    want |= {
        "conc": int(result["max_concurrency"]),
        "model": result["model_id"],
        "tput_per_gpu": result["total_token_throughput"] / 8,
        "output_tput_per_gpu": result["output_throughput"] / 8,
        "input_tput_per_gpu": (result["total_token_throughput"] - result["output_throughput"]) / 8,
        "hw": "h100", "tp": 8, "precision": "fp8", "disagg": False,
    }
    for key in want.keys() | got.keys():
        a, b = want.get(key), got.get(key)
        same = math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, (int, float)) else a == b
        if not same:
            yield f"{point}: {key} is {b}, the processor's rule makes {a}"


problems = list({"llm-d": llmd, "aiperf": aiperf, "mlperf": mlperf, "inferencex": inferencex}[sys.argv[1]](*sys.argv[2:]))
for problem in problems[:20]:
    print(problem)
if problems:
    sys.exit(f"{len(problems)} problems")
print("as published:", sys.argv[1], *sys.argv[2:])
