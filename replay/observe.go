package replay

import (
	"fmt"

	"parley/replay/internal/observe"
	"parley/schemas"
)

// observe makes what tells others how the run goes, as far as that was asked for.
func (r *run) observe() (err error) {
	if address := r.cfg.Metrics; address != "" {
		if r.page, err = observe.Listen(address, r.meta.RunID); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		r.hooks.Note("the run's figures for Prometheus are at " + r.page.Address())
	}
	if r.cfg.OTLP != "" {
		r.exporter, err = observe.NewExporter(observe.ExporterOptions{
			URL: r.cfg.OTLP, Headers: r.cfg.OTLPHeaders, RunID: r.meta.RunID, Tool: schemas.Version(), Wall: r.clk.Wall,
		})
		if err != nil {
			return fmt.Errorf("--otlp: %w", err)
		}
	}
	return nil
}

// observers are those who are shown each row.
func (r *run) observers() (see []func([]schemas.Request)) {
	each := func(show func(*schemas.Request)) {
		see = append(see, func(rows []schemas.Request) {
			for i := range rows {
				show(&rows[i])
			}
		})
	}
	if r.page != nil {
		each(r.page.Row)
	}
	if r.exporter != nil {
		each(r.exporter.Row)
	}
	if r.hooks.Rows != nil {
		see = append(see, r.hooks.Rows)
	}
	return see
}

// exported sends what is left, and says what the receiver did not take. The run is not the worse for it.
func (r *run) exported() {
	if r.exporter == nil {
		return
	}
	sent, lost, err := r.exporter.Close()
	switch {
	case lost > 0:
		r.warn(fmt.Sprintf("--otlp: %d of %d spans did not reach %s: %v", lost, sent+lost, r.exporter.URL(), orReason(err)))
	case err != nil:
		r.warn(fmt.Sprintf("--otlp: not all was taken at once, or the histograms were not: %v", err))
	default:
		r.hooks.Note(fmt.Sprintf("%d spans, and the histograms, went to %s", sent, r.exporter.URL()))
	}
}

func orReason(err error) any {
	if err == nil {
		return "it rejected them, or they came faster than it takes them"
	}
	return err
}

// endObserving closes the page.
func (r *run) endObserving() {
	if r.page != nil {
		r.page.Close()
	}
}
