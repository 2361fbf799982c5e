package engine

import (
	"sync"
	"time"

	"parley/replay/load"
	"parley/schemas"
)

// clerkMost is how many conversations may wait for the clerk before the scheduler is asked for more of them.
const clerkMost = 4096

// The clerk makes rows of the turns that are not sent, away from those that are: it may read the dataset, and it
// may wait for the journal.
type clerk struct {
	e *Engine

	mu     sync.Mutex
	change sync.Cond
	jobs   []dropped
	head   int
	busy   bool
	closed bool
	done   int64
	seen   int64 // done when progress was last asked
}

type dropped struct {
	load.Action
	c *Conversation // nil if it was never made ready
}

func (k *clerk) init(e *Engine) {
	k.e = e
	k.change.L = &k.mu
}

// add hands over turns. It never waits.
func (k *clerk) add(a load.Action, c *Conversation) {
	k.mu.Lock()
	k.jobs = append(k.jobs, dropped{a, c})
	k.mu.Unlock()
	k.change.Broadcast()
}

// room waits until few enough conversations wait.
func (k *clerk) room() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.jobs)-k.head > clerkMost && !k.closed {
		k.change.Wait()
	}
}

// idle waits until nothing is left, for so long.
func (k *clerk) idle(limit time.Duration) bool {
	timer := time.AfterFunc(limit, k.change.Broadcast)
	defer timer.Stop()
	end := time.Now().Add(limit)
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.busy || k.head < len(k.jobs) {
		if !time.Now().Before(end) {
			return false
		}
		k.change.Wait()
	}
	return true
}

// progress says whether rows were made since it was asked last.
func (k *clerk) progress() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	moved := k.done != k.seen
	k.seen = k.done
	return moved
}

func (k *clerk) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.change.Broadcast()
}

func (k *clerk) run() {
	for {
		k.mu.Lock()
		k.busy = false
		k.change.Broadcast()
		for k.head == len(k.jobs) && !k.closed {
			k.change.Wait()
		}
		if k.closed {
			k.mu.Unlock()
			return
		}
		job := k.jobs[k.head]
		k.jobs[k.head] = dropped{}
		if k.head++; k.head == len(k.jobs) {
			k.jobs, k.head = k.jobs[:0], 0
		}
		k.busy = true
		k.mu.Unlock()
		k.write(&job)
	}
}

// write gives each of the turns its row.
func (k *clerk) write(d *dropped) {
	e := k.e
	if !e.out.alive() {
		return // the error says why rows are missing
	}
	c := d.c
	if c == nil {
		source, err := e.shelf.read(int64(d.Task.Row))
		if err != nil {
			e.Fail(err)
			return
		}
		c = e.conversation(d.Task, &source)
	}
	e.mu.Lock()
	kind, message := d.Reason, e.why(d.Reason)
	e.mu.Unlock()
	if kind == load.DropBad && c.broken != nil {
		message = c.broken.Error()
	}
	for t := int(d.Turn); t < len(c.Turns); t++ {
		row := c.blank(t)
		row.Status = string(schemas.StatusNotReached)
		if d.Shed {
			row.Status = string(schemas.StatusShed)
		}
		row.ErrorKind, row.ErrorMessage = &kind, &message
		if t == int(d.Turn) && d.First && d.Scheduled != load.None {
			row.ScheduledNS = moment(d.Scheduled + e.shift)
		}
		row.Derive()
		if !e.out.roomy() && !e.out.room() {
			return
		}
		e.out.put(row)
		k.mu.Lock()
		k.done++
		k.mu.Unlock()
	}
}
