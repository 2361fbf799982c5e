package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
)

// ordered runs work over the items of in on several goroutines and hands the results to out in the order
// of the items, on the caller's goroutine. At most a few items per worker are under way at a time, so
// memory does not grow with their number. The first error, of in, work, out or the context, ends it.
//
// When it returns, all that it started has ended. So in must not wait for its own input forever once the
// context, or one of the functions, has failed.
func ordered[In, Out any](ctx context.Context, workers int, in iter.Seq2[In, error], work func(In) (Out, error), out func(Out) error) error {
	ctx, cancel := context.WithCancelCause(ctx)

	type result struct {
		out Out
		err error
	}
	type job struct {
		in   *In         // emptied when its work begins: an item may be long, and work lets go of it
		done chan result // of capacity 1, so that no worker waits for out
	}
	jobs := make(chan job)
	queue := make(chan job, 3*workers)

	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(errStopped) // before waiting
	wg.Go(func() {           // the only sender of both channels
		defer close(queue)
		defer close(jobs)
		for item, err := range in {
			j := job{&item, make(chan result, 1)}
			if err != nil {
				j.done <- result{err: err}
			}
			select {
			case queue <- j:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			select {
			case jobs <- j:
			case <-ctx.Done():
				return
			}
		}
	})
	for range workers {
		wg.Go(func() {
			for {
				select {
				case j, ok := <-jobs:
					if !ok {
						return
					}
					o, err := guarded(work, j.in)
					j.done <- result{o, err}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for {
		var j job
		select {
		case next, ok := <-queue:
			if !ok {
				return context.Cause(ctx)
			}
			j = next
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case r := <-j.done:
			err := r.err
			if err == nil {
				err = out(r.out)
			}
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// guarded turns a panic of work into an error: one bad record must not take the process down without a word.
func guarded[In, Out any](work func(In) (Out, error), in *In) (out Out, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v\n%s", p, debug.Stack())
		}
	}()
	return work(take(in))
}

// take empties the place that a value is in.
func take[T any](from *T) (v T) {
	var none T
	v, *from = *from, none
	return v
}

// errStopped ends the goroutines when the result is known.
var errStopped = errors.New("stopped")
