package schemas

// Sample is one row of a telemetry file: one figure at one moment of a run.
type Sample struct {
	TimeNS int64   `parquet:"t_ns,delta" unit:"ns" doc:"The moment, from the run's origin."`
	Source string  `parquet:"source,dict" doc:"client, or the URL that was scraped."`
	Name   string  `parquet:"name,dict" doc:"The figure's normalised name, such as cpu_seconds_total, sched_latency_p99_ms, running, waiting, kv_usage, prefix_cache_hits."`
	Raw    *string `parquet:"raw_name,optional,dict" doc:"The server's own name of the figure; null for the client's."`
	Value  float64 `parquet:"value" doc:"The value."`
}
