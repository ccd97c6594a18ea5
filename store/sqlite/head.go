package sqlite

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/durable"
)

// The file `head` beside the database repeats the newest commit. A database that lost its log, was damaged there, or
// was replaced by an older one is valid by itself; it only ends earlier. The head detects it at the next start.
//
// Each transaction writes its number into the row of table head. The same number is written to the file as begun, and
// synced, while the COMMIT syncs the log; callers are answered when both are on the disk. Then the number is written
// to the file as committed, without a sync of its own: it reaches the disk with the next transaction, or headIdle
// later. So, at any time of a power failure:
//
//   - the file never has committed before the log is on the disk: a valid database is never refused;
//   - the database is never more than one commit ahead of begun in the file;
//   - missing commits are detected, except the last one if the power fails within headIdle of it and the log loses
//     it too.
const (
	headName  = "head"
	headSlots = 2
	slotSize  = 4096 // further apart than one write of a disk
	slotText  = 512  // the used part of a slot: one sector
	headIdle  = 100 * time.Millisecond
)

// head describes the newest commit.
type head struct {
	series  string    // of commits; a database that continues from a copy begins another
	begun   int64     // number of the newest commit that began
	seq     int64     // number of the newest commit on the disk; the following fields describe it
	mark    int64     // random: it differs in two databases that continued from the same one
	at      time.Time // when
	numbers           // of its state
	logged  uint64    // number of the newest record of the log that is on the disk
	copied  bool      // the database has no head file yet
}

// headFile keeps the head in a file with two slots. Between two syncs only one of them is written, so that the other
// one is valid after a power failure. Only the commit loop calls it.
type headFile struct {
	file *os.File
	next int // slot of the next write
	text []byte
	idle *time.Timer
	tap  func(headOp) // for tests: receives the operations on the file

	mu     sync.Mutex // guards failed
	failed error      // error of a sync in the background
}

// headOp is an operation on the head file.
type headOp struct {
	sync bool
	at   int64
	data []byte
}

var headSums = crc32.MakeTable(crc32.Castagnoli)

// appendSlot appends a slot's text: readable lines and a checksum.
func (h *head) appendSlot(text []byte) []byte {
	begin := len(text)
	number := func(name string, n int64) {
		text = append(strconv.AppendInt(append(append(text, name...), '='), n, 10), '\n')
	}
	text = append(append(append(text, "series="...), h.series...), '\n')
	number("begun", h.begun)
	number("commit", h.seq)
	number("mark", h.mark)
	number("at", h.at.UnixMicro())
	number("jobs", h.rows)
	number("entries", h.entries)
	number("audits", h.audits)
	number("logged", int64(h.logged))
	text = append(hex.AppendEncode(append(text, "audit_hash="...), h.auditHash[:]), '\n')
	number("sum", int64(crc32.Checksum(text[begin:], headSums)))
	for len(text)-begin < slotText-1 {
		text = append(text, ' ')
	}
	return append(text, '\n')
}

// parseSlot parses a slot; ok is false if it is incomplete or damaged.
func parseSlot(text string) (h head, ok bool) {
	body, sum, found := strings.Cut(strings.TrimRight(text, " \n\x00"), "sum=")
	if want, err := strconv.ParseInt(sum, 10, 64); !found || err != nil ||
		want != int64(crc32.Checksum([]byte(body), headSums)) {
		return h, false
	}
	logged := int64(0)
	numbers := map[string]*int64{
		"begun": &h.begun, "logged": &logged, "commit": &h.seq, "mark": &h.mark, "jobs": &h.rows, "entries": &h.entries,
		"audits": &h.audits,
	}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case name == "series":
			h.series, err = value, nil
		case name == "audit_hash":
			var hash []byte
			hash, err = hex.DecodeString(value)
			copy(h.auditHash[:], hash)
		case name == "at":
			h.at = unixMicro(n)
		case numbers[name] != nil:
			*numbers[name] = n
		}
		if err != nil {
			return h, false
		}
	}
	h.logged = uint64(logged)
	return h, h.series != ""
}

