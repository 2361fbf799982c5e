package analyze

import (
	"context"
	"errors"
	"fmt"

	"parley/analyze/twin"
	"parley/schemas"
)

// FitEngine finds the engine behind a single run.
func FitEngine(ctx context.Context, runs *Runs) (*twin.Fit, error) {
	rows, samples, err := runs.everything(ctx)
	if err != nil {
		return nil, err
	}
	f, err := twin.Of(rows, samples)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", runs.list[0].label, err)
	}
	return f, nil
}

// BeyondFit says where a run (a file, or its journal) left what a twin knows, in a sentence each.
func BeyondFit(ctx context.Context, path string, f *twin.Fit) (beyond []string, err error) {
	runs, err := Load(ctx, []string{path})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	rows, samples, err := runs.everything(ctx)
	if err != nil {
		return nil, err
	}
	return f.Beyond(rows, samples), nil
}

// everything reads the rows and the server's figures of a single run.
func (r *Runs) everything(ctx context.Context) (rows []schemas.Request, samples []schemas.Sample, err error) {
	if len(r.list) != 1 {
		return nil, nil, fmt.Errorf("a twin is fitted to one run, and there are %d", len(r.list))
	}
	for _, p := range r.list[0].parts {
		if err := p.eachBatch(func(batch []schemas.Request) error {
			rows = append(rows, batch...)
			return ctx.Err()
		}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.path, err)
		}
		// Figures that cannot be read are missing from the fit, which says so.
		_ = p.eachSample(ctx, func(s *schemas.Sample) { samples = append(samples, *s) })
	}
	return rows, samples, nil
}
