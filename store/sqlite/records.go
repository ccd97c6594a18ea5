package sqlite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// records is the database for the ledger, inside the loop's open transaction. Only the loop uses it.
type records struct {
	c         *conn.Conn
	names     *names
	cache     *cache
	newIDs    newIDs
	stmts     transacting
	direct    target            // the database
	front     *front            // the log in front of it; nil without one
	target                      // that of the open transaction: the database, or the log
	nextRow   int64             // row number of the next job
	nextEvent int64             // number of the next history entry
	viewed    map[job.Kind]bool // kinds that have a view
	lines     []lineChange      // of the open transaction, for the lists in memory
	shown     *lines            // the committed ones
	purging   purging
	headLock  sync.Mutex // guards head and headFile, and is held during a commit
	head      head       // of the newest commit
	headFile  *headFile
	order     func(head, commit func() error) error // how the head and the log are synced
	changes   int64                                 // changes of the connection when the transaction began
	applied   uint64                                // number of the last record of the log that the database has
	damaged   map[job.ID]error                      // records that were found damaged; they are not queued
	// the first statement that failed; the transaction cannot be committed
	failed error
}

var _ ledger.Records = (*records)(nil)

func newRecords(c *conn.Conn, n *names, shown *lines, cacheSize int) (*records, error) {
	r := &records{c: c, names: n, cache: newCache(cacheSize), shown: shown, viewed: map[job.Kind]bool{},
		damaged: map[job.ID]error{}}
	r.direct = target{&reading{}, &writing{}}
	r.target = r.direct
	err := prepare(c, map[**conn.Stmt]string{
		&r.stmts.begin:  "BEGIN IMMEDIATE",
		&r.stmts.commit: "COMMIT",
		&r.stmts.head:   "UPDATE head SET seq = ?, mark = ?, at = ?, logged = ?",
	})
	if err == nil {
		err = r.direct.reads.prepare(c)
	}
	if err == nil {
		err = r.direct.writes.prepare(c)
	}
	n.words.save, n.moves.save = r.saveWord, r.saveMove
	return r, err
}

// try records a failure: whatever the ledger does with the error, the transaction fails.
func (r *records) try(err error) error {
	if err == nil {
		return nil
	}
	if r.failed == nil {
		r.failed = err
	}
	return &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
}

func (r *records) saveWord(n int64, text string) error {
	r.writes.word.Int(1, n)
	r.writes.word.Text(2, text)
	return r.writes.word.Run()
}

func (r *records) saveMove(n int64, m move) error {
	s := r.writes.move
	s.Int(1, n)
	for i, text := range [...]string{string(m.event), string(m.from), string(m.to), string(m.outcome)} {
		s.Text(2+i, text)
	}
	s.Int(6, int64(m.by))
	return s.Run()
}

// errNoJob is what a job is not found with: it is made once.
var errNoJob = errors.New("there is no such job")

// entry returns the record of a job, or kind NotFound.
func (r *records) entry(id job.ID) (*entry, error) {
	e, err := r.find(id)
	if e == nil && err == nil {
		return nil, &job.Error{Op: "get", Kind: job.NotFound, ID: id, Err: errNoJob}
	}
	return e, err
}

// find returns the record of a job, nil if there is none.
func (r *records) find(id job.ID) (*entry, error) {
	if e := r.cache.get(id); e != nil {
		return e, nil
	}
	if isNew, err := r.newIDs.isNew(id, r.highestID); isNew || err != nil {
		return nil, r.try(err)
	}
	if f := r.logging(); f != nil {
		e, err := f.entry(id)
		if err != nil {
			return nil, r.try(err)
		}
		if e != nil {
			r.cache.put(e)
			return e, nil
		}
	}
	if err := r.damaged[id]; err != nil { // known, and refused before anything is written
		return nil, err
	}
	s := r.reads.byID
	s.Text(1, string(id))
	row, err := s.Step()
	if !row || err != nil {
		return nil, r.try(err)
	}
	defer s.Reset()
	e, err := r.names.getRow(s)
	if isDamage(err) {
		r.damaged[id] = err
	}
	if err != nil {
		return nil, r.try(err)
	}
	r.cache.put(e)
	return e, nil
}

