package engine

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processCPU gives the processor seconds that this process has used, and its largest and present
// resident memory in bytes.
func processCPU() (seconds float64, peakRSS, rss int64) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		seconds = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	// Not ru_maxrss, which holds the memory of the process that started this one, too.
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return seconds, 0, 0
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*int64{"VmHWM": &peakRSS, "VmRSS": &rss}[name]
		if f := strings.Fields(value); to != nil && len(f) == 2 {
			kib, _ := strconv.ParseInt(f[0], 10, 64)
			*to = kib * 1024
		}
	}
	return seconds, peakRSS, rss
}

// machineIdle gives the jiffies that the machine's cores have been idle, and all jiffies, since boot.
func machineIdle() (idle, all float64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0, false
	}
	// user nice system idle iowait irq softirq steal; guest time is in user already (proc_stat(5)).
	for i, s := range f[1:9] {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, 0, false
		}
		all += v
		if i == 3 || i == 4 {
			idle += v
		}
	}
	return idle, all, true
}

// HostFacts gives the kernel's release, the processor's name and the machine's memory, as far as they are known.
func HostFacts() (kernel, cpu string, mem int64) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		mem = int64(s.Totalram) * int64(s.Unit)
	}
	return kernel, cpu, mem
}
