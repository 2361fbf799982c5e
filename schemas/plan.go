package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// PlanFile is the name of a plan in its folder.
const PlanFile = "plan.json"

// A Plan is several runs that answer one question, in one folder: which levels of load, how often, against which
// targets, and in what order.
type Plan struct {
	ID          string        `json:"id"`
	ToolVersion string        `json:"tool_version"`
	Load        string        `json:"load"` // what the levels are of: concurrency (conversations at once) or rate (conversations that start per second)
	Repeats     int           `json:"repeats"`
	Order       string        `json:"order,omitempty"` // interleaved, ascending, random
	Between     time.Duration `json:"between_ns,omitempty"`
	Seed        uint64        `json:"seed"` // of the first repeat; each further one has the next
	Sides       []PlanSide    `json:"sides"`
	Search      *PlanSearch   `json:"search,omitempty"`
	Runs        []PlanRun     `json:"runs"` // in the order in which they are made; of a search, those so far
}

// PlanSearch is what a plan that looks for the capacity looks for, and what it found.
type PlanSearch struct {
	Objectives []string        `json:"objectives"` // such as ttft.p99<500ms
	From       string          `json:"from"`       // the moment that latencies count from
	Config     json.RawMessage `json:"config"`     // of the search, as package analyze/capacity has it
	Answer     json.RawMessage `json:"answer,omitempty"`
}

// PlanSide is one target of a plan.
type PlanSide struct {
	Name   string          `json:"name,omitempty"` // a or b; empty if there is only one
	Label  string          `json:"label,omitempty"`
	Config json.RawMessage `json:"config"` // that all its runs share, secrets taken out
}

// PlanRun is one run of a plan.
type PlanRun struct {
	File   string  `json:"file"`  // base name of its requests file
	Level  float64 `json:"level"` // conversations at once, or per second
	Side   string  `json:"side,omitempty"`
	Repeat int     `json:"repeat"` // from 0
	Seed   uint64  `json:"seed"`

	Phase   string          `json:"phase,omitempty"`   // of a search: what the run is for
	Outcome json.RawMessage `json:"outcome,omitempty"` // and what it came to, as package analyze/capacity has it
}

// LevelName is the level's name in the metadata of the plan's runs.
func (p *Plan) LevelName(level float64) string { return fmt.Sprintf("%s=%g", p.Load, level) }

// Place is what the run's metadata says of its place in the plan.
func (p *Plan) Place(r *PlanRun) Place {
	return Place{Plan: p.ID, Level: p.LevelName(r.Level), Side: r.Side, Repeat: r.Repeat}
}

// ReadPlan reads the plan of a folder. The error wraps fs.ErrNotExist if it has none.
func ReadPlan(dir string) (*Plan, error) {
	path := filepath.Join(dir, PlanFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: not the plan of a folder of runs: %w", path, err)
	}
	return p, nil
}

// Write writes the plan into a folder, whole or not at all.
func (p *Plan) Write(dir string) error {
	if err := writeJSON(filepath.Join(dir, PlanFile), p); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// ReadRunMeta gives the metadata of the run whose requests file is at path, nil if there is no such file.
func ReadRunMeta(path string) (*RunMeta, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f, err := Open[Request](path)
	if err != nil {
		return nil, err
	}
	meta := &RunMeta{}
	return meta, errors.Join(f.Meta(meta), f.Close())
}
