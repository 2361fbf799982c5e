package stat

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Num is a figure of a result that may be missing. NaN and infinities, which JSON has no way to write, are null in
// JSON; null reads back as NaN.
type Num float64

// Missing is the Num that stands for no value.
var Missing = Num(math.NaN())

// Known says whether there is a value.
func (n Num) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes the shortest text that reads back as the same number, or null.
func (n Num) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// UnmarshalJSON reads a number or null.
func (n *Num) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		*n = Missing
		return nil
	}
	var v float64
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*n = Num(v)
	return nil
}
