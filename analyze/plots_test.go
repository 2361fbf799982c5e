package analyze

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"

	"parley/analyze/internal/synth"
	"parley/analyze/plots"
	"parley/schemas"
)

func plotsOf(t *testing.T, path string, o Options, p plots.Budget) (*Result, *plots.RunPlots) {
	t.Helper()
	runs := load(t, path)
	res, err := Analyze(t.Context(), runs, o)
	if err != nil {
		t.Fatal(err)
	}
	plots, err := BuildPlots(t.Context(), runs, res, o, p)
	if err != nil {
		t.Fatal(err)
	}
	return res, &plots.Runs[0]
}

// What is drawn agrees with the figures, and stays within the budget.
func TestPlotsAgreeWithFigures(t *testing.T) {
	path := writeRun(t, filepath.Join(t.TempDir(), "run.parquet"), fullSpec())
	o := Options{Window: WindowSpec{Kind: WindowAll}}
	for _, budget := range []plots.Budget{{}, {Points: 60, Lanes: 5, Turns: 12, Seconds: 5}} {
		res, plots := plotsOf(t, path, o, budget)
		limit := budget.WithDefaults()
		total := &res.Runs[0].Total
		for _, pts := range append(plots.OverTime, plots.Failures) {
			if len(pts.T) != len(pts.V) || len(pts.T) > limit.Points {
				t.Errorf("%s: %d and %d points, budget %d", pts.Figure, len(pts.T), len(pts.V), limit.Points)
			}
			if !slices.IsSorted(pts.T) {
				t.Errorf("%s is not in order of time", pts.Figure)
			}
		}
		for _, c := range plots.CDFs {
			f := total.Figure(c.Figure)
			if c.N != f.N || c.Value[0] != f.Min || c.Value[len(c.Value)-1] != f.Max || c.Share[len(c.Share)-1] != 1 {
				t.Errorf("CDF of %s: n %d, %v to %v; figure n %d, %v to %v", c.Figure, c.N, c.Value[0], c.Value[len(c.Value)-1], f.N, f.Min, f.Max)
			}
			if !slices.IsSorted(c.Value) || !slices.IsSorted(c.Share) {
				t.Errorf("CDF of %s does not rise", c.Figure)
			}
		}
		var n int64
		for _, b := range plots.ByTurn {
			if b.Figure == "ttft" {
				for _, k := range b.N {
					n += k
				}
			}
		}
		if n != total.Figure("ttft").N {
			t.Errorf("by turn: %d rows, want %d", n, total.Figure("ttft").N)
		}
		ps := plots.PerSecond
		var completed, tokens, inFlight Num
		for i := range ps.T {
			completed += ps.Completed[i] * ps.Step
			tokens += ps.CompletionTokens[i] * ps.Step
			inFlight += ps.InFlight[i] * ps.Step
		}
		var ok int64
		for _, g := range res.Runs[0].Phases {
			ok += g.Counts.OK
		}
		if !near(float64(completed), float64(ok)) {
			t.Errorf("per second: %v completed, want %d", completed, ok)
		}
		if tokens <= 0 || float64(slices.Max(ps.InFlightPeak)) < float64(total.Throughput.PeakInFlight) {
			t.Errorf("tokens %v, peak in flight %v, figure %v", tokens, slices.Max(ps.InFlightPeak), total.Throughput.PeakInFlight)
		}
		if len(plots.Lanes) > limit.Lanes || len(plots.Lanes) == 0 {
			t.Errorf("%d lanes, budget %d", len(plots.Lanes), limit.Lanes)
		}
		turns := 0
		for _, l := range plots.Lanes {
			turns += len(l.Turns)
			for i := 1; i < len(l.Turns); i++ {
				if l.Turns[i].Turn <= l.Turns[i-1].Turn {
					t.Errorf("lane %s is not in order", l.Conversation)
				}
			}
		}
		if turns > limit.Turns {
			t.Errorf("%d turns in lanes, budget %d", turns, limit.Turns)
		}
	}
}

func TestTelemetryIsRead(t *testing.T) {
	dir := t.TempDir()
	path := writeRun(t, filepath.Join(dir, "run.parquet"), synth.Spec{Conversations: 20, Turns: 2, TTFT: 10, Gap: 1, Chunks: 3})
	w, err := schemas.Create[schemas.Sample](schemas.TelemetryPath(path), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		at := int64(i) * 1e9
		total := float64(i * 5)
		if i >= 50 {
			total = float64((i - 50) * 5) // the server was restarted
		}
		if err := w.Write(
			schemas.Sample{TimeNS: at, Source: "client", Name: "cpu_share", Value: 0.5},
			schemas.Sample{TimeNS: at, Source: "http://x", Name: "prefix_cache_hits_total", Value: total},
			schemas.Sample{TimeNS: at, Source: "http://x", Name: "broken", Value: math.NaN()},
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(&schemas.RunMeta{}); err != nil {
		t.Fatal(err)
	}
	// The metadata names no telemetry file: none is read.
	if _, plots := plotsOf(t, path, Options{}, plots.Budget{}); len(plots.Telemetry) != 0 {
		t.Errorf("telemetry %+v", plots.Telemetry)
	}
	runs := load(t, path)
	// Only the base name counts: metadata must not lead out of the run's folder.
	runs.list[0].parts[0].meta.Telemetry = "../../../" + filepath.Base(schemas.TelemetryPath(path))
	got, err := readTelemetry(t.Context(), runs.list[0], 4000)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "cpu_share" || got[0].Rate || !got[1].Rate || len(got[1].V) != 99 {
		t.Fatalf("%d series", len(got))
	}
	for i, v := range got[1].V {
		if want := Num(5); v != want && got[1].T[i] != 50 || v < 0 {
			t.Errorf("rate at %v s is %v, want %v", got[1].T[i], v, want)
		}
	}
}

func TestWriteArrow(t *testing.T) {
	dir := t.TempDir()
	path := writeRun(t, filepath.Join(dir, "run.parquet"), fullSpec())
	out, err := os.Create(filepath.Join(dir, "run.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	n, err := WriteArrow(t.Context(), out, load(t, path))
	if err != nil {
		t.Fatal(err)
	}
	rows := readRows(t, path)
	if n != int64(len(rows)) {
		t.Errorf("%d rows, want %d", n, len(rows))
	}
	r, err := ipc.NewFileReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, want := r.Schema().NumFields(), len(schemas.ArrowSchema[schemas.Request]().Fields()); got != want {
		t.Errorf("%d columns, want %d", got, want)
	}
	var read int64
	for i := range r.NumRecords() {
		rec, err := r.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		read += rec.NumRows()
	}
	if read != n {
		t.Errorf("%d rows read back, want %d", read, n)
	}
}
