package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestGoodExport is the control of the tests below: an export without changes is good.
func TestGoodExport(t *testing.T) {
	f := newFixture(t)
	f.days()
	r := f.verify(f.files())
	if r.Count != 0 {
		t.Fatalf("faults: %s", faults(&r))
	}
	if len(r.Stamps) != 3 || r.Jobs != 4 || r.Entries != 9 || r.Audit != 3 || r.Purged != 0 {
		t.Errorf("got %+v", r)
	}
	f.trusted = nil
	if r := f.verify(f.files()); r.Count != 1 || !strings.Contains(r.Faults[0].What, "--ca") {
		t.Errorf("without roots: %s", faults(&r))
	}
	f.trusted = newFixture(t).trusted
	if r := f.verify(f.files()); r.Count == 0 || !strings.Contains(faults(&r), "time stamp is not valid") {
		t.Errorf("with another root: %s", faults(&r))
	}
}

// rewrite changes the lines of histories.jsonl. f gets their values.
func rewrite(t *testing.T, files map[string]string, change func([]line) []line) {
	t.Helper()
	var all []line
	for text := range strings.Lines(files[historiesName]) {
		var l line
		must(t, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	var out bytes.Buffer
	for _, l := range change(all) {
		must(t, json.NewEncoder(&out).Encode(l))
	}
	files[historiesName] = out.String()
}

// at gives the index of an entry.
func at(t *testing.T, all []line, id job.ID, seq int64) int {
	t.Helper()
	i := slices.IndexFunc(all, func(l line) bool { return l.Entry != nil && l.Entry.Job == id && l.Entry.Seq == seq })
	if i < 0 {
		t.Fatalf("no entry %d of %s", seq, id)
	}
	return i
}

// reseal computes the hashes of a history anew, with the head of its record, as a forger does.
func reseal(all []line, id job.ID) []line {
	var prev job.Hash
	var head *jobLine
	for i := range all {
		if l := all[i].Job; l != nil && l.ID == id {
			head, l.Entries = l, 0
		}
		if e := all[i].Entry; e != nil && e.Job == id {
			e.Seq = head.Entries + 1
			e.Seal(prev)
			prev, head.Head, head.Entries = e.Hash, e.Hash, e.Seq
		}
	}
	return all
}

// TestTampering: each change of an export is found and named. The control is TestGoodExport.
func TestTampering(t *testing.T) {
	f := newFixture(t)
	f.days()
	files := f.files()
	const one, two, three = "anchors/00000001.txt", "anchors/00000002.txt", "anchors/00000003.txt"
	lines := func(change func(all []line) []line) func(map[string]string) {
		return func(files map[string]string) { rewrite(t, files, change) }
	}
	replace := func(name, old, text string) func(map[string]string) {
		return func(files map[string]string) {
			if !strings.Contains(files[name], old) {
				t.Fatalf("%s has no %q", name, old)
			}
			files[name] = strings.Replace(files[name], old, text, 1)
		}
	}
	for name, c := range map[string]struct {
		change func(map[string]string)
		want   string
	}{
		"changed entry": {lines(func(all []line) []line {
			all[at(t, all, "tst_1", 3)].Entry.Note = "forged"
			return all
		}), "tst_1 3: the entry (retry) was changed"},
		"entry of a newer version": {replace(historiesName, `{"job":"tst_1","seq":3,"event":"retry",`,
			`{"job":"tst_1","seq":3,"event":"again","moon":"full",`),
			"tst_1 3: the entry (again) was written by a newer version"},
		"entry of a newer version that an older server passed on": {lines(func(all []line) []line {
			e := all[at(t, all, "tst_1", 3)].Entry
			e.Note, e.Newer = "without a field", true
			return all
		}), "tst_1 3: the entry (retry) was written by a newer version"},
		"audit entry of a newer version": {replace(auditName, `"actor":"ann"`, `"actor":"bob","moon":"full"`),
			"audit log 1: the entry (hold by bob) was written by a newer version"},
		"changed and resealed": {lines(func(all []line) []line {
			all[at(t, all, "tst_1", 4)].Entry.Note = "forged"
			return reseal(all, "tst_1")
		}), "tst_1 5: an entry from 4 to 5 was replaced: they were recorded between anchor 1"},
		"early one changed and resealed": {lines(func(all []line) []line {
			all[at(t, all, "tst_1", 1)].Entry.Actor = "w2"
			return reseal(all, "tst_1")
		}), "tst_1 3: an entry up to 3 was replaced: they were recorded before anchor 1"},
		"removed entry": {lines(func(all []line) []line {
			i := at(t, all, "tst_1", 2)
			return slices.Delete(all, i, i+1)
		}), "tst_1 2: 1 entry was removed: from 2 to 2"},
		"removed and resealed": {lines(func(all []line) []line {
			i := at(t, all, "tst_1", 2)
			return reseal(slices.Delete(all, i, i+1), "tst_1")
		}), "tst_1 3: an entry up to 3 was replaced"},
		"removed end": {lines(func(all []line) []line {
			i := at(t, all, "tst_1", 5)
			return slices.Delete(all, i, i+1)
		}), "tst_1 5: 1 entry was removed at the end"},
		"removed end and resealed": {lines(func(all []line) []line {
			i := at(t, all, "tst_1", 5)
			return reseal(slices.Delete(all, i, i+1), "tst_1")
		}), "tst_1 5: 1 entry was removed at the end: anchor 2"},
		"moved entries": {lines(func(all []line) []line {
			i, k := at(t, all, "tst_1", 2), at(t, all, "tst_1", 3)
			all[i], all[k] = all[k], all[i]
			return all
		}), "tst_1 2: the entry was inserted or moved"},
		"inserted entry": {lines(func(all []line) []line {
			i := at(t, all, "tst_2", 1)
			extra := *all[i].Entry
			extra.Seq = 2
			return reseal(slices.Insert(all, i+1, line{Entry: &extra, Number: 5}), "tst_2")
		}), "tst_2 2: the entry was inserted: the anchors cover its number 5"},
		"inserted job": {lines(func(all []line) []line {
			extra := job.Event{Job: "tst_9", Seq: 1, Event: "create", To: "Waiting", By: lifecycle.Owner,
				At: f.now}
			return reseal(append(all, line{Job: &jobLine{ID: "tst_9"}}, line{Entry: &extra, Number: 2}), "tst_9")
		}), "tst_9 1: the entry was inserted"},
		"removed job": {lines(func(all []line) []line {
			return slices.DeleteFunc(all, func(l line) bool {
				return l.Job != nil && l.Job.ID == "tst_3" || l.Entry != nil && l.Entry.Job == "tst_3"
			})
		}), "tst_3 0: the job was removed: anchor 2"},
		"job twice": {lines(func(all []line) []line { return append(all, all...) }), "tst_1 0: the job is there twice"},
		"entry of another job": {lines(func(all []line) []line {
			all[at(t, all, "tst_2", 1)].Entry.Job = "tst_1"
			return all
		}), "tst_2 1: the entry is of the job tst_1"},
		"record": {lines(func(all []line) []line { all[0].Job.Head[0]++; return all }),
			"tst_1 5: the record has 5 entries that end in"},
		"unreadable line": {func(files map[string]string) { files[historiesName] += "{\n" }, "line 14 is damaged"},
		"unknown field": {replace(historiesName, `"epoch"`, `"extra":1,"epoch"`),
			"tst_1 1: the entry (create) has a field that its hash does not cover: it was added"},
		"audit changed": {replace(auditName, "ann", "bob"), "audit log 1: the entry (hold by bob) was changed"},
		"audit removed": {func(files map[string]string) {
			files[auditName] = strings.SplitAfterN(files[auditName], "\n", 2)[1]
		}, "audit log 1: entries 1 to 1 were removed"},
		"audit end removed": {func(files map[string]string) {
			all := strings.SplitAfter(files[auditName], "\n")
			files[auditName] = strings.Join(all[:2], "")
		}, "audit log 3: entries 3 to 3 were removed: anchor 3"},
		"audit resealed": {func(files map[string]string) {
			h := &histories{}
			h.enter("hold", "tst_1", f.now)
			h.enter("release", "tst_1", f.now)
			h.enter("forged", "tst_3", f.now)
			var out bytes.Buffer
			for _, a := range h.log {
				must(t, json.NewEncoder(&out).Encode(a))
			}
			files[auditName] = out.String()
		}, "audit log 2: the entry, or one before it, was replaced after anchor 1"},
		"anchor changed": {replace(one, "number: 1", "number: 1 "), "anchor 1 0: it was changed"},
		"anchor changed well": {replace(one, "keep: unlimited", "keep: 1h0m0s"),
			"anchor 1 0: it, or anchor 2"},
		"newest anchor changed": {replace(three, "keep: unlimited", "keep: 1h0m0s"),
			"anchor 3 0: it was changed, or its time stamp was replaced"},
		"anchor removed": {func(files map[string]string) {
			for name := range files {
				if strings.HasPrefix(name, two) {
					delete(files, name)
				}
			}
		}, "anchors 0: anchors 2 to 2 were removed"},
		"newest anchor removed": {func(files map[string]string) { delete(files, three) },
			"export.json lists 3 anchors, and there are 2"},
		"time stamp removed": {func(files map[string]string) { delete(files, one+".tsr") },
			"anchor 1 0: its time stamp was removed: anchor 2"},
		"time stamps swapped": {func(files map[string]string) {
			for _, ending := range stampEndings {
				files[one+ending], files[two+ending] = files[two+ending], files[one+ending]
			}
		}, "anchor 1 0: it was changed, or its time stamp was replaced"},
		"newest time stamp of another": {func(files map[string]string) {
			for _, ending := range stampEndings {
				files[three+ending] = files[two+ending]
			}
		}, "anchor 3 0: it was changed, or its time stamp was replaced"},
		"request removed": {func(files map[string]string) { delete(files, three+".tsq") },
			"anchor 3 0: its time stamp is not valid"},
		"all time stamps removed": {func(files map[string]string) {
			for name := range files {
				if strings.HasSuffix(name, ".tsr") {
					delete(files, name)
				}
			}
		}, "anchors 0: there is no time stamp"},
		"histories removed": {func(files map[string]string) { delete(files, historiesName) },
			"histories.jsonl 0: the file is missing"},
		"audit log file removed": {func(files map[string]string) { delete(files, auditName) }, "audit.jsonl 0: "},
		"summary removed":        {func(files map[string]string) { delete(files, summaryName) }, "export.json 0: "},
		"other installation":     {replace(summaryName, `"here"`, `"there"`), "it is of another installation"},
		"later version":          {replace(summaryName, `"version":1`, `"version":2`), "use a later version"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := map[string]string{}
			for name, text := range files {
				changed[name] = text
			}
			c.change(changed)
			if r := f.verify(changed); !strings.Contains(faults(&r), c.want) {
				t.Errorf("got %q, not %q", faults(&r), c.want)
			}
		})
	}
}

// TestOneChangeIsOneFault: a changed entry does not make the others of its history faults.
func TestOneChangeIsOneFault(t *testing.T) {
	f := newFixture(t)
	f.days()
	files := f.files()
	rewrite(t, files, func(all []line) []line {
		all[at(t, all, "tst_1", 2)].Entry.Note = "forged"
		return all
	})
	if r := f.verify(files); r.Count != 1 {
		t.Errorf("got %s", faults(&r))
	}
}

// TestTruncatedFile cuts the file at each of 200 lengths, and flips bytes of its content.
func TestTruncatedFile(t *testing.T) {
	f := newFixture(t)
	f.days()
	text := packed(t, f.files())
	for i := range 200 {
		cut := text[:len(text)*i/200]
		r, err := Verify(t.Context(), bytes.NewReader(cut), int64(len(cut)), f.trusted, f.now)
		if err != nil || r.Count == 0 {
			t.Fatalf("%d bytes: %v, %d faults", len(cut), err, r.Count)
		}
	}
}

// TestPurges: a history may be missing where a person purged it, or where its retention time has ended.
func TestPurges(t *testing.T) {
	for name, c := range map[string]struct {
		keep   time.Duration
		before func(f *fixture)
		want   int
	}{
		"removed":               {before: func(*fixture) {}, want: 1},
		"by a person":           {before: func(f *fixture) { f.from.enter("purge", "tst_2", f.now) }},
		"old":                   {keep: 36 * time.Hour, before: func(*fixture) {}},
		"before the first":      {keep: 100 * 24 * time.Hour, before: func(*fixture) {}}, // its age is unknown
		"of another than purge": {before: func(f *fixture) { f.from.enter("purge", "tst_1", f.now) }, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.keep = c.keep
			f.days()
			c.before(f)
			f.from.purge("tst_2")
			r := f.verify(f.files())
			if r.Count != c.want || r.Purged != 1-c.want {
				t.Errorf("%d faults, not %d: %s", r.Count, c.want, faults(&r))
			}
		})
	}
	f := newFixture(t)
	f.keep = 100 * 24 * time.Hour
	f.days()
	f.from.purge("tst_3") // its entries are newer than anchor 1, so that the retention time has not ended
	if r := f.verify(f.files()); r.Count != 1 || r.Purged != 0 {
		t.Errorf("%d faults: %s", r.Count, faults(&r))
	}
}

