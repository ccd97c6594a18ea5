package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
)

// signed has histories and a signer of checkpoints.
type signed struct {
	*fixture
	file, key string
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, dir: filepath.Join(dir, "anchors"), now: time.Now(),
		from: &histories{past: map[job.ID][]entry{}, series: "one"}}
	return &signed{f, filepath.Join(dir, "checkpoints"), filepath.Join(dir, "signing-key")}
}

func (s *signed) checkpoints() *Checkpoints {
	return NewCheckpoints(CheckpointOptions{File: s.file, Key: s.key, Source: s.from, Installation: "here",
		Keep: s.keep, Now: func() time.Time { return s.now }})
}

// round signs a checkpoint by another process.
func (s *signed) round() {
	s.t.Helper()
	must(s.t, s.checkpoints().Round(s.t.Context()))
}

func (s *signed) public() string {
	s.t.Helper()
	k, err := s.checkpoints().Key()
	must(s.t, err)
	return k
}

func (s *signed) text() string {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	must(s.t, err)
	return string(text)
}

// hours makes three checkpoints, as days makes anchors.
func (s *signed) hours() {
	s.t.Helper()
	s.from.grow("tst_1", "create", s.now)
	s.from.grow("tst_2", "create", s.now)
	s.from.grow("tst_1", "begin", s.now)
	s.from.enter("hold", "tst_1", s.now)
	s.round()
	s.from.grow("tst_1", "fail", s.now)
	s.from.grow("tst_3", "create", s.now)
	s.from.enter("release", "tst_1", s.now)
	s.round()
	s.from.grow("tst_1", "end", s.now)
	s.from.enter("cancel", "tst_3", s.now)
	s.round()
}

// against verifies files as an export against a text of checkpoints.
func (s *signed) against(files map[string]string, text string, keys ...string) Report {
	s.t.Helper()
	export := packed(s.t, files)
	r, err := VerifyCheckpoints(s.t.Context(), bytes.NewReader(export), int64(len(export)), strings.NewReader(text),
		keys, s.now)
	must(s.t, err)
	return r
}

// good checks that the present histories extend the checkpoints.
func (s *signed) good(text string, keys ...string) Report {
	s.t.Helper()
	r := s.against(s.files(), text, keys...)
	if r.Count != 0 || r.First != 0 {
		s.t.Errorf("first: %d, faults:\n%s", r.First, faults(&r))
	}
	return r
}

// bad checks what is found, and the number of the first checkpoint that the histories do not extend; zero: none.
func (s *signed) bad(r Report, first int64, want string) {
	s.t.Helper()
	if r.Count == 0 || !strings.Contains(faults(&r), want) || r.First != first {
		s.t.Errorf("first: %d, want %d; faults, want %q:\n%s", r.First, first, want, faults(&r))
	}
}

// reforge computes the audit log anew from an entry on, as a person does who can write to the database.
func (s *signed) reforge(seq int64, note string) {
	log := slices.Clone(s.from.log)
	log[seq-1].Note = note
	prev := log[seq-1].Prev
	for i := int(seq) - 1; i < len(log); i++ {
		log[i].Seal(prev)
		prev = log[i].Hash
	}
	s.from.log = log
}

// TestCheckpoints: the histories extend the checkpoints, and nothing is signed again when nothing has grown.
func TestCheckpoints(t *testing.T) {
	s := newSigned(t)
	s.hours()
	text := s.text()
	s.round()
	if s.text() != text {
		t.Error("a checkpoint was signed though nothing has grown")
	}
	if r := s.good(text, s.public()); r.Checkpoints != 3 {
		t.Errorf("got %d checkpoints", r.Checkpoints)
	}
	s.from.grow("tst_4", "create", s.now)
	s.good(text, s.public())
	s.round()
	s.good(s.text(), s.public())
	info, err := os.Stat(s.key)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %#o", info.Mode().Perm())
	}
}

