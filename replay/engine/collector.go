package engine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"parley/schemas"
)

// Bounds of the collector.
const (
	flushEvery   = 250 * time.Millisecond // a killed process loses no more than what came since
	flushRows    = 2000                   // or as soon as so many rows wait
	maxBatch     = 4000                   // rows of one batch of the journal
	backlogBytes = 128 << 20              // above it no turn starts until the journal has caught up
)

// The collector owns the journal. Handing it a row never blocks: rows wait in memory until the
// collector's goroutine has given them to the journal. What keeps that memory bounded is that no turn
// starts while more than backlogBytes wait (pressure tells), so the streams that run are timed undisturbed
// however slow the disk is.
type collector struct {
	store Store
	tally *tally
	limit int64
	fail  func(error) // told once, from the collector's goroutine
	press func()      // called when the backlog crosses its bound, up or down

	mu      sync.Mutex
	rows    []schemas.Request
	samples []schemas.Sample
	bytes   int64         // of the rows that wait or are being written
	waiting int64         // number of them
	peak    int64         // highest such number
	stalls  int64         // times that turns were held back for it
	lower   chan struct{} // closed and renewed whenever bytes went down
	err     error
	lost    int64 // rows that the journal did not take
	written int64

	wake chan struct{}
	end  chan struct{}
	done chan struct{}
}

func newCollector(s Store, t *tally, fail func(error), pressure func()) *collector {
	return &collector{
		store: s, tally: t, limit: backlogBytes, fail: fail, press: pressure,
		lower: make(chan struct{}), wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{}),
	}
}

// put hands over a row. It never blocks.
func (c *collector) put(row *schemas.Request) {
	c.mu.Lock()
	c.rows = append(c.rows, *row)
	before := c.bytes
	c.bytes += rowBytes(row)
	crossed := before < c.limit && c.bytes >= c.limit
	c.waiting++
	c.peak = max(c.peak, c.waiting)
	full := len(c.rows) == flushRows
	c.mu.Unlock()
	if full || crossed {
		c.poke()
	}
	if crossed {
		c.press()
	}
}

// stalled counts that turns are held back.
func (c *collector) stalled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalls++
}

// putSamples hands over telemetry. It never blocks; samples are dropped once the journal has failed.
func (c *collector) putSamples(rows []schemas.Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.samples = append(c.samples, rows...)
	}
}

func (c *collector) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// roomy says whether the backlog is below its bound.
func (c *collector) roomy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes < c.limit || c.err != nil
}

// alive says whether rows can still be written.
func (c *collector) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// room waits until the backlog is below its bound. It returns false if the journal failed.
func (c *collector) room() bool {
	for {
		c.mu.Lock()
		if c.bytes < c.limit || c.err != nil {
			defer c.mu.Unlock()
			return c.err == nil
		}
		lower := c.lower
		c.mu.Unlock()
		c.poke()
		select {
		case <-lower:
		case <-c.end:
			return false
		}
	}
}

// rowBytes estimates the memory of a row.
func rowBytes(r *schemas.Request) int64 {
	n := 1200 + 8*(cap(r.ChunkNS)+cap(r.ChunkTokens))
	for _, s := range []*string{r.Text, r.ReasoningText, r.ToolCalls, r.ErrorMessage} {
		if s != nil {
			n += len(*s)
		}
	}
	return int64(n)
}

// run writes until close is called and everything is written.
func (c *collector) run() {
	defer close(c.done)
	timer := time.NewTicker(flushEvery)
	defer timer.Stop()
	checked := time.Now()
	var rows []schemas.Request
	var samples []schemas.Sample
	for ending := false; !ending; {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.end:
			ending = true
		}
		c.mu.Lock()
		rows, c.rows = c.rows, rows[:0]
		samples, c.samples = c.samples, samples[:0]
		c.mu.Unlock()
		for at := 0; at < len(rows); at += maxBatch {
			c.write(rows[at:min(at+maxBatch, len(rows))])
		}
		clear(rows)
		if c.err == nil {
			c.failed(c.store.AppendSamples(samples))
		}
		if cap(rows) > 4*maxBatch {
			rows = nil // a burst's memory is not kept
		}
		// Writes to a file whose name was taken away succeed, and are lost.
		if c.err == nil && (ending || time.Since(checked) >= time.Second) {
			checked = time.Now()
			if _, err := os.Stat(c.store.Dir()); err != nil {
				c.failed(fmt.Errorf("the journal has vanished: %w", err))
			}
		}
	}
}

func (c *collector) write(batch []schemas.Request) {
	bytes := int64(0)
	for i := range batch {
		bytes += rowBytes(&batch[i])
		c.tally.add(&batch[i])
	}
	err := c.err
	if err == nil {
		err = c.store.AppendRequests(batch)
		c.failed(err)
	}
	c.mu.Lock()
	if err != nil {
		c.lost += int64(len(batch))
	} else {
		c.written += int64(len(batch))
	}
	crossed := c.bytes >= c.limit && c.bytes-bytes < c.limit
	c.bytes -= bytes
	c.waiting -= int64(len(batch))
	close(c.lower)
	c.lower = make(chan struct{})
	c.mu.Unlock()
	if crossed {
		c.press()
	}
}

func (c *collector) failed(err error) {
	if err == nil || c.err != nil {
		return
	}
	c.mu.Lock()
	c.err = err // written by this goroutine only
	c.mu.Unlock()
	c.fail(err)
}

// errStuck says that the journal did not come back from a write.
var errStuck = errors.New("the journal does not come back from a write: is the disk or the network file system gone?")

// close has everything written that was put, and ends the collector. It waits at most for limit: the
// kernel may never come back from a write.
func (c *collector) close(limit time.Duration) error {
	close(c.end)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	case <-timer.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%d rows are not written: %w", c.waiting, errStuck)
	}
}

// state gives the backlog's figures.
func (c *collector) state() (waiting, peak, stalls, written, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting, c.peak, c.stalls, c.written, c.lost
}
