//go:build !linux

package engine

import (
	"runtime"
	"runtime/metrics"
)

// processCPU gives the processor seconds that this process has used, by the runtime's own estimate, and
// the memory that it has from the system in bytes.
func processCPU() (seconds float64, peakRSS, rss int64) {
	s := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() == metrics.KindFloat64 && s[1].Value.Kind() == metrics.KindFloat64 {
		seconds = s[0].Value.Float64() - s[1].Value.Float64()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return seconds, int64(m.Sys), int64(m.Sys)
}

func machineIdle() (idle, all float64, ok bool) { return 0, 0, false }

// HostFacts gives the kernel's release, the processor's name and the machine's memory, as far as they are known.
func HostFacts() (kernel, cpu string, mem int64) { return "", "", 0 }
