package analyze

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/schemas"
)

// GroupSpec is one level of groups: a column, and for numbers how to cut them into bins.
type GroupSpec struct {
	Column string    // a column of requests, tag.NAME, uncached_tokens or time
	Width  float64   // of equal bins; of time in nanoseconds
	Edges  []float64 // of bins of any width, rising
}

// maxGroups bounds the groups of one analysis: more than anyone reads, and a bound for memory.
const maxGroups = 20_000

// Columns to group by that are worked out, not read.
const (
	byTime     = "time"
	byUncached = "uncached_tokens"
)

// byStage is the column whose groups have their own time, as those by time do.
const byStage = "stage"

// aliases are short names of columns.
var aliases = map[string]string{"conversation": "conversation_id"}

// ParseGroup reads one level of groups: COLUMN, COLUMN:WIDTH or COLUMN:EDGE,EDGE,... where the width of
// time is a duration.
func ParseGroup(s string) (GroupSpec, error) {
	column, bins, cut := strings.Cut(s, ":")
	g := GroupSpec{Column: column}
	if full, ok := aliases[column]; ok {
		g.Column = full
	}
	if cut {
		if strings.Contains(bins, ",") {
			for _, part := range strings.Split(bins, ",") {
				v, err := parseEdge(column, part)
				if err != nil {
					return GroupSpec{}, fmt.Errorf("groups %q: %w", s, err)
				}
				g.Edges = append(g.Edges, v)
			}
		} else {
			v, err := parseEdge(column, bins)
			if err != nil {
				return GroupSpec{}, fmt.Errorf("groups %q: %w", s, err)
			}
			if !(v > 0) {
				return GroupSpec{}, fmt.Errorf("groups %q: the width of the bins must be above 0", s)
			}
			g.Width = v
		}
	}
	if err := g.validate(); err != nil {
		return GroupSpec{}, err
	}
	return g, nil
}

func parseEdge(column, s string) (float64, error) {
	if column == byTime {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration such as 10s", s)
		}
		return float64(d), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return v, nil
}

func (g GroupSpec) validate() error {
	typ := g.columnType()
	if typ == "" {
		var names []string
		for _, c := range schemas.Dictionary(schemas.KindRequests) {
			if schemas.ColumnType(c.Name) != "" {
				names = append(names, c.Name)
			}
		}
		return fmt.Errorf("there is no column %q to group by: choose time, uncached_tokens, tag.NAME or one of %s", g.Column, strings.Join(names, ", "))
	}
	if (g.Width != 0 || len(g.Edges) > 0) && typ != "int" && typ != "float" {
		return fmt.Errorf("column %s is text: it has no bins", g.Column)
	}
	if g.Width < 0 || math.IsNaN(g.Width) || math.IsInf(g.Width, 0) {
		return fmt.Errorf("groups by %s: the width of the bins must be above 0", g.Column)
	}
	for i := 1; i < len(g.Edges); i++ {
		if !(g.Edges[i] > g.Edges[i-1]) {
			return fmt.Errorf("groups by %s: the edges of the bins must rise", g.Column)
		}
	}
	return nil
}

func (g GroupSpec) columnType() string {
	if g.Column == byTime || g.Column == byUncached {
		return "int"
	}
	return schemas.ColumnType(g.Column)
}

// columns gives the columns that must be read.
func (g GroupSpec) columns() []string {
	switch g.Column {
	case byTime:
		return nil
	case byUncached:
		return []string{"prompt_tokens", "cached_tokens"}
	}
	return []string{g.Column}
}

// String gives the form that ParseGroup reads.
func (g GroupSpec) String() string {
	edge := func(v float64) string {
		if g.Column == byTime {
			return time.Duration(v).String()
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch {
	case len(g.Edges) > 0:
		parts := make([]string, len(g.Edges))
		for i, e := range g.Edges {
			parts[i] = edge(e)
		}
		return g.Column + ":" + strings.Join(parts, ",")
	case g.Width > 0:
		return g.Column + ":" + edge(g.Width)
	}
	return g.Column
}
