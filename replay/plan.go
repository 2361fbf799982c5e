package replay

import (
	"errors"
	"fmt"
	"path/filepath"

	"parley/replay/load"
	"parley/schemas"
)

// Shape is what a run's schedule looks like, and what it would ask for.
type Shape = load.Shape

// planMost is how many turns of a schedule Plan plays through.
const planMost = 5_000_000

// Plan plays a run's schedule through without sending anything, see [load.Rehearse].
func Plan(cfg Config) (*Shape, error) {
	if cfg.Output == "" {
		cfg.Output = "nothing is written"
	}
	if len(cfg.URLs) == 0 {
		cfg.URLs = []string{"http://nobody.is.asked"}
	}
	s, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	ds, x, err := s.survey()
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	shape, err := load.Rehearse(x, &s.rules, ds.Outlines, s.outputTokens, planMost)
	if err != nil {
		return nil, err
	}
	shape.Dataset = datasetRef(ds, x)
	return shape, nil
}

// survey opens the dataset, and finds out what it holds.
func (s *settled) survey() (ds *schemas.Dataset, x *load.Extent, err error) {
	if ds, err = s.Open(s.Dataset); err != nil {
		return nil, nil, err
	}
	if x, err = load.Survey(ds.Path(), ds.Outlines, &s.rules); err != nil {
		return nil, nil, errors.Join(err, ds.Close())
	}
	return ds, x, nil
}

// datasetRef names the dataset in files.
func datasetRef(ds dataset, x *load.Extent) schemas.DatasetRef {
	meta := ds.Meta()
	return schemas.DatasetRef{
		File: filepath.Base(ds.Path()), ContentHash: meta.ContentHash, Tokenizer: meta.Tokenizer, Conversations: x.Conversations(), Turns: x.Turns,
	}
}

// Expectation says in one line what a load of a shape will look like.
func Expectation(s *Shape) string {
	text := fmt.Sprintf("expected: %d conversations at once at most, %.1f requests in flight on average and %d at most", s.MostActive, s.MeanRequests, s.MostRequests)
	if s.MeanRequests < s.MeanActive/2 {
		what := "think"
		if s.ToolTime > s.ThinkTime {
			what = "tool"
		}
		text += ": most of the time is " + what + " time"
	}
	return text + fmt.Sprintf(" (if the server took %v to the first token and %v for each further one)", s.Assumed.TTFT, s.Assumed.ITL)
}
