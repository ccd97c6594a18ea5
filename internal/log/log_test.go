package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// records are what Read returns, as texts.
func records(t testing.TB, dir string, after uint64) (all []string, last uint64, err error) {
	t.Helper()
	next := after + 1
	last, err = Read(dir, "inst", after, func(number uint64, content []byte) error {
		if number != next {
			t.Errorf("record %d follows %d", number, next-1)
		}
		next++
		all = append(all, string(content))
		return nil
	})
	return all, last, err
}

func create(t testing.TB, dir string, next uint64, o Options) *Log {
	t.Helper()
	o.Installation = "inst"
	l, err := Create(dir, next, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendAll(t testing.TB, l *Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		want := l.next
		if number, err := l.Append([]byte(text)); err != nil || number != want {
			t.Fatalf("append: %d, %v", number, err)
		}
	}
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// many returns texts of various lengths.
func many(n int) (texts []string) {
	for i := range n {
		texts = append(texts, strings.Repeat(fmt.Sprint(i, " "), 1+i*7%90))
	}
	return texts
}

// What was appended is read, from any number on, across segments of which the applied ones go away.
func TestAppendAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l, want := create(t, dir, 1, Options{FirstSize: 8 << 10}), many(300)
	appendAll(t, l, want...)
	if files, err := list(dir); err != nil || len(files) < 3 {
		t.Fatalf("segments %v, %v: the test needs some", files, err)
	}
	for _, after := range []uint64{0, 1, 150, 299, 300} {
		got, last, err := records(t, dir, after)
		if err != nil || last != 300 || strings.Join(got, "|") != strings.Join(want[after:], "|") {
			t.Errorf("after %d: %d records, last %d, %v", after, len(got), last, err)
		}
	}
	before, _ := list(dir)
	if err := l.Release(before[2] - 2); err != nil { // one record of the second segment is needed still
		t.Fatal(err)
	}
	if files, err := list(dir); err != nil || len(files) != len(before)-1 {
		t.Errorf("segments %v of %v are left, %v", files, before, err)
	}
	if _, _, err := records(t, dir, before[1]-1); err != nil {
		t.Error(err)
	}
	if err := l.Release(300); err != nil {
		t.Fatal(err)
	}
	if files, err := list(dir); err != nil || len(files) != 1 {
		t.Errorf("segments %v are left, want the newest, %v", files, err)
	}
	closeLog(t, l)
	if _, last, err := records(t, dir, 300); err != nil || last != 300 {
		t.Errorf("last %d, %v", last, err)
	}
	l = create(t, dir, 301, Options{})
	appendAll(t, l, "next")
	closeLog(t, l)
	if got, last, err := records(t, dir, 300); err != nil || last != 301 || len(got) != 1 {
		t.Errorf("after another start: %q, last %d, %v", got, last, err)
	}
	if err := Delete(dir); err != nil {
		t.Fatal(err)
	}
	if got, last, err := records(t, dir, 301); err != nil || last != 301 || got != nil {
		t.Errorf("after Delete: %q, %d, %v", got, last, err)
	}
	if err := Delete(dir); err != nil {
		t.Error("Delete of no log:", err)
	}
}

// A record that is larger than a segment gets one of its own; nothing and too much are refused.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, 1, Options{FirstSize: 8 << 10})
	large := strings.Repeat("x", 100<<10)
	appendAll(t, l, "small", large, "small again")
	closeLog(t, l)
	if got, _, err := records(t, dir, 0); err != nil || len(got) != 3 || got[1] != large {
		t.Errorf("%d records, %v", len(got), err)
	}
	if _, err := l.Append(nil); err == nil {
		t.Error("an empty record is accepted")
	}
	if _, err := Create(dir, 1, Options{Installation: strings.Repeat("x", longestID+1)}); err == nil {
		t.Error("an installation that does not fit is accepted")
	}
}

// tail is a segment with whole records and one more, of which begin is the position.
func tail(t *testing.T, whole int, last string) (dir, file string, b []byte, begin int) {
	t.Helper()
	dir = t.TempDir()
	l := create(t, dir, 1, Options{FirstSize: 16 << 10})
	appendAll(t, l, many(whole)...)
	begin = int(l.at)
	appendAll(t, l, last)
	closeLog(t, l)
	file = filepath.Join(dir, name(1))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return dir, file, b, begin
}