// keyed returns the job that was created with the key; "" if there is none. The key is not empty.
func (r *records) keyed(kind job.Kind, owner, key string) (job.ID, error) {
	number, ok := r.names.words.numbers[string(kind)]
	if !ok {
		return "", nil
	}
	if f := r.logging(); f != nil {
		if id, err := f.keyed(kind, owner, key); id != "" || err != nil {
			return id, r.try(err)
		}
	}
	s := r.reads.keyed
	s.Text(1, key)
	s.Int(2, number)
	s.Text(3, owner)
	row, err := s.Step()
	if !row || err != nil {
		return "", r.try(err)
	}
	defer s.Reset()
	return job.ID(s.GetText(0)), nil
}

// insertJob adds a record. The job's first history entry must be the next one appended.
func (r *records) insertJob(j *job.Job) error {
	var parent int64
	if j.Parent != "" {
		p, err := r.entry(j.Parent)
		if err != nil {
			return r.try(err)
		}
		parent = p.n
	}
	if err := r.try(r.view(j.Kind)); err != nil {
		return err
	}
	e := r.cache.entry()
	*e = entry{n: r.nextRow, last: r.nextEvent, job: *j, made: sumMade(r.nextRow, j), data: sumData(j.Data)}
	if err := r.try(r.insert(e, parent)); err != nil {
		return err
	}
	r.nextRow++
	r.cache.put(e)
	r.newIDs.add(j.ID)
	if f := r.logging(); f != nil && j.Key != "" {
		f.pending.keys[j.Key] = append(f.pending.keys[j.Key], keyRow{j.Kind, j.Owner, j.ID, e.n})
	}
	r.touched(e)
	r.lines = append(r.lines, lineChange{n: e.n, line: r.names.line(j, parent)})
	return nil
}

func (r *records) insert(e *entry, parent int64) error {
	j := &e.job
	if err := r.names.bindMade(r.writes.made, e.n, parent, j); err != nil {
		return err
	}
	if err := r.writes.made.Run(); err != nil {
		return err
	}
	if len(j.Requires) > 0 {
		r.writes.requires.Int(1, e.n)
		if err := r.names.bindTags(r.writes.requires, 2, j.Requires); err != nil {
			return err
		}
		if err := r.writes.requires.Run(); err != nil {
			return err
		}
	}
	if j.Words != "" {
		if err := r.putWords(e.n, j.Words); err != nil {
			return err
		}
	}
	if err := r.names.bindNow(r.writes.insert, e); err != nil {
		return err
	}
	if err := r.writes.insert.Run(); err != nil {
		return err
	}
	if len(j.Data) > 0 {
		if err := r.putData(e.n, j.Data); err != nil {
			return err
		}
	}
	if j.Key == "" {
		return nil
	}
	r.writes.key.Text(1, j.Key)
	if err := r.names.bindName(r.writes.key, 2, string(j.Kind)); err != nil {
		return err
	}
	r.writes.key.Text(3, j.Owner)
	r.writes.key.Int(4, e.n)
	return r.writes.key.Run()
}

func (r *records) putWords(n int64, words string) error {
	r.writes.words.Int(1, n)
	r.writes.words.TextOrNull(2, words)
	return r.writes.words.Run()
}

func (r *records) putData(n int64, data []byte) error {
	if len(data) == 0 {
		r.writes.noData.Int(1, n)
		return r.writes.noData.Run()
	}
	r.writes.data.Int(1, n)
	r.writes.data.JSON(2, data)
	return r.writes.data.Run()
}