// TestRewrittenTail: a tail that was computed anew is found by the checkpoints, with the first one that has it. The
// control is the check without checkpoints, which finds nothing.
func TestRewrittenTail(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(s *signed, files map[string]string)
		first int64
		want  string
	}{
		"audit log": {func(s *signed, files map[string]string) {
			s.reforge(2, "forged")
			files[auditName] = s.files()[auditName]
		}, 2, "audit log 2: the entry, or one before it, was replaced after checkpoint 2"},
		"tail of the audit log": {func(s *signed, files map[string]string) {
			s.from.log = s.from.log[:2]
			files[auditName] = s.files()[auditName]
			files[summaryName] = s.files()[summaryName]
		}, 3, "audit log 3: entries 3 to 3 were removed: checkpoint 3"},
		"history": {func(s *signed, files map[string]string) {
			rewrite(s.t, files, func(all []line) []line {
				all[at(s.t, all, "tst_1", 3)].Entry.Note = "forged"
				return reseal(all, "tst_1")
			})
		}, 2, "tst_1 3: an entry from 3 to 3 was replaced: they were recorded between checkpoint 1"},
		"job": {func(s *signed, files map[string]string) {
			s.from.purge("tst_2")
			for _, name := range []string{historiesName, summaryName} {
				files[name] = s.files()[name]
			}
		}, 1, "tst_2 0: the job was removed: checkpoint 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigned(t)
			s.hours()
			files := s.files()
			c.forge(s, files)
			s.bad(s.against(files, s.text(), s.public()), c.first, c.want)
			if r := s.verify(files); r.Count != 0 {
				t.Errorf("control: it is found without checkpoints: %s", faults(&r))
			}
		})
	}
}

// TestSignerRefuses: no checkpoint is signed after one that the audit log does not extend, until a restored backup is
// recorded.
func TestSignerRefuses(t *testing.T) {
	s := newSigned(t)
	s.hours()
	c := s.checkpoints()
	s.reforge(3, "forged")
	if err := c.Round(t.Context()); err == nil || !strings.Contains(err.Error(), "do not extend checkpoint 3") {
		t.Errorf("got %v", err)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "checkpoint restored") {
		t.Errorf("warnings: %q", w)
	}
	must(t, c.Restored(t.Context(), 3, "ann", "why"))
	must(t, c.Round(t.Context()))
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("control: %q", w)
	}
}

// TestChangedCheckpoints: each change of the file is found.
func TestChangedCheckpoints(t *testing.T) {
	s := newSigned(t)
	s.hours()
	text := s.text()
	parts := strings.Split(text, headsTitle)[1:]
	for i := range parts {
		parts[i] = headsTitle + parts[i]
	}
	other := newSigned(t)
	other.hours()
	for name, c := range map[string]struct{ text, want string }{
		"head":      {strings.Replace(text, "tst_1 2", "tst_1 1", 1), "checkpoint 1 0: it was changed: the heads"},
		"text":      {strings.Replace(text, "\naudit: 3", "\naudit: 2", 1), "checkpoint 3 0: its signature is not"},
		"removed":   {parts[0] + parts[2], "checkpoints 0: checkpoints 2 to 2 were removed"},
		"beginning": {parts[1] + parts[2], "checkpoints 0: checkpoints 1 to 1 were removed"},
		"twice":     {parts[0] + parts[1] + parts[1] + parts[2], "checkpoint 2 0: it does not follow checkpoint 2:"},
		"empty":     {"", "checkpoints 0: the file has no checkpoint"},
		"other key": {other.text(), "checkpoint 1 0: it is signed by a key that is not trusted, stagepost-here+"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.text == text {
				t.Fatal("it is not changed")
			}
			s.t = t
			s.bad(s.against(s.files(), c.text, s.public()), 0, c.want)
		})
	}
	s.t = t
	s.bad(s.against(s.files(), text, other.public()), 0, "checkpoint 1 0: it is signed by a key that is not trusted")
	var e *job.Error
	_, err := VerifyCheckpoints(t.Context(), bytes.NewReader(nil), 0, strings.NewReader(text), []string{"x"}, s.now)
	if !errors.As(err, &e) || e.Kind != job.Invalid {
		t.Errorf("a key that is none: %v", err)
	}
}

// TestTornCheckpoint: a record that a crash ended at any byte is skipped, and the next checkpoint follows it.
func TestTornCheckpoint(t *testing.T) {
	s := newSigned(t)
	s.hours()
	whole := s.text()
	second := strings.LastIndex(whole, headsTitle)
	s.from.grow("tst_5", "create", s.now)
	for n := second; n < len(whole); n++ {
		if n%11 != 0 && whole[n-1] != '\n' && whole[n] != '\n' { // the ends of lines are all tried
			continue
		}
		must(t, os.WriteFile(s.file, []byte(whole[:n]), 0o600))
		s.round()
		text := s.text()
		if !strings.HasPrefix(text, whole[:n]) {
			t.Fatalf("cut at %d: the file was not appended to", n)
		}
		if r := s.good(text, s.public()); r.Checkpoints != 3 {
			t.Fatalf("cut at %d: %d checkpoints", n, r.Checkpoints)
		}
	}
	must(t, os.WriteFile(s.file, append([]byte(whole[:second+40]), make([]byte, 5000)...), 0o600))
	s.round()
	s.good(s.text(), s.public())
}

