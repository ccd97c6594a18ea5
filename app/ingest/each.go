package ingest

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// enough is the number of failed files after which the rest of an object is not tried.
const enough = 5

// each calls do for every item, n at once. It goes on after failures, so that as much as possible is done when the job is sent back, but
// stops after enough of them. The error is that of the first item, in order, that failed for good; else of the first that failed.
func each[T any](ctx context.Context, n int, items iter.Seq2[T, error], do func(context.Context, T) error) error {
	type failure struct {
		nth int
		err error
	}
	var (
		mu       sync.Mutex // guards failures
		failures []failure
		g        errgroup.Group
	)
	failed := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(failures)
	}
	g.SetLimit(n)
	nth := 0
	for item, err := range items {
		if err != nil {
			_ = g.Wait()
			return err
		}
		if ctx.Err() != nil || failed() >= enough {
			break
		}
		k := nth
		nth++
		g.Go(func() error {
			if err := named(do(ctx, item)); err != nil {
				mu.Lock()
				failures = append(failures, failure{k, err})
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(failures) == 0 {
		return nil
	}
	slices.SortFunc(failures, func(a, b failure) int { return cmp.Compare(a.nth, b.nth) })
	for _, f := range failures {
		if final(f.err) {
			return f.err
		}
	}
	return failures[0].err
}
