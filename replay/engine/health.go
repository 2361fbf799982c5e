package engine

import (
	"context"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"parley/schemas"
)

// ClientSource is the source of the client's own samples in the telemetry file.
const ClientSource = "client"

// Monitor watches the client itself, once a second: what it finds stands in the telemetry as a series,
// and in the run's metadata as a summary.
type Monitor struct {
	e      *Engine
	read   []metrics.Sample
	sched  histogram
	pauses histogram

	cpuStart, cpuLast float64
	idleLast, allLast float64
	haveIdle          bool
	timeStart         int64
	timeLast          int64
	health            schemas.Health
}

const (
	metricSched  = "/sched/latencies:seconds"
	metricPauses = "/sched/pauses/total/gc:seconds"
	metricCycles = "/gc/cycles/total:gc-cycles"
)

// NewMonitor makes the monitor of an engine.
func NewMonitor(e *Engine) *Monitor {
	m := &Monitor{e: e, read: []metrics.Sample{{Name: metricSched}, {Name: metricPauses}, {Name: metricCycles}}}
	m.health.MachineIdleMin = -1
	return m
}

// Start begins the monitor's time.
func (m *Monitor) Start() {
	metrics.Read(m.read)
	m.sched.start(m.read[0].Value)
	m.pauses.start(m.read[1].Value)
	m.health.GCCycles = -int64(count(m.read[2].Value))
	m.cpuStart, _, _ = processCPU()
	m.cpuLast = m.cpuStart
	m.idleLast, m.allLast, m.haveIdle = machineIdle()
	m.timeStart = m.e.Clock.Now()
	m.timeLast = m.timeStart
}

// Restart moves the monitor's time, after the clock's was moved.
func (m *Monitor) Restart(at int64) { m.timeStart, m.timeLast = at, at }

// Run samples until ctx ends, and once more then.
func (m *Monitor) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.sample()
		case <-ctx.Done():
			m.sample()
			return
		}
	}
}

func (m *Monitor) sample() {
	e, h := m.e, &m.health
	e.Clock.Resample()
	now := e.Clock.Now()
	e.out.tally.tick(now)
	span := float64(now-m.timeLast) / 1e9
	if span <= 0.2 {
		return // the last, partial second would only be noise
	}
	m.timeLast = now
	metrics.Read(m.read)
	sched, pauses := m.sched.next(m.read[0].Value), m.pauses.next(m.read[1].Value)
	cpu, peak, rss := processCPU()
	share := (cpu - m.cpuLast) / span / float64(runtime.NumCPU())
	m.cpuLast = cpu
	idle := -1.0
	if i, all, ok := machineIdle(); ok && m.haveIdle && all > m.allLast {
		idle = (i - m.idleLast) / (all - m.allLast)
		m.idleLast, m.allLast = i, all
		if h.MachineIdleMin < 0 || idle < h.MachineIdleMin {
			h.MachineIdleMin = idle
		}
	}
	waiting, _, stalls, written, _ := e.out.state()
	goroutines := runtime.NumGoroutine()
	h.CPUSharePeak = max(h.CPUSharePeak, share)
	h.PeakRSSBytes = max(h.PeakRSSBytes, peak)
	h.PeakGoroutines = max(h.PeakGoroutines, int64(goroutines))
	late := e.pacer.latenessMS(0.99)
	p := e.Progress()
	out := make([]schemas.Sample, 0, 16)
	put := func(name string, v float64) {
		if !math.IsNaN(v) {
			out = append(out, schemas.Sample{TimeNS: now, Source: ClientSource, Name: name, Value: v})
		}
	}
	put("cpu_seconds_total", cpu-m.cpuStart)
	put("cpu_share", share)
	if idle >= 0 {
		put("machine_idle_share", idle)
	}
	put("sched_latency_p50_ms", 1000*sched.quantile(0.5))
	put("sched_latency_p99_ms", 1000*sched.quantile(0.99))
	put("gc_pause_max_ms", 1000*pauses.quantile(1))
	put("wake_lateness_p99_ms", late[0])
	put("send_lag_p99_ms", e.out.tally.lagP99())
	put("in_flight", float64(p.InFlight))
	put("active_conversations", float64(p.Active))
	put("turns_started_total", float64(p.Started))
	put("rows_written_total", float64(written))
	put("backlog_rows", float64(waiting))
	put("backlog_stalls_total", float64(stalls))
	put("goroutines", float64(goroutines))
	put("rss_bytes", float64(rss))
	e.out.putSamples(out)
}