var errRead = errors.New("read")

// failing are histories whose heads cannot all be read.
type failing struct{ *histories }

func (f *failing) Newest(ctx context.Context, after, through int64, yield func(job.ID, int64, job.Hash) error) error {
	for range 1000 {
		if err := yield("tst_1", 1, job.Hash{}); err != nil {
			return err
		}
	}
	return errRead
}

// TestFailedAppend: what a failed append has written is removed, and the next one succeeds.
func TestFailedAppend(t *testing.T) {
	s := newSigned(t)
	s.hours()
	c, whole := s.checkpoints(), s.text()
	s.from.grow("tst_5", "create", s.now)
	c.o.Source = &failing{s.from}
	if err := c.Round(t.Context()); !errors.Is(err, errRead) || len(c.Warnings()) != 1 {
		t.Errorf("got %v, %v", err, c.Warnings())
	}
	if s.text() != whole {
		t.Errorf("left: %q", strings.TrimPrefix(s.text(), whole))
	}
	c.o.Source = s.from
	must(t, c.Round(t.Context()))
	s.good(s.text(), s.public())
}

// TestCheckpointState: the time until which checkpoints have everything advances with each round that succeeds, also if
// there is nothing to sign, and stays when one fails, which is counted. A restarted server begins with the time of the
// file, and one that does not lead has no time.
func TestCheckpointState(t *testing.T) {
	s := newSigned(t)
	c := s.checkpoints()
	state := func(covered time.Time, failures int64) {
		t.Helper()
		got, leads := c.State()
		if !got.Covered.Equal(covered) || got.Failures != failures || !leads || c.Every() != time.Hour {
			t.Errorf("got %+v, leads %t", got, leads)
		}
	}
	state(time.Time{}, 0)
	s.from.grow("tst_1", "create", s.now)
	must(t, c.Round(t.Context()))
	first := s.now
	state(first, 0)
	s.now = s.now.Add(time.Hour)
	must(t, c.Round(t.Context())) // nothing has grown
	state(s.now, 0)
	idle := s.now
	s.now = s.now.Add(time.Hour)
	s.from.grow("tst_1", "begin", s.now)
	must(t, os.Rename(s.key, s.key+".away"))
	for n := range int64(2) {
		if c.Round(t.Context()) == nil {
			t.Error("control: signed without a key")
		}
		state(idle, n+1)
	}
	must(t, os.Rename(s.key+".away", s.key))
	must(t, c.Round(t.Context()))
	state(s.now, 2)
	last, err := c.Last()
	must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c = s.checkpoints()
	c.Run(ended) // as at a start, before the first round
	state(last.Made, 0)
	c.o.Leads = func() bool { return false }
	if _, leads := c.State(); leads {
		t.Error("it leads")
	}
}

// TestShortenedFile: a file that lost checkpoints while the server ran is not continued.
func TestShortenedFile(t *testing.T) {
	s := newSigned(t)
	s.hours()
	c := s.checkpoints()
	must(t, c.Round(t.Context()))
	must(t, os.Remove(s.file))
	s.from.grow("tst_5", "create", s.now)
	if err := c.Round(t.Context()); err == nil || !strings.Contains(err.Error(), "shortened or replaced") {
		t.Errorf("got %v", err)
	}
}

// forged is a checkpoint after the last one that the present key signs, whichever it is.
func (s *signed) forged() string {
	s.t.Helper()
	c, before := s.checkpoints(), s.text()
	f, err := c.open()
	must(s.t, err)
	size, err := c.catchUp(f)
	must(s.t, err)
	k, err := readKey(s.key)
	must(s.t, err)
	next, err := c.next(s.t.Context(), change{})
	must(s.t, err)
	must(s.t, c.append(s.t.Context(), f, size, next, []*signingKey{k}))
	must(s.t, f.Close())
	return strings.TrimPrefix(s.text(), before)
}

