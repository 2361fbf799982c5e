package replay

import (
	"context"
	"errors"
)

// scout finds out before the load what the servers are and take.
func (r *run) scout(ctx context.Context) error {
	for _, s := range r.servers {
		if s.Model == "" {
			return errors.New("--model: missing")
		}
		s.params = baseParams(r.cfg, s.Model)
	}
	return ctx.Err()
}