// Of the last record, every subset of its sectors may be on the disk after a power failure, and the file may end
// anywhere in it. The records before it are read, and it is either whole or absent.
func TestTornTail(t *testing.T) {
	const whole, sector = 5, 512
	last := strings.Repeat("the last record ", 100)
	dir, file, b, begin := tail(t, whole, last)
	end := begin + span(len(last))
	check := func(what string, b []byte, wantLast bool) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := records(t, dir, 0)
		want := whole
		if wantLast {
			want++
		}
		if err != nil || len(got) != want {
			t.Errorf("%s: %d records, want %d, %v", what, len(got), want, err)
		}
	}
	first, sectors := begin/sector, (end-1)/sector-begin/sector+1
	for lost := range 1 << sectors {
		torn := bytes.Clone(b)
		for i := range sectors {
			if lost&(1<<i) != 0 {
				from, to := max(begin, (first+i)*sector), min(end, (first+i+1)*sector)
				clear(torn[from:to])
			}
		}
		check(fmt.Sprintf("sectors %b lost", lost), torn, lost == 0)
	}
	for size := begin; size < end; size += 3 {
		check(fmt.Sprintf("cut at %d", size), b[:size], size >= begin+recordSize+len(last))
	}
	for at := begin; at < begin+recordSize+len(last); at += 5 {
		flipped := bytes.Clone(b)
		flipped[at] ^= 1
		check(fmt.Sprintf("byte %d changed", at), flipped, false)
	}
}

// The control of TestTornTail: the same damage to a record that another one follows is refused, at each of its bytes.
func TestDamageInTheMiddle(t *testing.T) {
	dir, file, b, end := tail(t, 5, "the last record")
	for at := headerSize; at < end; at++ {
		if isFiller(b, at) {
			continue
		}
		damaged := bytes.Clone(b)
		damaged[at] ^= 1
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		var d *Damage
		if _, _, err := records(t, dir, 0); !errors.As(err, &d) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
}

// isFiller reports whether a byte is one of the zeros after a record.
func isFiller(b []byte, at int) bool {
	h, _ := parseHeader(b)
	for begin := headerSize; begin <= at; {
		_, content, ok := h.record(b, begin)
		if !ok {
			return false
		}
		if at >= begin+recordSize+len(content) && at < begin+span(len(content)) {
			return true
		}
		begin += span(len(content))
	}
	return false
}

// Content in the form of a record does not make a torn record damage: it lacks the salt.
func TestRecordInsideTornRecord(t *testing.T) {
	h := header{first: 1, salt: 42}
	fake := h.appendRecord(make([]byte, 600), 3, []byte("a caller wrote this"))
	dir, file, b, begin := tail(t, 1, string(fake))
	clear(b[begin : begin+recordSize])
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _, err := records(t, dir, 0); err != nil || len(got) != 1 {
		t.Errorf("%d records, %v", len(got), err)
	}
	real, err := parseHeader(b) // the control: with the salt it is damage
	if err != nil {
		t.Fatal(err)
	}
	copy(b[(begin+2048)&^7:], real.appendRecord(nil, 3, []byte("a record")))
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := records(t, dir, 0); err == nil {
		t.Error("a whole record after a damaged one is ignored")
	}
}

// Logs that are not what a Log left are refused, and the error names the file.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		after uint64
		spoil func(dir string) error
		want  string
	}{
		{"a segment in the middle is missing", 0, func(dir string) error {
			files, err := list(dir)
			return errors.Join(err, os.Remove(filepath.Join(dir, name(files[1]))))
		}, "follows"},
		{"the first segment is missing", 0, func(dir string) error { return os.Remove(filepath.Join(dir, name(1))) },
			"records 1 to"},
		{"no header", 0, func(dir string) error { return os.WriteFile(filepath.Join(dir, name(1)), nil, 0o600) },
			"does not begin like a segment"},
		{"another name", 0, func(dir string) error {
			return os.Rename(filepath.Join(dir, name(1)), filepath.Join(dir, name(0)))
		}, "its first record is number 1"},
		{"a name of another kind", 0, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "1.log"), nil, 0o600)
		}, "no segment has this name"},
		{"another installation", 0, func(dir string) error {
			return change(filepath.Join(dir, name(1)), func(h *header) { h.installation = "other" })
		}, "installation other"},
		{"a damaged header", 0, func(dir string) error { return flip(filepath.Join(dir, name(1)), 30) }, "checksum"},
		{"nothing", 0, func(string) error { return nil }, ""},
		{"applied segments are missing", 200, func(dir string) error { return os.Remove(filepath.Join(dir, name(1))) },
			""},
	} {
		dir := t.TempDir()
		l := create(t, dir, 1, Options{FirstSize: 8 << 10})
		appendAll(t, l, many(300)...)
		closeLog(t, l)
		if err := c.spoil(dir); err != nil {
			t.Fatal(c.name, err)
		}
		_, _, err := records(t, dir, c.after)
		var d *Damage
		refused := errors.As(err, &d) && strings.Contains(err.Error(), c.want)
		if c.want == "" && err != nil || c.want != "" && !refused {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A newer format is refused.
func TestNewerFormat(t *testing.T) {
	b := (&header{first: 1, installation: "inst"}).append(nil)
	b[16]++
	if _, err := parseHeader(b); err == nil {
		t.Error("accepted with a checksum that does not match")
	}
	h := header{first: 1, installation: "inst"}
	text := bytes.Replace(h.append(nil), []byte{version, 0, 0, 0}, []byte{version + 1, 0, 0, 0}, 1)
	resum(text)
	if _, err := parseHeader(text); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("got %v", err)
	}
}

func change(file string, how func(*header)) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	h, err := parseHeader(b)
	if err != nil {
		return err
	}
	how(&h)
	copy(b, h.append(nil))
	return os.WriteFile(file, b, 0o600)
}