// update writes the record after, which was before.
func (r *records) update(before, after *job.Job) error {
	e, err := r.entry(after.ID)
	if err != nil {
		return r.try(err)
	}
	if !same(before.Data, after.Data) {
		e.data = sumData(after.Data)
		if err := r.try(r.putData(e.n, after.Data)); err != nil {
			return err
		}
	}
	if before.Words != after.Words {
		e.made = sumMade(e.n, after)
		if err := r.try(r.putWords(e.n, after.Words)); err != nil {
			return err
		}
	}
	e.job = *after
	if err := r.try(r.names.bindNow(r.writes.update, e)); err != nil {
		return err
	}
	if err := r.try(r.writes.update.Run()); err != nil {
		return err
	}
	r.cache.changed(e)
	r.touched(e)
	r.lines = append(r.lines, lineChange{n: e.n, line: r.names.line(after, 0)})
	return nil
}

// same compares data; it reads the bytes only if the addresses differ.
func same(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b)
}

// appendEvent adds a history entry.
func (r *records) appendEvent(ev *job.Event) error {
	e, err := r.entry(ev.Job)
	if err != nil {
		return r.try(err)
	}
	number := r.nextEvent
	if ev.Seq == 1 && e.last != number {
		return r.try(fmt.Errorf("first entry of %s is not the next one", ev.Job))
	}
	if err := r.try(r.append(e, ev)); err != nil {
		return err
	}
	if f := r.logging(); f != nil {
		back := int64(0)
		if ev.Seq > 1 {
			back = number - e.last
		}
		*f.pending.nextEvent(number) = eventRow{e.n, back, *ev}
		r.touched(e)
	}
	r.nextEvent++
	e.last = number
	return nil
}

func (r *records) append(e *entry, ev *job.Event) error {
	kind, err := r.names.moves.number(move{ev.Event, ev.From, ev.To, ev.Outcome, ev.By})
	if err != nil {
		return err
	}
	s := r.writes.event
	s.Int(1, r.nextEvent)
	s.Int(2, e.n)
	if ev.Seq == 1 {
		s.Null(3)
	} else {
		s.Int(3, r.nextEvent-e.last)
	}
	s.Int(4, ev.Seq)
	s.Int(5, kind)
	s.Int(6, ev.At.UnixMicro()-e.job.Created.UnixMicro())
	s.Int(7, ev.Epoch)
	if err := r.names.bindWord(s, 8, ev.Actor); err != nil {
		return err
	}
	if err := r.names.bindWord(s, 9, ev.Cause); err != nil {
		return err
	}
	s.TextOrNull(10, ev.Note)
	if err := r.names.bindWord(s, 11, ev.Address); err != nil {
		return err
	}
	if ev.Began.IsZero() {
		s.Null(12)
	} else {
		s.Int(12, ev.At.UnixMicro()-ev.Began.UnixMicro())
	}
	return s.Run()
}

// putTask adds or replaces a task by name.
func (r *records) putTask(id job.ID, t *job.Task) error {
	e, err := r.entry(id)
	if err != nil {
		return r.try(err)
	}
	s := r.writes.task
	s.Int(1, e.n)
	s.Text(2, t.Name)
	if err := r.names.bindName(s, 3, string(t.Kind)); err != nil {
		return r.try(err)
	}
	if err := r.names.bindName(s, 4, string(t.State)); err != nil {
		return r.try(err)
	}
	s.Int(5, t.Epoch)
	s.Int(6, int64(t.Attempts))
	s.Int(7, t.Done)
	s.Int(8, t.Total)
	s.TextOrNull(9, t.Message)
	s.JSON(10, t.Data)
	bindTime(s, 11, 0, t.Changed)
	s.Int(12, sumTask(e.n, t))
	if f := r.logging(); f != nil {
		own := *t // the caller may write into its data
		own.Data = ownBytes(t.Data)
		f.pending.putTask(e.n, own)
	}
	return r.try(s.Run())
}

