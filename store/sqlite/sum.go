package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// Each record, task, hold and message has a checksum (CRC-32C) over its content, with words instead of their numbers.
// A row that was damaged on the disk or edited does not match it. It detects accidents; a forger can compute it too.

// damageError reports data that does not match its checksum or is unreadable. It is wrapped in a [job.Error] of kind
// Internal with the id of the job.
type damageError struct{ what string }

func (e *damageError) Error() string { return e.what }

func damaged(id job.ID, format string, args ...any) error {
	return &job.Error{Op: "read", Kind: job.Internal, ID: id, Err: &damageError{fmt.Sprintf(format, args...)}}
}

// mismatch is the error for a row that does not match its checksum.
func mismatch(id job.ID, what string) error {
	return damaged(id, "%s does not match the checksum: changed or damaged outside Stagepost."+
		" Restore a backup; or stop the server and accept it: stagepost admin accept --note REASON %s", what, id)
}

// isDamage reports whether a read found damage, as opposed to a failing disk.
func isDamage(err error) bool {
	var d *damageError
	return errors.As(err, &d)
}

// summer collects the data of a checksum.
type summer struct {
	sum    uint32
	text   []byte
	buffer [512]byte
}

// summers are free ones. The loop and all readers compute checksums.
var summers = sync.Pool{New: func() any { return &summer{} }}

// newSummer returns an empty summer; end returns it to the pool.
func newSummer() *summer {
	s := summers.Get().(*summer)
	s.sum, s.text = 0, s.buffer[:0]
	return s
}

func (s *summer) int(n int64) { s.text = binary.AppendVarint(s.text, n) }

func (s *summer) str(v string) {
	s.int(int64(len(v)))
	s.text = append(s.text, v...)
}

// bytes adds long data without a copy.
func (s *summer) bytes(v []byte) {
	s.int(int64(len(v)))
	s.flush()
	s.sum = crc32.Update(s.sum, headSums, v)
}

func (s *summer) time(t time.Time) {
	if t.IsZero() {
		s.int(0)
		return
	}
	s.int(1)
	s.int(t.UnixMicro())
}

func (s *summer) flag(v bool) {
	if v {
		s.int(1)
		return
	}
	s.int(0)
}

func (s *summer) flush() {
	s.sum = crc32.Update(s.sum, headSums, s.text)
	s.text = s.text[:0]
}

// end returns the checksum. The summer must not be used afterwards.
func (s *summer) end() uint32 {
	s.flush()
	sum := s.sum
	s.text = nil // a long one is not kept
	summers.Put(s)
	return sum
}

// sumMade is over the immutable fields of a job, and its words. An entry keeps it, so that a long spec is summed once.
func sumMade(n int64, j *job.Job) uint32 {
	s := newSummer()
	s.int(n)
	s.str(string(j.ID))
	s.str(string(j.Kind))
	s.int(j.Number)
	s.str(string(j.Parent))
	s.str(j.Owner)
	s.str(j.Definition)
	s.int(j.Created.UnixMicro())
	s.str(j.Key)
	s.bytes(j.Spec)
	for _, l := range j.Requires { // a record of an earlier version has none
		s.str(l)
	}
	if j.Words != "" { // the same
		s.int(-1)
		s.str(j.Words)
	}
	return s.end()
}

func sumData(data []byte) uint32 { return crc32.Checksum(data, headSums) }

// sumRecord is over the whole record.
func (e *entry) sumRecord() int64 {
	s, j := newSummer(), &e.job
	s.int(int64(e.made))
	s.int(int64(e.data))
	s.int(int64(len(j.Data)))
	for _, v := range [...]string{string(j.State), string(j.LastOK), string(j.Origin), string(j.Outcome), j.Group,
		j.Worker, j.Message, j.Cause} {
		s.str(v)
	}
	s.flag(j.Ended)
	s.flag(j.Gone)
	c := &j.Children
	for _, v := range [...]int64{
		int64(j.Priority), j.Version, j.Epoch, int64(j.Starts), int64(j.Attempts), int64(j.Retries), j.Bytes, j.Seq,
		e.last, int64(len(j.Tags)),
		int64(c.Expected), int64(c.Open), int64(c.OK), int64(c.Failed), int64(c.TimedOut), int64(c.Cancelled),
		int64(c.Deleted),
	} {
		s.int(v)
	}
	for _, tag := range j.Tags {
		s.str(tag)
	}
	for _, t := range [...]time.Time{j.Until, j.Due, j.Deadline, j.Expires, j.Entered, j.Changed} {
		s.time(t)
	}
	s.bytes(j.Head[:])
	return int64(s.end())
}

// sumTask is over a task of the job in row n.
func sumTask(n int64, t *job.Task) int64 {
	s := newSummer()
	s.int(n)
	for _, v := range [...]string{t.Name, string(t.Kind), string(t.State), t.Message} {
		s.str(v)
	}
	for _, v := range [...]int64{t.Epoch, int64(t.Attempts), t.Done, t.Total} {
		s.int(v)
	}
	s.time(t.Changed)
	s.bytes(t.Data)
	return int64(s.end())
}

// sumHold is over a hold.
func sumHold(h *job.Hold) int64 {
	s := newSummer()
	for _, v := range [...]string{string(h.Kind), string(h.State), h.Group, h.Owner, h.Tag, string(h.Job), h.Who,
		h.Why} {
		s.str(v)
	}
	s.int(h.Since.UnixMicro())
	s.time(h.Until)
	return int64(s.end())
}

// sumMessage is over a message; tried are the deliveries of its row.
func sumMessage(m *job.Message, tried []byte) int64 {
	s := newSummer()
	for _, v := range [...]string{m.Key, string(m.Job), m.Topic, m.Error, settledText(m.Settled)} {
		s.str(v)
	}
	for _, v := range [...]int64{m.Number, m.Created.UnixMicro(), m.Due.UnixMicro(), int64(m.Attempts)} {
		s.int(v)
	}
	s.bytes(m.Body)
	s.bytes(tried)
	return int64(s.end())
}

// sumIs reports whether the column has the checksum, or none: an earlier version wrote the row.
func sumIs(s *conn.Stmt, column int, want int64) bool {
	return s.IsNull(column) || s.GetInt(column) == want
}
