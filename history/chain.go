package history

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// chain is the check of the history of one job.
type chain struct {
	v      *verification
	line   jobLine
	prev   job.Hash // hash of the entry before
	seq    int64    // of the entry before
	number int64    // of the entry before
	marks  []mark   // of the anchors that are ahead
	newest mark     // the one with the highest number
	same   mark     // the last one that fits
	broken bool     // a fault was reported, from which the rest follows
}

// readHistories checks the histories.
func (v *verification) readHistories(ctx context.Context) {
	var c *chain
	done := map[job.ID]bool{}
	v.lines(ctx, historiesName, func(text []byte) error {
		var l line
		if err := strict(text, &l); err != nil {
			if c != nil {
				c.broken = true
			}
			return err
		}
		switch {
		case l.Job != nil && l.Entry == nil:
			c.end()
			v.seen.Jobs++
			if done[l.Job.ID] {
				v.fault(string(l.Job.ID), 0, "the job is there twice")
			}
			done[l.Job.ID] = true
			c = v.begin(*l.Job)
		case l.Entry != nil && l.Job == nil:
			v.seen.Entries++
			if c == nil {
				return errors.New("it precedes the first job")
			}
			c.add(l.Entry, l.Number)
		default:
			return errors.New("it is neither a job nor an entry")
		}
		return nil
	})
	c.end()
}

// begin begins the history of a job. What remains in marks at the end are jobs that are missing.
func (v *verification) begin(l jobLine) *chain {
	c := &chain{v: v, line: l, marks: v.marks[l.ID]}
	slices.SortStableFunc(c.marks, func(a, b mark) int { return cmp.Compare(a.seq, b.seq) }) // a restore goes back
	if n := len(c.marks); n > 0 {
		c.newest = c.marks[n-1]
	}
	delete(v.marks, l.ID)
	if l.Damage != "" {
		c.fault(0, "the server could not read the history: %s", l.Damage)
	}
	return c
}

func (c *chain) fault(entry int64, format string, args ...any) {
	c.broken = true
	c.v.fault(string(c.line.ID), entry, format, args...)
}

// add checks the next entry.
func (c *chain) add(e *job.Event, number int64) {
	want := *e
	want.Seal(e.Prev)
	switch {
	case e.Job != c.line.ID:
		c.fault(e.Seq, "the entry is of the job %s", e.Job)
		return
	case e.Seq <= c.seq:
		c.fault(e.Seq, "the entry was inserted or moved: entry %d is before it", c.seq)
		return
	case e.Seq > c.seq+1:
		c.fault(c.seq+1, "%s removed: from %d to %d", wereEntries(e.Seq-c.seq-1), c.seq+1, e.Seq-1)
	case e.Newer && want.Hash == e.Hash:
		c.fault(e.Seq, "the entry (%s) %s", e.Event, fieldAdded)
	case e.Newer:
		c.fault(e.Seq, "the entry (%s) %s", e.Event, writtenNewer)
	case want.Hash != e.Hash:
		c.fault(e.Seq, "the entry (%s) was changed", e.Event)
	case e.Prev != c.prev:
		c.fault(e.Seq, "the entry does not continue the one before: one of them was replaced")
	case number <= c.number:
		c.fault(e.Seq, "the entry was moved: its number %d does not follow %d", number, c.number)
	}
	c.compare(e)
	if e.Seq > c.newest.seq && !c.broken && c.v.covers(number) {
		c.fault(e.Seq, "the entry was inserted: the anchors cover its number %d and do not have it", number)
	}
	c.seq, c.prev, c.number = e.Seq, e.Hash, number
}

func wereEntries(n int64) string {
	if n == 1 {
		return "1 entry was"
	}
	return entries(n) + " were"
}

// compare compares an entry with the anchors that have it.
func (c *chain) compare(e *job.Event) {
	for len(c.marks) > 0 && c.marks[0].seq <= e.Seq {
		m := c.marks[0]
		c.marks = c.marks[1:]
		if m.seq < e.Seq || m.hash != e.Hash {
			c.v.missed(m.of)
		}
		switch {
		case m.seq < e.Seq: // it is missing, which is reported
		case m.hash == e.Hash:
			c.same = m
		case !c.broken && c.same.of != nil:
			c.fault(e.Seq,
				"an entry from %d to %d was replaced: they were recorded between %s and %s, which has others",
				c.same.seq+1, e.Seq, c.same.of, m.of)
		case !c.broken:
			c.fault(e.Seq, "an entry up to %d was replaced: they were recorded before %s, which has others", e.Seq,
				m.of)
		}
	}
}

// end checks that nothing is missing at the end.
func (c *chain) end() {
	if c == nil || c.line.Damage != "" {
		return
	}
	for _, m := range c.marks {
		c.v.missed(m.of)
	}
	switch last := c.newest.seq; {
	case c.seq < c.line.Entries:
		c.fault(c.seq+1, "%s removed at the end: the record counts %d", wereEntries(c.line.Entries-c.seq),
			c.line.Entries)
	case c.seq < last:
		c.fault(c.seq+1, "%s removed at the end: %s has them", wereEntries(last-c.seq), c.newest.of)
	case c.broken:
	case c.seq != c.line.Entries || c.prev != c.line.Head:
		c.fault(c.seq, "the record has %s that end in %.8s, the history has %d that end in %.8s",
			entries(c.line.Entries), c.line.Head, c.seq, c.prev)
	}
}