// TestRotation: an old key signs the new one, so that either public key verifies the whole file. What the old key signs
// afterwards is not accepted.
func TestRotation(t *testing.T) {
	s := newSigned(t)
	s.hours()
	old := s.public()
	private, err := os.ReadFile(s.key)
	must(t, err)
	must(t, s.checkpoints().Rotate(t.Context()))
	rotated := s.text()
	s.from.grow("tst_5", "create", s.now)
	s.round()
	if s.public() == old {
		t.Fatal("the key is the same")
	}
	for _, key := range []string{old, s.public()} {
		if r := s.good(s.text(), key); r.Checkpoints != 5 {
			t.Errorf("got %d checkpoints", r.Checkpoints)
		}
	}
	whole, key := s.text(), s.public()
	must(t, os.WriteFile(s.key, private, 0o600))
	s.from.grow("tst_6", "create", s.now)
	for _, text := range []string{rotated, whole} {
		must(t, os.WriteFile(s.file, []byte(text), 0o600))
		if err := s.checkpoints().Round(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "copy that key back") {
			t.Errorf("the old key signs: %v", err)
		}
	}
	forged := whole + s.forged()
	for _, key := range []string{old, key} {
		s.bad(s.against(s.files(), forged, key), 0, "checkpoint 6 0: it is signed by a key that is not trusted")
	}
}

// TestCrashInRotation: a rotation that a crash ends between its checkpoint and the new key is finished by the next
// round, also if it replaces a lost key.
func TestCrashInRotation(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := newSigned(t)
		s.hours()
		private, err := os.ReadFile(s.key)
		must(t, err)
		if lost {
			must(t, os.Remove(s.key))
		}
		must(t, s.checkpoints().Rotate(t.Context()))
		rotated := s.public()
		must(t, os.Rename(s.key, s.key+".next"))
		if !lost {
			must(t, os.WriteFile(s.key, private, 0o600))
		}
		s.from.grow("tst_5", "create", s.now)
		s.round()
		s.good(s.text(), s.public())
		if s.public() != rotated {
			t.Errorf("lost %t: the key is not that of the rotation", lost)
		}
	}
}

// TestLostKey: no checkpoint is signed without the key, and none with another one. A rotation makes a new one, whose
// public key verifiers have to get.
func TestLostKey(t *testing.T) {
	s := newSigned(t)
	s.hours()
	old := s.public()
	must(t, os.Remove(s.key))
	s.from.grow("tst_5", "create", s.now)
	if err := s.checkpoints().Round(t.Context()); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("got %v", err)
	}
	must(t, s.checkpoints().Rotate(t.Context()))
	s.good(s.text(), old, s.public())
	s.good(s.text(), s.public())
	s.bad(s.against(s.files(), s.text(), old), 0, "checkpoint 4 0: it is signed by a key that is not trusted")
	must(t, os.Chmod(s.key, 0o644))
	if err := s.checkpoints().Round(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
}

// TestRestoredBackup: a restored backup is found by checkpoints that are newer than it, unless the restore is recorded.
// A change of what the backup has is found then, too.
func TestRestoredBackup(t *testing.T) {
	s := newSigned(t)
	s.hours()
	backup := *s.from
	backup.past = map[job.ID][]entry{"tst_1": slices.Clip(s.from.past["tst_1"][:2]), "tst_2": s.from.past["tst_2"]}
	backup.jobs, backup.log, backup.last = []job.ID{"tst_1", "tst_2"}, slices.Clip(s.from.log[:1]), 3
	saved, _, _ := strings.Cut(s.text(), headsTitle+"2")
	copied := s.text()

	for name, same := range map[string]bool{"other series": false, "same series": true} {
		restored := backup
		restored.past = map[job.ID][]entry{"tst_1": backup.past["tst_1"], "tst_2": backup.past["tst_2"]}
		if s.from = &restored; !same {
			restored.series = "two"
		}
		must(t, os.WriteFile(s.file, []byte(saved), 0o600))
		s.good(saved, s.public())
		s.bad(s.against(s.files(), copied, s.public()), 2, "audit log 2: entries 2 to 3 were removed")

		c := s.checkpoints()
		if err := c.Adopt(strings.NewReader("other" + copied)); err == nil || s.text() != saved {
			t.Errorf("%s: another file is adopted: %v", name, err)
		}
		must(t, c.Adopt(strings.NewReader(copied)))
		s.from.enter("checkpoint-restored", "", s.now)
		s.from.grow("tst_1", "other", s.now) // has the number of an entry that was lost
		must(t, c.Restored(t.Context(), 2, "ann", "the disk\nwas lost"))
		s.from.grow("tst_1", "again", s.now)
		s.good(s.text(), s.public()) // its number was that of an entry that was lost
		s.from.grow("tst_9", "create", s.now)
		s.round()
		text := s.text()
		if r := s.good(text, s.public()); len(r.Restored) != 1 || !strings.Contains(r.Restored[0],
			`from 2 on are void: "the disk\nwas lost" by "ann"`) || r.Checkpoints != 5 {
			t.Errorf("%s: %q of %d checkpoints", name, r.Restored, r.Checkpoints)
		}
		s.reforge(1, "forged")
		s.bad(s.against(s.files(), text, s.public()), 1, "audit log 1: the entry, or one before it")
	}
}

