package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func numbers(n int, at int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if i == at && err != nil {
				yield(0, err)
				return
			}
			if !yield(i, nil) {
				return
			}
		}
	}
}

func TestOrderedKeepsOrderAndBound(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			var under, most atomic.Int64
			next := 0
			err := ordered(t.Context(), workers, numbers(500, 0, nil), func(i int) (int, error) {
				most.Store(max(most.Load(), under.Add(1)))
				time.Sleep(time.Duration(i*7919%13) * time.Millisecond) // later items often end first
				return i * i, nil
			}, func(sq int) error {
				under.Add(-1)
				if sq != next*next {
					return fmt.Errorf("got %d in place %d", sq, next)
				}
				next++
				return nil
			})
			if err != nil || next != 500 {
				t.Errorf("%d workers: %d results, %v", workers, next, err)
			}
			if bound := int64(5*workers + 2); most.Load() > bound {
				t.Errorf("%d workers: %d items under way at once", workers, most.Load())
			}
		})
	}
}

func TestOrderedStopsAtTheFirstError(t *testing.T) {
	bad := errors.New("bad")
	identity := func(i int) (int, error) { return i, nil }
	for name, tc := range map[string]struct {
		in   iter.Seq2[int, error]
		work func(int) (int, error)
		out  func(int) error
		want string
	}{
		"in":   {numbers(100, 50, bad), identity, func(int) error { return nil }, "bad"},
		"work": {numbers(100, 0, nil), func(i int) (int, error) { return i, map[bool]error{true: bad}[i == 50] }, func(int) error { return nil }, "bad"},
		"out":  {numbers(100, 0, nil), identity, func(i int) error { return map[bool]error{true: bad}[i == 50] }, "bad"},
		"panic": {numbers(100, 0, nil), func(i int) (int, error) {
			if i == 50 {
				panic("a bug")
			}
			return i, nil
		}, func(int) error { return nil }, "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			err := ordered(t.Context(), 4, tc.in, tc.work, func(i int) error { seen++; return tc.out(i) })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			if want := map[bool]int{true: 51, false: 50}[name == "out"]; seen != want {
				t.Errorf("%d results before the error, want %d", seen, want)
			}
		})
	}
}

func TestOrderedStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := ordered(ctx, 3, numbers(1_000_000, 0, nil), func(i int) (int, error) { return i, nil }, func(int) error {
		if seen++; seen == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen > 1000 {
		t.Errorf("%d results, %v", seen, err)
	}
}
