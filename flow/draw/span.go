package draw

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/quantity"
)

// Doing is what an atom does during a [Span].
type Doing string

// What atoms do.
const (
	Executes Doing = "executes"
	Reverts  Doing = "reverts"
	Waits    Doing = "waits"     // for a signal or a time that it asked for
	BacksOff Doing = "backs off" // it failed and is to be tried again
)

// Span is a stretch of time in the life of an atom.
type Span struct {
	Atom   string    `json:"atom"`
	Kind   flow.Kind `json:"kind"`
	Doing  Doing     `json:"doing"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Open   bool      `json:"open,omitempty"`   // it has not ended; To is the present
	Failed bool      `json:"failed,omitempty"` // it ended with a failure
}

// SpansOf reads from records what the atoms do or did last, and of those that are or were reverted what is reverted;
// records keep no more than that. now ends what has not ended.
func SpansOf(records []flow.Record, now time.Time) []Span {
	var all []Span
	for i := range records {
		all = append(all, spansOf(&records[i], now)...)
	}
	return all
}

func spansOf(r *flow.Record, now time.Time) []Span {
	s := Span{Atom: r.Name, Kind: r.Kind, Doing: Executes, From: r.Began, To: r.Ended}
	with := func(d Doing, from, to time.Time, open, failed bool) Span {
		return Span{Atom: s.Atom, Kind: s.Kind, Doing: d, From: from, To: to, Open: open, Failed: failed}
	}
	if r.Began.IsZero() {
		return nil
	}
	var all []Span // with what is reverted
	if !r.ExecuteBegan.IsZero() && !r.ExecuteEnded.Before(r.ExecuteBegan) {
		all = append(all, with(Executes, r.ExecuteBegan, r.ExecuteEnded, false, r.Failure != nil))
	}
	switch r.State {
	case flow.Running:
		switch {
		case r.Waits && backsOff(r) && r.Awaits == "":
			return []Span{with(Executes, r.Began, r.Ended, false, true), with(BacksOff, r.Ended, now, true, false)}
		case r.Waits:
			return []Span{with(Waits, r.Began, now, true, false)}
		}
		return []Span{with(Executes, r.Began, now, true, false)}
	case flow.Reverting:
		return append(all, with(Reverts, r.Began, now, true, false))
	case flow.Success, flow.FailureState:
		all := []Span{with(Executes, r.Began, r.Ended, false, r.State == flow.FailureState)}
		if pauses(r, now) {
			all = append(all, with(BacksOff, r.Ended, now, true, false))
		}
		return all
	case flow.Reverted, flow.RevertFailure:
		return append(all, with(Reverts, r.Began, r.Ended, false, r.State == flow.RevertFailure))
	}
	return nil
}

// SpansOfEvents reads from the events of a run, in their order, all that the atoms did, every attempt on its own. now
// ends what has not ended. When an atom goes on after it waited for a signal is not reported to listeners; what follows
// the signal counts as waiting.
func SpansOfEvents(events []flow.Event, now time.Time) []Span {
	var all []Span
	open := map[string]*Span{}
	due := map[string]time.Time{}
	end := func(atom string, at time.Time, failed bool) {
		s := open[atom]
		if s == nil {
			return
		}
		delete(open, atom)
		if d := due[atom]; !d.IsZero() && d.Before(at) && d.After(s.From) { // its time came, and it went on
			waited := *s
			waited.To = d
			all = append(all, waited)
			s.Doing, s.From = Executes, d
		}
		delete(due, atom)
		s.To, s.Failed = at, failed
		all = append(all, *s)
	}
	begin := func(e flow.Event, d Doing) { open[e.Atom] = &Span{Atom: e.Atom, Kind: e.Kind, Doing: d, From: e.At} }
	for _, e := range events {
		if e.Atom == "" {
			continue
		}
		switch {
		case e.Within == flow.Progressed:
		case e.Within == flow.Waits:
			end(e.Atom, e.At, false)
			begin(e, Waits)
			due[e.Atom] = e.Due
		case e.Within == flow.TriedAgain:
			end(e.Atom, e.At, true)
			begin(e, BacksOff)
			due[e.Atom] = e.Due
		case e.Within != "":
		case e.New == flow.Running:
			end(e.Atom, e.At, false)
			begin(e, Executes)
		case e.New == flow.Reverting:
			end(e.Atom, e.At, false)
			begin(e, Reverts)
		default:
			end(e.Atom, e.At, e.New == flow.FailureState || e.New == flow.RevertFailure)
		}
	}
	for _, atom := range openAtoms(open) {
		open[atom].Open = true
		s := len(all)
		end(atom, now, false)
		for ; s < len(all)-1; s++ {
			all[s].Open = false
		}
	}
	return all
}

func openAtoms(open map[string]*Span) []string {
	all := make([]string, 0, len(open))
	for atom := range open {
		all = append(all, atom)
	}
	slices.Sort(all)
	return all
}

// lane is a line of a timeline: what one atom does.
type lane struct {
	name  string // clean
	kind  flow.Kind
	spans []Span
}

// chart is a timeline with its bounds.
type chart struct {
	lanes    []lane
	hidden   int // lanes that are not shown
	from, to time.Time
}

// chartOf sorts spans into lanes by when they begin. Spans without a beginning are left out; those that end before they
// begin have no length.
func chartOf(spans []Span, most int) *chart {
	const hidden = -1
	c := &chart{}
	byAtom := make(map[string]int, len(spans)) // the lane, or hidden
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b Span) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Atom, b.Atom), a.To.Compare(b.To))
	})
	for _, s := range sorted {
		if s.From.IsZero() {
			continue
		}
		if s.To.Before(s.From) {
			s.To = s.From
		}
		if c.from.IsZero() {
			c.from, c.to = s.From, s.To
		}
		if s.To.After(c.to) {
			c.to = s.To
		}
		i, ok := byAtom[s.Atom]
		switch {
		case ok:
		case most > 0 && len(c.lanes) == most:
			i = hidden
			c.hidden++
		default:
			i = len(c.lanes)
			c.lanes = append(c.lanes, lane{name: clean(s.Atom), kind: s.Kind})
		}
		byAtom[s.Atom] = i
		if i != hidden {
			c.lanes[i].spans = append(c.lanes[i].spans, s)
		}
	}
	return c
}

// at gives the position of a time on the axis, from 0 to 1.
func (c *chart) at(t time.Time) float64 {
	whole := c.to.Sub(c.from)
	if whole <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(c.from))/float64(whole), 0), 1)
}

// tickSteps are the distances between ticks that people count in.
var tickSteps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// ticks lists the times since the beginning that are marked, at most a number of them after 0.
func (c *chart) ticks(most int) []time.Duration {
	whole := c.to.Sub(c.from)
	step := 24 * time.Hour
	for _, s := range tickSteps {
		if whole/s <= time.Duration(most) {
			step = s
			break
		}
	}
	for whole/step > time.Duration(most) {
		step *= 2
	}
	ticks := []time.Duration{0}
	for i := range whole / step {
		ticks = append(ticks, (i+1)*step)
	}
	return ticks
}

// tick writes a time since the beginning in the unit that fits: "0", "500ms", "20s", "1m30s", "2h", "3d".
func tick(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return quantity.FormatDuration(d)
}
