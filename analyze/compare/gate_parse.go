package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// Spec is a condition: on a figure by itself (ttft.p99 < 500ms, error_rate < 1%), against a baseline
// (ttft.p99 < +5%, output_throughput > -2%), where a sign says that the bound is a change, or on the verdict
// (verdict >= SUSPECT).
type Spec struct {
	Text   string
	Figure string        // ttft, request_throughput, error_rate, ..., verdict
	Stat   string        // p99, mean, ...; "" for figures that are one number
	Op     string        // <, <=, >, >=
	Bound  float64       // ms, a share, a rate, or a change
	Signed bool          // the bound is a change against the baseline
	Share  bool          // the bound was given in percent
	Grade  schemas.Grade // of the verdict
}

const verdictFigure = "verdict"

// Relative says whether the gate needs a baseline.
func (g Spec) Relative() bool { return g.Signed }

// Percentile gives the percentile that the gate is about, in percent.
func (g Spec) Percentile() (float64, bool) { return percentile(g.Stat) }

// Plain are the figures that are one number of a run.
var Plain = []struct {
	Name, Title, Unit string
	HighIsGood        bool
}{
	{"error_rate", "Error rate", "share", false},
	{"request_throughput", "Turns/s", "1/s", true},
	{"output_throughput", "Output tokens/s", "1/s", true},
	{"total_throughput", "All tokens/s", "1/s", true},
	{"cache_reuse", "Cache reuse", "share", true},
	{"goodput", "Good turns/s", "1/s", true},
	{"goodput_share", "Goodput", "share", true},
}

// UnitOf gives the unit of a figure by its full name (ttft.p99, error_rate).
func UnitOf(name string) string {
	if u := plainUnit(name); u != "" {
		return u
	}
	return "ms"
}

func plainUnit(name string) string {
	for _, p := range Plain {
		if p.Name == name {
			return p.Unit
		}
	}
	return ""
}

// ParseGate reads a condition on one of the figures named, each with a statistic, or on one of [Plain].
func ParseGate(s string, figures []string) (Spec, error) {
	g := Spec{Text: strings.TrimSpace(s)}
	fail := func(format string, args ...any) (Spec, error) {
		return Spec{}, fmt.Errorf("gate %q: %s", s, fmt.Sprintf(format, args...))
	}
	at := strings.IndexAny(s, "<>")
	if at < 0 {
		return fail("it has no < or >: write it like 'ttft.p99 < +5%%' or 'error_rate < 1%%'")
	}
	g.Op = s[at : at+1]
	rest := s[at+1:]
	if strings.HasPrefix(rest, "=") {
		g.Op += "="
		rest = rest[1:]
	}
	name := strings.TrimSpace(s[:at])
	g.Figure, g.Stat, _ = strings.Cut(name, ".")
	if err := g.checkName(name, figures); err != nil {
		return fail("%v", err)
	}
	bound := strings.TrimSpace(rest)
	if bound == "" {
		return fail("it has no bound after %s", g.Op)
	}
	g.Signed = bound[0] == '+' || bound[0] == '-'
	if err := g.parseBound(bound); err != nil {
		return fail("%v", err)
	}
	return g, nil
}

func (g *Spec) checkName(name string, figures []string) error {
	if g.Figure == verdictFigure || plainUnit(g.Figure) != "" {
		if g.Stat != "" {
			return fmt.Errorf("%s is one value: leave out .%s", g.Figure, g.Stat)
		}
		return nil
	}
	if !slices.Contains(figures, g.Figure) {
		plain := []string{verdictFigure}
		for _, p := range Plain {
			plain = append(plain, p.Name)
		}
		return fmt.Errorf("there is no figure %q: choose from %s, or from %s with a statistic such as .p99", name,
			strings.Join(plain, ", "), strings.Join(figures, ", "))
	}
	switch g.Stat {
	case "mean", "std", "min", "max":
		return nil
	case "":
		return fmt.Errorf("which statistic of %s? Write %s.p99, %s.p50 or %s.mean", g.Figure, g.Figure, g.Figure, g.Figure)
	case "median":
		g.Stat = "p50"
		return nil
	case turnsStat:
		for _, l := range latencies {
			if l.name == g.Figure {
				return nil
			}
		}
	}
	if _, ok := percentile(g.Stat); !ok {
		return fmt.Errorf("%q is no statistic of %s: choose mean, std, min, max or a percentile such as p99", g.Stat, g.Figure)
	}
	return nil
}

// parseBound reads a number with a unit: %, a duration, or nothing; of the verdict a grade.
func (g *Spec) parseBound(s string) error {
	if g.Figure == verdictFigure {
		g.Grade = schemas.Grade(strings.ToUpper(s))
		if g.Op != ">=" || !slices.Contains([]schemas.Grade{schemas.Invalid, schemas.Suspect, schemas.Valid}, g.Grade) {
			return fmt.Errorf("write it 'verdict >= SUSPECT' or 'verdict >= VALID'")
		}
		return nil
	}
	latency := plainUnit(g.Figure) == ""
	if g.Stat == turnsStat && (!g.Signed || !strings.HasSuffix(s, "%")) {
		return fmt.Errorf("%s.turns compares turn by turn: give a change in percent, such as +5%%", g.Figure)
	}
	if number, ok := strings.CutSuffix(s, "%"); ok {
		v, err := parseFinite(strings.TrimSpace(number))
		if err != nil {
			return err
		}
		if latency && !g.Signed {
			return fmt.Errorf("%s is a time: a bound in percent needs a sign, such as +%s, and a baseline", g.Figure, s)
		}
		g.Bound, g.Share = v/100, true
		return nil
	}
	if latency {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is no bound for %s: give a duration such as 500ms, or a change such as +5%%", s, g.Figure)
		}
		g.Bound = float64(d) / 1e6
		return nil
	}
	v, err := parseFinite(s)
	g.Bound = v
	return err
}

func parseFinite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || strings.ContainsAny(s, "xX_") {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v, nil
}
