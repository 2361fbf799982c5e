package schemas

import (
	"encoding/json"
	"time"
)

// DatasetMeta is the metadata of a conversations file.
type DatasetMeta struct {
	ToolVersion   string          `json:"tool_version"`
	CreatedBy     string          `json:"created_by,omitempty"` // generate, or what made a file of another make
	Seed          uint64          `json:"seed"`
	Spec          json.RawMessage `json:"spec,omitempty"` // the whole resolved specification
	Source        string          `json:"source,omitempty"`
	Format        string          `json:"format,omitempty"` // the format that was imported
	Tokenizer     string          `json:"tokenizer,omitempty"`
	TokenizerHash string          `json:"tokenizer_hash,omitempty"`
	ContentHash   string          `json:"content_hash"` // sha256 over the rows, repeated in every result; see HashConversation
	Conversations int64           `json:"conversations"`
	Turns         int64           `json:"turns"`
	Shard         string          `json:"shard,omitempty"` // "i/n" of a part of a dataset
	Whole         int64           `json:"whole,omitempty"` // of a part: the conversations of all parts together
	Notes         []string        `json:"notes,omitempty"`
}

// RunMeta is the metadata of a requests file and of a run's journal.
type RunMeta struct {
	RunID       string          `json:"run_id"`
	Label       string          `json:"label,omitempty"`
	ToolVersion string          `json:"tool_version"`
	Config      json.RawMessage `json:"config"` // resolved, secrets taken out
	Seed        uint64          `json:"seed"`
	Place                       // in a plan of runs
	Shard       int             `json:"shard"`
	Shards      int             `json:"shards"`
	Dataset     DatasetRef      `json:"dataset"`
	Targets     []Target        `json:"targets"`
	Simulated   bool            `json:"simulated"` // the target was parley's own simulated server
	Probe       *Probe          `json:"probe,omitempty"`
	Origin      time.Time       `json:"origin"` // wall clock (UTC) of moment 0
	Clock       ClockInfo       `json:"clock"`
	Host        Host            `json:"host"`

	EndedNS      int64            `json:"ended_ns"`               // when the last row was there, from the origin
	StopNS       *int64           `json:"stop_ns,omitempty"`      // when the run stopped starting turns, if it was told to
	Ended        string           `json:"ended,omitempty"`        // complete, requests, duration, deadline, interrupted, error, max_errors, watchdog; empty: unfinished
	EndedDetail  string           `json:"ended_detail,omitempty"` // the error or the watchdog's dump
	Planned      int64            `json:"planned"`                // turns planned, counted apart from the rows
	Rows         int64            `json:"rows"`                   // rows written
	Counts       map[Status]int64 `json:"counts,omitempty"`       // rows by status
	NotAdmitted  int64            `json:"not_admitted,omitempty"` // conversations that a budgeted run never came to
	ResumedFrom  string           `json:"resumed_from,omitempty"` // run that this one continued
	Sessions     []Session        `json:"sessions,omitempty"`     // the times under load: one, or one more for each time that the run was resumed
	OfferedRate  *float64         `json:"offered_rate,omitempty"` // conversations per second asked for (open loop)
	Concurrency  *int64           `json:"concurrency,omitempty"`  // conversations at once asked for (closed loop)
	Health       *Health          `json:"health,omitempty"`       // how the client itself was doing
	Calibration  *Calibration     `json:"calibration,omitempty"`  // what this client adds at this load
	Verification *Verification    `json:"verification,omitempty"` // of the answers, with --verify-output
	Verdict      *Verdict         `json:"verdict,omitempty"`      // the verdict when the run ended
	Warnings     []string         `json:"warnings,omitempty"`     // what the run noticed and went on with
	Telemetry    string           `json:"telemetry,omitempty"`    // base name of the telemetry file
}

// Place is where a run stands in a plan of runs ([Plan]); empty for a run by itself. Two runs that differ in nothing
// but the side, or the level, have the same schedule's random numbers.
type Place struct {
	Plan   string `json:"plan,omitempty"`   // the plan's identifier
	Level  string `json:"level,omitempty"`  // the load, such as concurrency=16
	Side   string `json:"side,omitempty"`   // a or b, of a plan that compares two targets
	Repeat int    `json:"repeat,omitempty"` // which repeat of the level it is, from 0
}

// Session is one time under load of a run. An interrupted and resumed run has several, and figures must not go
// across the gap between them.
type Session struct {
	StartNS int64 `json:"start_ns"` // when its load began, from the origin
	LoadNS  int64 `json:"load_ns"`  // how long the run had been under load before
}

// DatasetRef names the dataset that a run replayed.
type DatasetRef struct {
	File          string `json:"file"` // base name
	ContentHash   string `json:"content_hash"`
	Conversations int64  `json:"conversations"`
	Turns         int64  `json:"turns"`
	Tokenizer     string `json:"tokenizer,omitempty"`
}

// Target is one server that a run talked to.
type Target struct {
	URL    string `json:"url"` // without credentials
	API    string `json:"api"`
	Model  string `json:"model"`
	Server string `json:"server,omitempty"` // kind: vllm, sglang, trtllm, llamacpp, ollama, tgi, ...
	// CachedMost is the most cached tokens that the server told in the probe; 0 where it told none.
	CachedMost int64 `json:"cached_most,omitempty"`
}

