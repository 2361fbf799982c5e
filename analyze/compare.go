package analyze

import "parley/schemas"

// Comparison sets one run against a baseline.
type Comparison struct {
	Baseline  string         `json:"baseline"`
	Candidate string         `json:"candidate"`
	Paired    bool           `json:"paired"`        // turn by turn, both runs replayed the same dataset
	Why       string         `json:"why"`           // why paired or not, in words
	Pairs     int64          `json:"pairs"`         // turns that completed in both
	OnlyBase  int64          `json:"only_baseline"` // completed turns without a counterpart
	OnlyCand  int64          `json:"only_candidate"`
	Config    []ConfigChange `json:"config_changes,omitempty"`
	Rows      []Difference   `json:"rows"`
	Slower    bool           `json:"slower"` // some figure got worse beyond chance (family-wise, Holm)
	Faster    bool           `json:"faster"` // some figure got better beyond chance
	BaseGrade schemas.Grade  `json:"baseline_grade"`
	CandGrade schemas.Grade  `json:"candidate_grade"`
	Warnings  []Warning      `json:"warnings,omitempty"`

	base *RunResult // for the gates
}

// ConfigChange is one setting that differs between two runs.
type ConfigChange struct {
	Setting   string `json:"setting"` // dotted path
	Baseline  string `json:"baseline"`
	Candidate string `json:"candidate"`
}

// Difference is one figure in both runs.
type Difference struct {
	Name       string `json:"name"` // ttft.p50, request_throughput, ...
	Title      string `json:"title"`
	Unit       string `json:"unit"`
	Baseline   Num    `json:"baseline"`
	Candidate  Num    `json:"candidate"`
	Diff       Num    `json:"diff"` // candidate - baseline
	DiffLow    Num    `json:"diff_low"`
	DiffHigh   Num    `json:"diff_high"`
	Ratio      Num    `json:"ratio"` // candidate / baseline
	RatioLow   Num    `json:"ratio_low"`
	RatioHigh  Num    `json:"ratio_high"`
	P          Num    `json:"p"`       // two-sided, of no difference
	Changed    bool   `json:"changed"` // beyond chance: at 1 %, after Holm's correction over the rows of the table
	Worse      bool   `json:"worse"`   // the change is for the worse
	HighIsGood bool   `json:"high_is_good"`
}

// Gate is one condition and whether it held.
type Gate struct {
	Expression string `json:"expression"`
	Held       bool   `json:"held"`
	Value      Num    `json:"value"` // in the unit of the expression's bound: a relative change, a difference or the figure
	Text       string `json:"text"`  // one sentence with the numbers
}

// Sweep sets several runs side by side.
type Sweep struct {
	GPUs   float64    `json:"gpus,omitempty"`
	Rows   []SweepRow `json:"rows"`
	Labels []Spread   `json:"labels,omitempty"` // over runs of one label
}

// SweepRow is one run of a sweep.
type SweepRow struct {
	Label        string        `json:"label"`
	Grade        schemas.Grade `json:"grade"`
	Concurrency  Num           `json:"concurrency"`
	Rate         Num           `json:"offered_rate"`
	Requests     Num           `json:"requests_per_s"`
	OutputTokens Num           `json:"completion_tokens_per_s"`
	TotalTokens  Num           `json:"total_tokens_per_s"`
	PerUser      Num           `json:"tokens_per_s_per_user"`
	PerGPU       Num           `json:"total_tokens_per_s_per_gpu"`
	OutputPerGPU Num           `json:"completion_tokens_per_s_per_gpu"`
	TTFTP50      Num           `json:"ttft_p50"`
	TTFTP99      Num           `json:"ttft_p99"`
	TPOTP50      Num           `json:"tpot_p50"`
	E2EP50       Num           `json:"e2e_p50"`
	ErrorRate    Num           `json:"error_rate"`
	GoodputShare Num           `json:"goodput_share"`
	Pareto       bool          `json:"pareto"` // no other run has both more tokens per second and more per user
}

// Spread is a figure over several runs of one configuration.
type Spread struct {
	Label string `json:"label"`
	Runs  int64  `json:"runs"`
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Mean  Num    `json:"mean"`
	Std   Num    `json:"std"`
	CV    Num    `json:"cv"`  // std / mean
	Low   Num    `json:"low"` // interval of the mean (Student's t over runs)
	High  Num    `json:"high"`
	Min   Num    `json:"min"`
	Max   Num    `json:"max"`
}
