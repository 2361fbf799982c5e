// Package likeness makes simulated servers in the likeness of real ones: sim:?like=run.parquet. It joins what analyze
// finds in a run with what the simulated server takes.
package likeness

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"parley/analyze"
	"parley/analyze/twin"
)

// Resolve replaces like=FILE in a simulated server's query by the parameters of the engine behind that run; parameters
// that are given besides win. Without like the query stays as it is and there is no fit.
func Resolve(ctx context.Context, query string) (resolved string, fit *twin.Fit, err error) {
	given, err := url.ParseQuery(query)
	if err != nil || !given.Has("like") {
		return query, nil, nil // what is wrong with it, the simulated server says better
	}
	file := given.Get("like")
	given.Del("like")
	runs, err := analyze.Load(ctx, []string{file})
	if err != nil {
		return "", nil, fmt.Errorf("like=%s: %w", file, err)
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	fit, err = analyze.FitEngine(ctx, runs)
	if err != nil {
		return "", nil, fmt.Errorf("like=%s: %w", file, err)
	}
	q := fit.Query()
	for name, values := range given {
		q[name] = values
	}
	return q.Encode(), fit, nil
}
