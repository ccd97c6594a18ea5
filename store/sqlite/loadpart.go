package sqlite

import (
	"fmt"
	"sync"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/sizes"
)

// loadMade and loadNow are read side by side: both tables have one row per job, in the same order. Columns that a
// queue does not need (spec, data, hashes) are not read.
const (
	loadMade = `SELECT n, kind, number, owner, created, parent, id, requires FROM job_made WHERE n >= ? AND n < ?
 ORDER BY n`
	loadNow = `SELECT n, state, outcome, ended, grp, changed, priority, version, epoch, worker, until, starts, attempts, retries,
 due, deadline, expires, entered, children, cause, tags, bytes FROM job_now WHERE n >= ? AND n < ? ORDER BY n`
)

// partRows is the number of rows of a part.
const partRows = 8192

// part has the jobs of a range of rows, as far as the memory of a store has them.
type part struct {
	lines   []rowLine
	live    []liveJob
	batches []rowID // jobs that have jobs
	ended   map[endedKey]endedCount
	last    map[uint32]int64 // highest number by kind
	err     error
}

// liveJob is a job that has not ended, with its row and that of its parent.
type liveJob struct {
	row, parent int64
	job         job.Job
}

type rowID struct {
	row int64
	id  job.ID
}

// endedKey has what ended jobs are counted by; text is the group if it has no number.
type endedKey struct {
	kind, state, group uint32
	text               string
}

type endedCount struct {
	jobs  int64
	bytes sizes.Sum
}

// add counts one job more.
func (c endedCount) add(bytes int64) endedCount {
	c.jobs++
	c.bytes.Add(bytes)
	return c
}

func (p *part) clear() {
	p.lines, p.live, p.batches, p.err = p.lines[:0], p.live[:0], p.batches[:0], nil
	clear(p.ended)
	clear(p.last)
}

// partReader reads parts by a connection.
type partReader struct {
	names     *names
	damaged   map[job.ID]error // jobs that are only counted: their records are not usable
	newer     map[int64]*entry // rows that are left out: the overlay has them
	made, now *conn.Stmt
}

func newPartReader(c *conn.Conn, n *names, damaged map[job.ID]error) (*partReader, error) {
	r := &partReader{names: n, damaged: damaged}
	return r, prepare(c, map[**conn.Stmt]string{&r.made: loadMade, &r.now: loadNow})
}

func (r *partReader) close() {
	for _, s := range []*conn.Stmt{r.made, r.now} {
		if s != nil {
			s.Close()
		}
	}
}

// read reads the rows from one row on and below another.
func (r *partReader) read(from, below int64, p *part) error {
	for _, s := range []*conn.Stmt{r.made, r.now} {
		s.Int(1, from)
		s.Int(2, below)
	}
	err := rows(r.made, func(made *conn.Stmt) error {
		more, err := r.now.Step()
		if err != nil {
			return err
		}
		if !more || r.now.GetInt(0) != made.GetInt(0) {
			return fmt.Errorf("job %s (row %d) has lost one half of its record", made.GetText(6), made.GetInt(0))
		}
		r.record(p)
		return nil
	})
	if err != nil {
		r.now.Reset()
		return err
	}
	if more, err := r.now.Step(); more || err != nil {
		if err == nil {
			err = fmt.Errorf("row %d is half a record", r.now.GetInt(0))
			r.now.Reset()
		}
		return err
	}
	return nil
}

// wordNumber returns the number of a word by [names.bindWord] in a line.
func (n *names) wordNumber(s *conn.Stmt, i int) uint32 {
	if !s.IsText(i) {
		return uint32(s.GetInt(i))
	}
	if number, ok := n.words.find(s.GetText(i)); ok {
		return uint32(number)
	}
	return unnumbered
}

// tagsWord returns the number of a record's tags in a line, and makes the set visible to queries.
func (n *names) tagsWord(s *conn.Stmt, i int) uint32 {
	switch {
	case s.IsNull(i):
		return 0
	case s.IsText(i):
		return unnumbered
	}
	if _, err := n.tagsOf(s.GetInt(i)); err != nil {
		return unnumbered
	}
	return uint32(s.GetInt(i))
}