// readHead reads the file. slot is the number of the slot with the head. The error is [fs.ErrNotExist] if there is no
// file, and errHeadDamaged if no slot is valid.
func readHead(dir string) (h head, slot int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, headName))
	if err != nil {
		return h, 0, err
	}
	found := false
	for i := range headSlots {
		from := min(i*slotSize, len(text))
		got, ok := parseSlot(string(text[from:min(from+slotText, len(text))]))
		if ok && (!found || cmp.Or(cmp.Compare(got.seq, h.seq), cmp.Compare(got.begun, h.begun),
			cmp.Compare(got.logged, h.logged)) > 0) {
			h, slot, found = got, i, true
		}
	}
	if !found {
		return h, 0, errHeadDamaged
	}
	return h, slot, nil
}

var errHeadDamaged = errors.New("it is damaged")

// createHead replaces the file, or creates it: after a power failure it is the old one or the new one.
func createHead(dir string, h *head, tap func(headOp)) error {
	text := h.appendSlot(nil)
	text = append(text, make([]byte, headSlots*slotSize-len(text))...)
	if err := durable.Replace(filepath.Join(dir, headName), text); err != nil {
		return err
	}
	if tap != nil {
		tap(headOp{data: text})
		tap(headOp{sync: true})
	}
	return nil
}

// openHead opens the file to continue with h, the head of the database; slot has the newest one.
func openHead(dir string, h *head, slot int, tap func(headOp)) (*headFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, headName), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	f := &headFile{file: file, next: (slot + 1) % headSlots, text: make([]byte, 0, slotText), tap: tap}
	f.idle = time.AfterFunc(headIdle, f.syncIdle)
	return f, f.begin(h)
}

func (f *headFile) write(h *head) error {
	f.text = h.appendSlot(f.text[:0])
	at := int64(f.next) * slotSize
	if f.tap != nil {
		f.tap(headOp{at: at, data: append([]byte{}, f.text...)})
	}
	_, err := f.file.WriteAt(f.text, at)
	return err
}

func (f *headFile) sync() error {
	err := durable.SyncData(f.file)
	if err == nil && f.tap != nil {
		f.tap(headOp{sync: true})
	}
	return err
}

// begin writes the head and syncs it.
func (f *headFile) begin(h *head) error {
	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if failed != nil { // a second sync would not report what the first one lost
		return fmt.Errorf("%s: %w", headName, failed)
	}
	if err := errors.Join(f.write(h), f.sync()); err != nil {
		return fmt.Errorf("%s: %w", headName, err)
	}
	f.next = (f.next + 1) % headSlots
	return nil
}

// confirm records that the newest commit is on the disk. The next sync covers it.
func (f *headFile) confirm(h *head) error {
	f.idle.Reset(headIdle)
	return f.write(h)
}

// syncIdle syncs the write of confirm.
func (f *headFile) syncIdle() {
	if err := f.sync(); err != nil && !errors.Is(err, fs.ErrClosed) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = err
	}
}

func (f *headFile) close() error {
	f.idle.Stop()
	return errors.Join(f.sync(), f.file.Close())
}

// headOf reads the database's own row.
func headOf(c *conn.Conn) (h head, err error) {
	rows := 0
	err = each(c, "SELECT series, seq, mark, at, copied, logged FROM head", func(s *conn.Stmt) error {
		h = head{series: s.GetText(0), seq: s.GetInt(1), mark: s.GetInt(2), at: unixMicro(s.GetInt(3)),
			copied: s.GetInt(4) == 1, logged: uint64(s.GetInt(5))}
		rows++
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("table head has %d rows", rows)
	}
	h.begun = h.seq
	return h, err
}

// newSeries names a series of commits.
func newSeries() string { return strings.ToLower(rand.Text()) }