// putHold adds a hold, or replaces the one on its scope.
func (r *records) putHold(h *job.Hold) error {
	s := r.writes.hold
	for i, text := range [...]string{h.Scope.String(), string(h.Kind), string(h.State), h.Group, h.Owner, string(h.Job),
		h.Who, h.Why} {
		s.Text(1+i, text)
	}
	s.Int(9, h.Since.UnixMicro())
	bindTime(s, 10, 0, h.Until)
	s.Null(11) // that of an earlier program
	s.Text(12, h.Tag)
	s.Int(13, sumHold(h))
	if f := r.logging(); f != nil {
		put := *h
		f.pending.holds[h.Scope] = &put
	}
	return r.try(s.Run())
}

// dropHold removes the hold on a scope.
func (r *records) dropHold(scope job.Scope) error {
	if f := r.logging(); f != nil {
		f.pending.holds[scope] = nil
	}
	r.writes.dropHold.Text(1, scope.String())
	return r.try(r.writes.dropHold.Run())
}

// message returns a message by key, or nil.
func (r *records) message(key string) (*job.Message, error) {
	if f := r.logging(); f != nil {
		if m, err := f.message(key); m != nil || err != nil {
			return m, r.try(err)
		}
	}
	r.reads.message.Text(1, key)
	found, err := messages(r.reads.message, refuse)
	if err != nil || len(found) == 0 {
		return nil, r.try(err)
	}
	return &found[0], nil
}

// Due is part of ledger.Records. A damaged message is not delivered, and does not block the others.
func (r *records) Due(t *job.Taking) ([]job.Message, error) {
	if r.logging() != nil {
		return nil, r.try(errNotLogged)
	}
	topics := slices.Clone(t.Topics)
	if len(topics) == 0 || t.Others {
		var err error
		if topics, err = topicsOf(r.reads.topic); err != nil {
			return nil, r.try(err)
		}
		topics = slices.DeleteFunc(topics, func(topic string) bool { return !t.Selects(topic) })
	}
	slices.Sort(topics)
	var found []job.Message
	for _, topic := range slices.Compact(topics) {
		s := r.reads.due
		s.Text(1, topic)
		s.Int(2, t.Now.UnixMicro())
		s.Int(3, int64(t.N))
		due, err := messages(s, leaveOut)
		if err != nil {
			return nil, r.try(err)
		}
		found = append(found, due...)
	}
	slices.SortFunc(found, func(a, b job.Message) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number))
	})
	return found[:min(t.N, len(found))], nil
}

// pending returns the key of a pending message of the job, or "".
func (r *records) pending(id job.ID) (key string, err error) {
	if r.logging() != nil {
		return "", r.try(errNotLogged)
	}
	r.reads.pending.Text(1, string(id))
	err = rows(r.reads.pending, func(s *conn.Stmt) error {
		key = s.GetText(0)
		return nil
	})
	return key, r.try(err)
}

// putMessage adds or replaces a message by key.
func (r *records) putMessage(m *job.Message) error {
	s := r.writes.post
	s.Text(1, m.Key)
	s.Text(2, string(m.Job))
	s.Text(3, m.Topic)
	s.JSON(4, m.Body)
	s.Int(5, m.Created.UnixMicro())
	s.Int(6, m.Due.UnixMicro())
	s.Int(7, int64(m.Attempts))
	s.TextOrNull(8, m.Error)
	s.TextOrNull(9, settledText(m.Settled))
	var tried []byte
	if len(m.Tried) > 0 {
		var err error
		if tried, err = json.Marshal(m.Tried); err != nil {
			return r.try(err)
		}
	}
	s.JSON(10, tried)
	if f := r.logging(); f != nil {
		own := *m
		own.Body, own.Tried = ownBytes(m.Body), slices.Clone(m.Tried)
		f.pending.messages[m.Key] = own
	}
	s.Int(11, m.Number)
	s.Int(12, sumMessage(m, tried))
	return r.try(s.Run())
}
