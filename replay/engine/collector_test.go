package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slowStore takes an hour for each write.
type slowStore struct {
	dir  string
	rows int
}

func (s *slowStore) Dir() string { return s.dir }
func (s *slowStore) AppendRequests(rows []schemas.Request) error {
	time.Sleep(time.Hour)
	s.rows += len(rows)
	return nil
}
func (s *slowStore) AppendSamples([]schemas.Sample) error { return nil }

// TestPutNeverBlocks hands over rows while the journal does not come back from a write.
func TestPutNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{dir: t.TempDir()}
		pressed := 0
		c := newCollector(s, newTally(), func(error) {}, func() { pressed++ })
		go c.run()
		c.limit = 10 << 20
		start := time.Now()
		for range 20_000 {
			c.put(&schemas.Request{Status: "ok"})
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("20,000 rows took %v of virtual time", d)
		}
		if c.roomy() || pressed != 1 {
			t.Errorf("there was room above the bound; it was told %d times", pressed)
		}
		if err := c.close(time.Minute); !errors.Is(err, errStuck) {
			t.Errorf("closing: %v", err)
		}
		time.Sleep(1000 * time.Hour)
		<-c.done
		if n := s.rows; n != 20_000 {
			t.Errorf("%d rows arrived in the end", n)
		}
	})
}

func BenchmarkCollectorPut(b *testing.B) {
	c := newCollector(&slowStore{}, newTally(), func(error) {}, func() {})
	row := &schemas.Request{Status: "ok"}
	b.ReportAllocs()
	for range b.N {
		c.put(row)
		if len(c.rows) == flushRows {
			c.rows = c.rows[:0]
		}
	}
}
