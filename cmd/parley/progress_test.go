package main

import (
	"strings"
	"testing"
	"time"

	"parley/replay"
)

// The progress line marks a percentile that its turns do not carry, as the tables do.
func TestProgressMarksSmallSamples(t *testing.T) {
	for n, want := range map[int64]string{0: "TTFT p50 - p99 - |", 4: "TTFT p50 ~50 ms p99 ~90 ms |", 298: "TTFT p50 50 ms p99 ~90 ms |", 299: "TTFT p50 50 ms p99 90 ms |"} {
		now := replay.Progress{TTFTs: n}
		if n > 0 {
			now.TTFTP50, now.TTFTP99 = 50*time.Millisecond, 90*time.Millisecond
		}
		if got := replayProgress(now); !strings.Contains(got, want) {
			t.Errorf("%d turns: %q lacks %q", n, got, want)
		}
	}
}