// line returns the line of the record under the cursors.
func (r *partReader) line() line {
	made, now := r.made, r.now
	changed := int64(0)
	if !now.IsNull(5) {
		changed = unixMicro(made.GetInt(4) + now.GetInt(5)).Unix()
	}
	return line{
		kind: uint32(made.GetInt(1)), state: uint32(now.GetInt(1)), outcome: uint32(now.GetInt(2)),
		group: r.names.wordNumber(now, 4), owner: r.names.wordNumber(made, 3), parent: uint32(made.GetInt(5)),
		tags: r.names.tagsWord(now, 20), cause: r.names.wordNumber(now, 19),
		changed: uint32(max(0, changed)), ended: now.GetInt(3) > 0,
	}
}

// record adds the record under the cursors.
func (r *partReader) record(p *part) {
	made, now := r.made, r.now
	row, number := made.GetInt(0), made.GetInt(2)
	if r.newer[row] != nil {
		return
	}
	v := r.line()
	p.lines = append(p.lines, rowLine{row, v})
	p.last[v.kind] = max(p.last[v.kind], number)
	ended, batch := v.ended, !now.IsNull(18)
	var id job.ID
	if batch || !ended {
		id = job.ID(made.GetText(6))
	}
	if batch {
		p.batches = append(p.batches, rowID{row, id})
	}
	if ended || r.damaged[id] != nil {
		k := endedKey{kind: v.kind, state: v.state, group: v.group}
		if v.group == unnumbered {
			k.text = now.GetText(4)
		}
		p.ended[k] = p.ended[k].add(now.GetInt(21))
		return
	}
	p.live = append(p.live, liveJob{row: row, parent: int64(v.parent)})
	j := &p.live[len(p.live)-1].job
	j.ID, j.Number = id, number
	r.live(j)
	if batch {
		_ = getChildren(now.GetText(18), &j.Children) // a damaged one is reported when the record is read
	}
}

// live reads what the queue has of a job.
func (r *partReader) live(j *job.Job) {
	made, now, created := r.made, r.now, r.made.GetInt(4)
	j.Kind, j.Owner = job.Kind(r.names.getName(made, 1)), r.names.getWord(made, 3)
	j.State, j.Outcome = lifecycle.State(r.names.getName(now, 1)), lifecycle.Outcome(r.names.getName(now, 2))
	j.Group, j.Worker, j.Bytes = r.names.getWord(now, 4), r.names.getWord(now, 9), now.GetInt(21)
	j.Tags, _ = r.names.getTags(now, 20)
	j.Requires, _ = r.names.getTags(made, 7) // damaged ones are reported when the record is read
	j.Created, j.Priority = unixMicro(created), int(now.GetInt(6))
	j.Starts = int(now.GetInt(11))
	j.Until, j.Due = getTime(now, 10, created), getTime(now, 14, created)
	j.Expires, j.Entered = getTime(now, 16, created), getTime(now, 17, created)
}

// ended returns the words by which ended jobs are counted.
func (n *names) ended(k endedKey) (at job.KindState, group string) {
	group = k.text
	if k.group != unnumbered {
		group = n.words.value(int64(k.group))
	}
	return job.KindState{Kind: job.Kind(n.words.value(int64(k.kind))),
		State: lifecycle.State(n.words.value(int64(k.state)))}, group
}

// parts reads the rows from one row on and below another by several readers at once, and calls take with one part of
// size rows after another, in order of rows. A part is valid until take returns.
func parts(readers []*partReader, from, below, size int64, take func(*part)) error {
	n := int((below - from + size - 1) / size)
	done := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(done)
	full, free := make([]chan *part, len(readers)), make([]chan *part, len(readers))
	for i, r := range readers {
		full[i], free[i] = make(chan *part, 2), make(chan *part, 2)
		for range cap(free[i]) {
			free[i] <- &part{ended: map[endedKey]endedCount{}, last: map[uint32]int64{}}
		}
		all.Go(func() {
			for k := i; k < n; k += len(readers) {
				var p *part
				select {
				case <-done:
					return
				case p = <-free[i]:
				}
				p.clear()
				begin := from + int64(k)*size
				p.err = r.read(begin, min(begin+size, below), p)
				full[i] <- p // there are no more parts than the channel can have
			}
		})
	}
	for k := range n {
		p := <-full[k%len(readers)]
		if p.err != nil {
			return p.err
		}
		take(p)
		free[k%len(readers)] <- p
	}
	return nil
}
