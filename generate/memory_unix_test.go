//go:build linux

package generate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"parley/generate"
)

// TestLongRecord imports one record of 60 MB: the process may take four times that for it.
func TestLongRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("a record of 60 MB takes seconds")
	}
	const megabytes = 60
	dir := t.TempDir()
	name := filepath.Join(dir, "long.jsonl")
	line := `a line of a long \"log\", with a number and an \u00e9\n`
	text := append([]byte(`{"messages":[{"role":"user","content":"`), bytes.Repeat([]byte(line), megabytes*1_000_000/len(line))...)
	if err := os.WriteFile(name, append(text, `"},{"role":"assistant","content":"ok"}]}`...), 0o644); err != nil {
		t.Fatal(err)
	}
	text = nil
	peak := func(o generate.Options) float64 {
		debug.FreeOSMemory()
		resetPeak()
		run(t, o)
		return peakMB()
	}
	small := peak(generate.Options{Import: []string{"-"}, Stdin: strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`)})
	debug.FreeOSMemory()
	resetPeak()
	if _, err := generate.Run(t.Context(), generate.Options{Loaded: load(t, "o200k_base"), Output: filepath.Join(dir, "long.parquet"), Import: []string{name}}, nil); err != nil {
		t.Fatal(err)
	}
	if most := peakMB(); most-small > 4*megabytes {
		t.Errorf("a record of %d MB takes %.0f MB over the %.0f MB of a short one", megabytes, most-small, small)
	} else {
		t.Logf("%.0f MB over %.0f MB", most-small, small)
	}
}
