package replay

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// TestLimitIsExact has many goroutines come and go, some of them giving up while they wait: never more
// than the limit may be inside, and at the end every place is free again.
func TestLimitIsExact(t *testing.T) {
	const places, visitors, visits = 7, 64, 300
	l := newLimit(places)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for v := range visitors {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(v)))
			for range visits {
				w := newWaiter()
				if _, ok := l.acquire(w, r.IntN(4) == 0); !ok {
					if r.IntN(3) == 0 && l.withdraw(w) {
						continue
					}
					<-w.fired
				}
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				inside.Add(-1)
				l.release(0)
			}
		})
	}
	wg.Wait()
	if most.Load() > places {
		t.Errorf("%d were inside at once, the limit is %d", most.Load(), places)
	}
	free := 0
	for l.try() {
		free++
	}
	if free != places {
		t.Errorf("%d places are free at the end, want %d", free, places)
	}
}

func TestLimitOrder(t *testing.T) {
	l := newLimit(1)
	if at, ok := l.acquire(newWaiter(), false); !ok || at != always {
		t.Fatalf("the free place: %v %v", at, ok)
	}
	a, b, c, d := newWaiter(), newWaiter(), newWaiter(), newWaiter()
	for _, w := range []*waiter{a, b, c} {
		if _, ok := l.acquire(w, false); ok {
			t.Fatal("two in one place")
		}
	}
	l.acquire(d, true)
	if !l.withdraw(b) || l.withdraw(b) {
		t.Error("b waits, and then it does not")
	}
	for i, w := range []*waiter{d, a, c} {
		l.release(int64(100 + i))
		select {
		case <-w.fired:
			if w.at != int64(100+i) {
				t.Errorf("waiter %d was fired with %d", i, w.at)
			}
		default:
			t.Errorf("waiter %d was not the next", i)
		}
	}
	l.release(200)
	if at, ok := l.acquire(newWaiter(), false); !ok || at != 200 {
		t.Errorf("the place is free since %v (%v), want 200", at, ok)
	}
}

func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo[int]
		var model []int
		for i := range rapid.IntRange(0, 6000).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				q.push(i)
				model = append(model, i)
			default:
				v, ok := q.pop()
				if ok != (len(model) > 0) || ok && v != model[0] {
					t.Fatalf("pop gave %d, %v", v, ok)
				}
				if ok {
					model = model[1:]
				}
			}
		}
		if n := len(q.items) - q.head; n != len(model) {
			t.Fatalf("%d items, want %d", n, len(model))
		}
	})
}