// TestOpenSSLVerifiesExport: public tools check the time stamps and the chain of anchors.
func TestOpenSSLVerifiesExport(t *testing.T) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("openssl is needed: ", err)
	}
	f := newFixture(t)
	f.days()
	dir := t.TempDir()
	for name, text := range f.files() {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check := func(n int) error {
		name := filepath.Join(dir, anchorsName, anchorName(int64(n)))
		out, err := exec.CommandContext(t.Context(), program, "ts", "-verify", "-data", name, "-in", name+".tsr",
			"-CAfile", f.root).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for n := 1; n <= 3; n++ {
		must(t, check(n))
	}
	name := filepath.Join(dir, anchorsName, anchorName(3))
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, append(text, '\n'), 0o600))
	if check(3) == nil {
		t.Error("control: openssl accepts a changed anchor")
	}
}

// TestExpiredCertificates: the newest time stamp must be valid, and each one until the next.
func TestExpiredCertificates(t *testing.T) {
	f := newFixture(t)
	f.days()
	files := f.files()
	f.now = f.now.Add(100 * 365 * 24 * time.Hour)
	if r := f.verify(files); !strings.Contains(faults(&r), "expired on") {
		t.Errorf("got %s", faults(&r))
	}
}

func FuzzAnchor(f *testing.F) {
	a := Anchor{Number: 3, Installation: "here", Series: "s", Made: time.Unix(1, 2), Previous: none, Stamp: none,
		Through: 4}
	var text bytes.Buffer
	_ = a.write(&text)
	hash := job.Hash{1}
	fmt.Fprintf(&text, "tst_1 4 %s\nend: 1\n", hash)
	f.Add(text.String())
	f.Add(title)
	f.Fuzz(func(t *testing.T, text string) {
		var all []newest
		a, err := readAnchor(strings.NewReader(text), func(n newest) error { all = append(all, n); return nil })
		if err != nil {
			return
		}
		var again bytes.Buffer
		must(t, a.write(&again))
		for _, n := range all {
			fmt.Fprintf(&again, "%s %d %s\n", n.job, n.seq, n.hash)
		}
		fmt.Fprintf(&again, "end: %d\n", len(all))
		b, err := readAnchor(&again, func(newest) error { return nil })
		if err != nil || a.Number != b.Number || a.Through != b.Through || !a.Made.Equal(b.Made) {
			t.Errorf("written anew: %v: %+v, not %+v", err, b, a)
		}
	})
}