// Summary gives the figures of the whole run. It is called after Run has returned.
func (m *Monitor) Summary() *schemas.Health {
	h := &m.health
	metrics.Read(m.read)
	sched, pauses := m.sched.whole(m.read[0].Value), m.pauses.whole(m.read[1].Value)
	h.SchedLatencyP50, h.SchedLatencyP99 = 1000*sched.quantile(0.5), 1000*sched.quantile(0.99)
	h.GCPauseP99, h.GCPauseTotal = 1000*pauses.quantile(0.99), 1000*pauses.sum()
	for _, f := range []*float64{&h.SchedLatencyP50, &h.SchedLatencyP99, &h.GCPauseP99} {
		if math.IsNaN(*f) {
			*f = 0 // nothing was counted
		}
	}
	h.GCCycles += int64(count(m.read[2].Value))
	cpu, peak, _ := processCPU()
	h.CPUSeconds = cpu - m.cpuStart
	if span := float64(m.e.Clock.Now()-m.timeStart) / 1e9; span > 0 {
		h.CPUShare = h.CPUSeconds / span / float64(runtime.NumCPU())
	}
	h.PeakRSSBytes = max(h.PeakRSSBytes, peak)
	h.PeakGoroutines = max(h.PeakGoroutines, int64(runtime.NumGoroutine()))
	_, h.PeakBacklogRows, h.BacklogStalls, _, _ = m.e.out.state()
	m.e.mu.Lock()
	h.PeakInFlight, h.PeakActive = m.e.peakFly, m.e.peakLive
	m.e.mu.Unlock()
	late := m.e.pacer.latenessMS(0.5, 0.99)
	h.WakeLatenessP50, h.WakeLatenessP99 = late[0], late[1]
	return h
}

func count(v metrics.Value) uint64 {
	if v.Kind() == metrics.KindUint64 {
		return v.Uint64()
	}
	return 0
}

// histogram follows one of the runtime's cumulative histograms.
type histogram struct {
	first, last []uint64
}

func (h *histogram) start(v metrics.Value) {
	if v.Kind() == metrics.KindFloat64Histogram {
		h.first = slices.Clone(v.Float64Histogram().Counts)
		h.last = slices.Clone(h.first)
	}
}

// next gives what came since the last call.
func (h *histogram) next(v metrics.Value) counts {
	c := since(v, h.last)
	if c.buckets != nil {
		copy(h.last, v.Float64Histogram().Counts)
	}
	return c
}

// whole gives what came since the start.
func (h *histogram) whole(v metrics.Value) counts { return since(v, h.first) }

func since(v metrics.Value, before []uint64) counts {
	if v.Kind() != metrics.KindFloat64Histogram || before == nil {
		return counts{}
	}
	f := v.Float64Histogram()
	c := counts{buckets: f.Buckets, n: make([]uint64, len(f.Counts))}
	for i := range c.n {
		c.n[i] = f.Counts[i] - before[i]
		c.total += c.n[i]
	}
	return c
}

// counts is a histogram of values between the buckets' bounds.
type counts struct {
	buckets []float64
	n       []uint64
	total   uint64
}

// quantile gives the upper bound of the bucket that holds the quantile (the lower one of the last), NaN
// without values.
func (c counts) quantile(q float64) float64 {
	if c.total == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(c.total)))
	for i, n := range c.n {
		if n >= rank && n > 0 {
			return c.bound(i)
		}
		rank -= min(rank, n)
	}
	return c.bound(len(c.n) - 1)
}

func (c counts) bound(i int) float64 {
	if v := c.buckets[i+1]; !math.IsInf(v, 0) {
		return v
	}
	return c.buckets[i]
}

// sum gives the total by the buckets' middles.
func (c counts) sum() (s float64) {
	for i, n := range c.n {
		if n > 0 {
			lo, hi := c.buckets[i], c.bound(i)
			if math.IsInf(lo, 0) {
				lo = hi
			}
			s += float64(n) * (lo + hi) / 2
		}
	}
	return s
}