func flip(file string, at int) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b[at] ^= 1
	return os.WriteFile(file, b, 0o600)
}

// After a failed sync nothing is appended any more; after a full disk the same record can be.
func TestErrors(t *testing.T) {
	var fail func(Op) error
	before := func(op Op) error {
		if fail == nil {
			return nil
		}
		return fail(op)
	}
	only := func(kind OpKind, err error) func(Op) error {
		return func(op Op) error {
			if op.Kind == kind {
				return err
			}
			return nil
		}
	}
	dir := t.TempDir()
	l := create(t, dir, 1, Options{FirstSize: 8 << 10, Before: before})
	fail = only(Put, syscall.ENOSPC)
	if _, err := l.Append(make([]byte, 10<<10)); !errors.Is(err, syscall.ENOSPC) || l.Lost() != nil {
		t.Fatalf("no space for a segment: %v, lost %v", err, l.Lost())
	}
	appendAll(t, l, "one")
	fail = only(Write, syscall.ENOSPC)
	if _, err := l.Append([]byte("x")); !errors.Is(err, syscall.ENOSPC) || l.Lost() != nil {
		t.Fatalf("no space for a record: %v, lost %v", err, l.Lost())
	}
	fail = nil
	appendAll(t, l, "two", strings.Repeat("x", 10<<10))
	for _, kind := range []OpKind{Sync, Named} {
		dir := t.TempDir()
		l := create(t, dir, 1, Options{FirstSize: 8 << 10, Before: before})
		appendAll(t, l, "one")
		fail = only(kind, syscall.EIO)
		_, err := l.Append(make([]byte, 10<<10))
		fail = nil
		_, again := l.Append([]byte("two"))
		if !errors.Is(err, syscall.EIO) || !errors.Is(again, syscall.EIO) || !errors.Is(l.Lost(), syscall.EIO) {
			t.Errorf("operation %c: %v, then %v", kind, err, again)
		}
		_ = l.Close()
	}
	closeLog(t, l)
	if got, _, err := records(t, dir, 0); err != nil || len(got) != 3 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// FuzzRead: a segment of any bytes is read without a panic, and what is read is a beginning of what was written.
func FuzzRead(f *testing.F) {
	h := header{first: 1, salt: 7, installation: "inst"}
	whole := h.append(nil)
	want := many(4)
	for i, text := range want {
		whole = h.appendRecord(whole, uint64(i+1), []byte(text))
	}
	f.Add(headerSize, []byte{0, 0, 0, 0})
	f.Add(headerSize+30, []byte{1})
	f.Add(0, []byte("stagepost"))
	f.Add(len(whole)-3, []byte{255, 255, 255, 255, 255})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, at int, bytes []byte) {
		b := append([]byte{}, whole...)
		if at >= 0 && at < len(b) {
			copy(b[at:], bytes)
		}
		if err := os.WriteFile(filepath.Join(dir, name(1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := records(t, dir, 0)
		if len(got) > len(want) || strings.Join(got, "|") != strings.Join(want[:len(got)], "|") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// resum writes the checksum of a header again.
func resum(b []byte) {
	binary.LittleEndian.PutUint32(b[sumAt:], crc32.Checksum(b[:sumAt], castagnoli))
}