// Probe is what the requests before the run found out about the server. Null means not asked.
type Probe struct {
	Usage           *bool    `json:"usage,omitempty"`            // stream_options.include_usage is taken
	ContinuousUsage *bool    `json:"continuous_usage,omitempty"` // continuous_usage_stats is taken and sent
	IgnoreEOS       *bool    `json:"ignore_eos,omitempty"`
	MinTokens       *bool    `json:"min_tokens,omitempty"`
	TokenLimitName  string   `json:"token_limit_name,omitempty"` // max_tokens, max_completion_tokens, ...
	CachedTokens    *bool    `json:"cached_tokens,omitempty"`    // the usage tells cached tokens
	Steps           []string `json:"steps,omitempty"`            // what was tried, with the answers
}

// ClockInfo says which clocks the moments of a run come from.
type ClockInfo struct {
	Source        string `json:"source"`             // kernel: receive stamps by the kernel; user: by the process
	KernelReads   int64  `json:"kernel_reads"`       // reads with a kernel stamp
	UserReads     int64  `json:"user_reads"`         // reads without one
	OffsetStartNS int64  `json:"offset_start_ns"`    // CLOCK_REALTIME minus the run's clock at the start
	OffsetEndNS   int64  `json:"offset_end_ns"`      // the same at the end
	LargestStepNS int64  `json:"largest_step_ns"`    // largest change of it between two samples
	ResolutionNS  int64  `json:"resolution_ns"`      // of the pacing clock
	Fallback      string `json:"fallback,omitempty"` // why user stamps were used
}

// Host describes the client's machine.
type Host struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel,omitempty"`
	CPU        string `json:"cpu,omitempty"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	MemBytes   int64  `json:"mem_bytes,omitempty"`
	GoVersion  string `json:"go_version"`
	FDLimit    int64  `json:"fd_limit,omitempty"`
}

// Health is the summary of the client's own state during a run. Its series stand in the telemetry file.
type Health struct {
	CPUSeconds      float64 `json:"cpu_seconds"`      // used by this process
	CPUShare        float64 `json:"cpu_share"`        // of all cores, mean over the run
	CPUSharePeak    float64 `json:"cpu_share_peak"`   // highest second
	MachineIdleMin  float64 `json:"machine_idle_min"` // lowest share of the machine's cores left idle in a second; -1 unknown
	SchedLatencyP50 float64 `json:"sched_latency_p50_ms"`
	SchedLatencyP99 float64 `json:"sched_latency_p99_ms"`
	GCPauseP99      float64 `json:"gc_pause_p99_ms"`
	GCPauseTotal    float64 `json:"gc_pause_total_ms"`
	GCCycles        int64   `json:"gc_cycles"`
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`
	PeakGoroutines  int64   `json:"peak_goroutines"`
	PeakBacklogRows int64   `json:"peak_backlog_rows"`    // rows that waited for the journal
	BacklogStalls   int64   `json:"backlog_stalls"`       // times the run held back new turns for it
	PeakInFlight    int64   `json:"peak_in_flight"`       // requests at once
	PeakActive      int64   `json:"peak_active"`          // conversations at once
	WakeLatenessP50 float64 `json:"wake_lateness_p50_ms"` // of the pacer against its schedule
	WakeLatenessP99 float64 `json:"wake_lateness_p99_ms"`
	ScrapesFailed   int64   `json:"scrapes_failed"`
	Scrapes         int64   `json:"scrapes"`
}

// Calibration is what the client added to true times at this load on this machine.
type Calibration struct {
	Requests    int64   `json:"requests"`
	Streams     int64   `json:"streams"` // most at once
	TTFTErrP50  float64 `json:"ttft_error_p50_ms"`
	TTFTErrP99  float64 `json:"ttft_error_p99_ms"`
	GapErrP50   float64 `json:"gap_error_p50_ms"`
	GapErrP99   float64 `json:"gap_error_p99_ms"`
	SendLagP99  float64 `json:"send_lag_p99_ms"`
	Description string  `json:"description"`    // the simulated server's parameters
	When        string  `json:"when"`           // before or after the run
	Path        string  `json:"path,omitempty"` // the way to it, such as "HTTP/1.1 over TLS", and what of the run's it is without
}

// Verification says how a run's answers compare with those of the first run that --verify-output names.
type Verification struct {
	File          string `json:"file"`          // the first run's, without its folder
	Compared      int64  `json:"compared"`      // answers that both runs have
	Different     int64  `json:"different"`     // of them, with another text
	Conversations int64  `json:"conversations"` // with a different answer
	Missing       int64  `json:"missing"`       // answers that the first run has not
}

// Grade is the verdict's word.
type Grade string

// The three verdicts.
const (
	Valid   Grade = "VALID"
	Suspect Grade = "SUSPECT"
	Invalid Grade = "INVALID"
)

// Verdict says how far a run's figures can be trusted, and why.
type Verdict struct {
	Grade   Grade    `json:"grade"`
	Reasons []Reason `json:"reasons"`
}

// Reason is one signal that lowered a verdict, with the number that decided.
type Reason struct {
	Signal string  `json:"signal"` // send_lag, arrival_rate, error_rate, ...
	Grade  Grade   `json:"grade"`
	Value  float64 `json:"value"`
	Limit  float64 `json:"limit"`
	Unit   string  `json:"unit,omitempty"`
	Text   string  `json:"text"`   // one sentence with the number
	Advice string  `json:"advice"` // what to do about it
}
