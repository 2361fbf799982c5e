package dist

import (
	"math/rand/v2"

	"parley/generate/config"
)

// Joint is an empirical distribution of two lengths that belong together: those of one row of a file are
// drawn together.
type Joint struct {
	File   string `json:"file,omitempty"` // CSV or Parquet
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
	Weight string `json:"weight,omitempty"` // column of weights

	Rows    [][]float64 `json:"rows,omitempty"` // pairs of input and output, instead of a file
	Weights []float64   `json:"weights,omitempty"`

	sums []float64
}

// Check is [Dist.Check] of pairs.
func (j *Joint) Check(path string, resolve func(string) string, p *config.Problems) {
	c := checker{path, resolve, p}
	if j.File != "" && j.Rows == nil {
		columns, weights, err := readColumns(j.File, resolve, j.Weight, j.Input, j.Output)
		if err != nil {
			c.bad("file", "%v", err)
			return
		}
		*j = Joint{Weights: weights}
		for i := range columns[0] {
			j.Rows = append(j.Rows, []float64{columns[0][i], columns[1][i]})
		}
	}
	for _, row := range j.Rows {
		if len(row) != 2 {
			c.bad("rows", "a row is a pair of input and output tokens, and here is %v", row)
			return
		}
	}
	if len(j.Rows) == 0 {
		c.bad("rows", "missing; give rows, or a file with the names of the columns input and output")
		return
	}
	j.sums = running(c, "weights", len(j.Rows), j.Weights)
}

// Draw gives the two lengths of a row.
func (j *Joint) Draw(r *rand.Rand) (input, output int) {
	row := j.Rows[pick(j.sums, r)]
	return whole(row[0]), whole(row[1])
}
