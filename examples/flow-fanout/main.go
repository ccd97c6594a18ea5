// Flow-fanout measures many pages at once in a few goroutines, some of which fail at first and are tried again by
// themselves, and adds up what came. If the sum is small a report is not needed, and is left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/flow"
)

const pages = 40

var total = flow.Name[int]("total")

// A web site gives pages, and is busy at times.
type site struct{ asked [pages]atomic.Int32 }

func (s *site) size(page int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		if s.asked[page].Add(1) == 1 && page%10 == 3 {
			return 0, errors.New("busy")
		}
		return page, nil
	}
}

// build makes a task for each page, one that adds up, and one that reports if there is something to report.
func build(s *site, limit int, out io.Writer) (*flow.Flow, error) {
	g := flow.Graph("survey")
	sum := &flow.Task{Name: "sum", Result: flow.One(total.String()), Execute: func(_ context.Context,
		c *flow.Call) (any, error) {
		n := 0
		for page := range pages {
			var one int
			if err := c.Into(key(page).String(), &one); err != nil {
				return nil, err
			}
			n += one
		}
		return n, nil
	}}
	items := []flow.Item{sum}
	for page := range pages {
		task := flow.Func0(fmt.Sprint("measure-", page), key(page), s.size(page), nil)
		task.Attempts = flow.Attempts{Max: 3, First: time.Millisecond}
		items = append(items, task)
		sum.Args.Requires = append(sum.Args.Requires, key(page).String())
	}
	report := flow.Proc1("report", total, func(_ context.Context, n int) error {
		_, err := fmt.Fprintln(out, "report:", n, "bytes")
		return err
	}, nil)
	if err := g.Add(append(items, report)...); err != nil {
		return nil, err
	}
	return g, g.LinkIf(sum, report, flow.When(sum, total, func(n int) bool { return n >= limit }), flow.DepthAtom)
}

func key(page int) flow.Key[int] { return flow.Name[int](fmt.Sprint("size-", page)) }

func run(ctx context.Context, out io.Writer) error {
	for _, limit := range []int{500, 5000} {
		item, err := build(&site{}, limit, out)
		if err != nil {
			return err
		}
		again := 0
		r, err := flow.New(item, flow.Options{Workers: flow.NewPool(8), Listeners: []flow.Listener{func(e flow.Event) {
			if e.Within == flow.TriedAgain {
				again++
			}
		}}})
		if err != nil {
			return err
		}
		if err := r.Run(ctx); err != nil {
			return err
		}
		n, err := flow.Get(r, total)
		if err != nil {
			return err
		}
		rec, _ := r.Atom("report")
		fmt.Fprintln(out, r.State(), "total", n, "tried again", again, "report", rec.State)
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
