package clock

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := time.Now()
		c := New(origin)
		if c.Now() != 0 {
			t.Fatalf("Now at the origin = %d", c.Now())
		}
		c.SleepUntil(int64(90 * time.Minute)) // would fail the test's own time limit if it were real
		if got := c.Now(); got != int64(90*time.Minute) {
			t.Fatalf("after SleepUntil: %d", got)
		}
		c.SleepUntil(5)
		if got := c.FromRealtime(time.Now().UnixNano()); got != c.Now() {
			t.Fatalf("FromRealtime = %d, want %d", got, c.Now())
		}
		if change, step := c.Resample(); change != 0 || step {
			t.Fatalf("Resample = %d, %t", change, step)
		}
		if got := c.Time(c.Now()); !got.Equal(time.Now()) {
			t.Fatalf("Time = %v", got)
		}
		if got := c.Wall(0); !got.Equal(origin) {
			t.Fatalf("Wall = %v, want %v", got, origin)
		}
	})
}

// An origin that was read from text has no monotonic part.
func TestOriginOnTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Unix(0, time.Now().Add(2*time.Second).UnixNano()))
		if got := c.Now(); got != -int64(2*time.Second) {
			t.Fatalf("Now before the origin = %d", got)
		}
		c.SleepUntil(0)
		if got := c.Now(); got != 0 {
			t.Fatalf("Now at the origin = %d", got)
		}
	})
}

// On the machine's clocks, a conversion lies between the readings around it, to within the width of a
// sample's bracket.
func TestConversionAgreesWithMonotonicTime(t *testing.T) {
	c := New(time.Now())
	best := int64(1 << 62)
	for range 200 {
		before := c.Now()
		at := c.FromRealtime(time.Now().UnixNano())
		after := c.Now()
		best = min(best, max(before-at, at-after, 0))
	}
	if best > 1000 {
		t.Fatalf("the best of 200 conversions lies %d ns outside its bracket", best)
	}
}

func TestSleepUntilIsNeverEarly(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := New(time.Now())
	for range 20 {
		until := c.Now() + int64(time.Millisecond)
		c.SleepUntil(until)
		if now := c.Now(); now < until {
			t.Fatalf("woke %d ns early", until-now)
		}
	}
}

// The machine of a test does not sleep; one that did an hour more than when the clock was made has slept an hour.
func TestSlept(t *testing.T) {
	c := New(time.Now())
	if d := c.Slept(); d > time.Millisecond {
		t.Errorf("slept %v", d)
	}
	c.asleep -= int64(time.Hour)
	if d := c.Slept(); runtime.GOOS == "linux" && (d-time.Hour).Abs() > time.Millisecond {
		t.Errorf("slept %v, want an hour", d)
	}
}

func TestResampleCountsSteps(t *testing.T) {
	c := New(time.Now())
	c.offset.Add(int64(time.Hour)) // as if the wall clock had been put back by an hour since
	change, step := c.Resample()
	if !step || change > -int64(59*time.Minute) {
		t.Fatalf("Resample = %d, %t", change, step)
	}
	if _, step := c.Resample(); step {
		t.Fatal("a second step without cause")
	}
	info := c.Info()
	if info.Steps != 1 {
		t.Fatalf("Info = %+v", info)
	}
	if got := c.FromRealtime(info.OffsetStartNS); got < -int64(StepBound) || got > int64(StepBound) {
		t.Fatalf("the origin converts to %d", got)
	}
}

func BenchmarkNow(b *testing.B) {
	c := New(time.Now())
	for b.Loop() {
		c.Now()
	}
}

// BenchmarkSleepUntil reports how late a sleep of 1 ms ends.
func BenchmarkSleepUntil(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := New(time.Now())
	var late int64
	for b.Loop() {
		until := c.Now() + int64(time.Millisecond)
		c.SleepUntil(until)
		late += c.Now() - until
	}
	b.ReportMetric(float64(late)/float64(b.N), "late-ns/op")
}

// A clock that is restarted goes on as one that was made with the new origin: its time, its stamps and its
// sleep agree.
func TestRestart(t *testing.T) {
	c := New(time.Now().Add(-time.Hour))
	origin := time.Now().Add(50 * time.Millisecond)
	c.Restart(origin)
	if now := c.Now(); now > 0 || now < -int64(50*time.Millisecond) {
		t.Errorf("it is %v, 50 ms before the origin", time.Duration(now))
	}
	if d := c.Wall(0).Sub(origin).Abs(); d > 10*time.Millisecond {
		t.Errorf("the origin is off by %v on the wall clock", d)
	}
	c.SleepUntil(0)
	if now := c.Now(); now < 0 {
		t.Errorf("woke at %v", time.Duration(now))
	}
	if i := c.Info(); i.Steps != 0 {
		t.Errorf("info %+v", i)
	}
}
