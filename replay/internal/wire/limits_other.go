//go:build !unix

package wire

import "math"

func fileLimit() (uint64, error) { return math.MaxUint64, nil } // no such limit
