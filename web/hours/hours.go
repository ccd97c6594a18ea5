// Package hours draws how many jobs ended in each of the last hours.
package hours

import (
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/web/amount"
)

// Series is the throughput of one kind, or of all.
type Series struct {
	Since  time.Time // zero: nothing is known yet
	Jobs   int64
	Failed int64 // of these; those that timed out too
	Bars   []Bar // the oldest first
}

// Bar is one hour.
type Bar struct {
	Start        time.Time
	Jobs, Failed int64
	Height       int // of 40
	X, Y         int // in the drawing
	Text         string
}

// Of draws the hours of a kind as bars of at most 40 units; an empty kind stands for all.
func Of(t *api.Throughput, kind job.Kind) Series {
	s := Series{Since: t.Since}
	most := int64(1)
	for _, h := range t.Hours {
		b := Bar{Start: h.Start}
		for _, k := range h.Kinds {
			if kind == "" || k.Kind == kind {
				b.Jobs += k.Jobs
				b.Failed += k.Failed + k.TimedOut
			}
		}
		most, s.Jobs, s.Failed = max(most, b.Jobs), s.Jobs+b.Jobs, s.Failed+b.Failed
		s.Bars = append(s.Bars, b)
	}
	for i := range s.Bars {
		b := &s.Bars[i]
		b.Height = int(40 * b.Jobs / most)
		if b.Jobs > 0 {
			b.Height = max(b.Height, 2)
		}
		b.X, b.Y = 10*i, 40-b.Height
		b.Text = b.Start.Format("15:04") + " UTC: " + jobs(b.Jobs) + " ended"
		if b.Failed > 0 {
			b.Text += ", of which " + amount.Count(b.Failed) + " failed"
		}
	}
	return s
}

// jobs writes a number of jobs.
func jobs(n int64) string {
	if n == 1 {
		return "1 job"
	}
	return amount.Count(n) + " jobs"
}