// TestSeveralSigners: processes that sign in one file at once continue it in turn, and one that does not lead signs
// nothing.
func TestSeveralSigners(t *testing.T) {
	s := newSigned(t)
	s.from.grow("tst_1", "create", s.now)
	one, two := s.checkpoints(), s.checkpoints()
	var leads atomic.Bool
	two.o.Leads, two.o.Every = leads.Load, time.Nanosecond
	for range 3 {
		must(t, one.Round(t.Context()))
		s.from.grow("tst_1", "x", s.now)
		must(t, two.Round(t.Context()))
		s.from.enter("x", "", s.now)
	}
	if r := s.good(s.text(), s.public()); r.Checkpoints != 6 {
		t.Errorf("got %d checkpoints", r.Checkpoints)
	}
	f, err := one.open()
	must(t, err)
	must(t, two.Round(t.Context())) // the other one has the lock
	must(t, f.Close())
	if r := s.good(s.text(), s.public()); r.Checkpoints != 6 {
		t.Errorf("got %d checkpoints", r.Checkpoints)
	}
}

// TestPurged: a purge by a person and the retention time of records are no faults.
func TestPurgedAfterCheckpoint(t *testing.T) {
	s := newSigned(t)
	s.keep = time.Hour
	s.hours()
	s.from.purge("tst_3")
	s.bad(s.against(s.files(), s.text(), s.public()), 2, "tst_3 0: the job was removed")
	s.from.enter(string(job.Purge), "tst_3", s.now)
	s.good(s.text(), s.public())
}

// TestOpenSSLVerifiesCheckpoint: public tools check the signature.
func TestOpenSSLVerifiesCheckpoint(t *testing.T) {
	s := newSigned(t)
	s.hours()
	var last *record
	_, err := readRecords(strings.NewReader(s.text()), false, func(r *record) error { last = r; return nil })
	must(t, err)
	text, signature, _ := strings.Cut(string(last.note), "\n\n")
	_, encoded, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(signature), "— "), " ")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	must(t, err)
	key, err := base64.StdEncoding.DecodeString(strings.SplitN(s.public(), "+", 3)[2])
	must(t, err)
	dir := t.TempDir()
	// RFC 8410: the head of an Ed25519 public key in DER
	der := append([]byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}, key[1:]...)
	for name, content := range map[string][]byte{"key": der, "text": []byte(text + "\n"), "signature": raw[4:],
		"other": []byte(text)} {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	check := func(name string) ([]byte, error) {
		cmd := exec.Command("openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "key", "-keyform", "DER",
			"-in", name, "-sigfile", "signature")
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if out, err := check("text"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := check("other"); err == nil {
		t.Error("control: another text is accepted")
	}
}

// FuzzCheckpoints: no file makes the reader fail, and what it reads is what was written.
func FuzzCheckpoints(f *testing.F) {
	c := Checkpoint{Anchor: Anchor{Number: 3, Installation: "here", Series: "s", Made: time.Unix(1, 2).UTC(),
		Previous: none, Stamp: none, Audit: 1, AuditHash: sha256.Sum256(nil)}, HeadsSum: strings.Repeat("0", 64)}
	f.Add(headsTitle + "3\n\n" + c.text() + "\n— x y\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		end, err := readRecords(strings.NewReader(text), true, func(r *record) error {
			if r.fault == nil && !strings.HasPrefix(string(r.note), r.text()) && len(r.heads) != int(r.Heads) {
				t.Errorf("%+v of %q", r, r.note)
			}
			return nil
		})
		if err != nil || end > int64(len(text)) {
			t.Errorf("%d, %v", end, err)
		}
	})
}
