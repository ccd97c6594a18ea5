package history

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/job"
)

// Fault is a difference between an export and what was recorded.
type Fault struct {
	Object string `json:"object"`          // the id of a job, "audit log", "anchor 3", or the name of a file
	Entry  int64  `json:"entry,omitempty"` // number in the history of the job or in the audit log
	What   string `json:"what"`
}

// Stamped is the verified time stamp of an anchor.
type Stamped struct {
	Anchor    int64     `json:"anchor"`
	Time      time.Time `json:"time"`
	Authority string    `json:"authority"` // subject of the certificate of the signer
	Serial    string    `json:"serial"`
	Expires   time.Time `json:"expires"`
}

// Report is what [Verify] found.
type Report struct {
	Summary
	Stamps []Stamped `json:"stamps"` // in order; what is newer than the anchor of the last one has no time stamp yet
	Purged int       `json:"purged"` // jobs of the anchors that were purged by a person or by their retention time
	Count  int       `json:"count"`  // of all faults
	Faults []Fault   `json:"faults"` // the first ones

	// Of [VerifyCheckpoints]: how many checkpoints there are, the number of the first one that the histories do not
	// extend, and those that record a restored backup.
	Checkpoints int64    `json:"checkpoints,omitempty"`
	First       int64    `json:"first,omitempty"`
	Restored    []string `json:"restored,omitempty"`
}

// mostFaults is how many faults a report lists.
const mostFaults = 1000

func (r *Report) fault(object string, entry int64, format string, args ...any) {
	if r.Count++; len(r.Faults) < mostFaults {
		r.Faults = append(r.Faults, Fault{Object: object, Entry: entry, What: fmt.Sprintf(format, args...)})
	}
}

// verification is one call of Verify.
type verification struct {
	Report
	trusted *rfc3161.Verifier
	now     time.Time
	files   map[string]*zip.File
	anchors []*anchor
	marks   map[job.ID][]mark // in order of their anchors
	log     map[int64]mark    // of the audit log by the number of the entry
	covered []span            // the numbers of the entries that the anchors have
	seen    Summary           // what was counted
	purges  map[job.ID]bool   // by persons
}

// mark is what an anchor has of a history or of the audit log.
type mark struct {
	seq  int64
	hash job.Hash
	of   *anchor
}

// Verify checks an export completely. trusted has the roots of the time-stamp authorities; nil: time stamps are faults.
// What does not fit is in the report. The error is that the check could not be made.
func Verify(ctx context.Context, export io.ReaderAt, size int64, trusted *rfc3161.Verifier, now time.Time) (
	Report, error,
) {
	v := newVerification(now)
	v.trusted = trusted
	return v.run(ctx, export, size, func() error { v.readAnchors(); return nil })
}

func newVerification(now time.Time) *verification {
	return &verification{
		Report: Report{Stamps: []Stamped{}, Faults: []Fault{}}, now: now,
		files: map[string]*zip.File{}, marks: map[job.ID][]mark{}, log: map[int64]mark{}, purges: map[job.ID]bool{},
	}
}

// run checks an export. readMarks reads what the histories are compared with.
func (v *verification) run(ctx context.Context, export io.ReaderAt, size int64, readMarks func() error) (
	Report, error,
) {
	z, err := zip.NewReader(export, size)
	if err != nil {
		v.fault("export", 0, "the file is truncated, or it is no ZIP file: %v", err)
		return v.Report, nil
	}
	for _, f := range z.File {
		if v.files[f.Name] != nil {
			v.fault(f.Name, 0, "the file is there twice")
		}
		v.files[f.Name] = f
	}
	v.readSummary()
	if err := readMarks(); err != nil {
		return v.Report, err
	}
	v.readAudit(ctx)
	v.readHistories(ctx)
	v.findMissing()
	v.compareCounts()
	return v.Report, ctx.Err()
}

// open opens a file; nil and a fault if it is missing.
func (v *verification) open(name string) io.ReadCloser {
	f := v.files[name]
	if f == nil {
		v.fault(name, 0, "the file is missing")
		return nil
	}
	r, err := f.Open()
	if err != nil {
		v.fault(name, 0, "the file is damaged: %v", err)
		return nil
	}
	return r
}

func (v *verification) readSummary() {
	f := v.open(summaryName)
	if f == nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err == nil {
		err = strict(text, &v.Summary)
	}
	switch {
	case err != nil:
		v.fault(summaryName, 0, "the file is damaged: %v", err)
	case v.Version != 1:
		v.fault(summaryName, 0, "version %d of the format is not supported: use a later version of Stagepost",
			v.Version)
	}
}

// strict reads JSON that has no other field than a type.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// writtenNewer states why an entry cannot be checked. The server that made the export may be the older one, whose
// export lacks the fields.
const writtenNewer = "was written by a newer version of Stagepost than this one or the server that made the export: " +
	"make the export at a server of that version, and verify it with that version"

const fieldAdded = "has a field that its hash does not cover: it was added"

// mostJSON is the longest line of JSON in bytes.
const mostJSON = 4 << 20

// lines calls each with the lines of a file, until ctx ends.
func (v *verification) lines(ctx context.Context, name string, each func(text []byte) error) {
	f := v.open(name)
	if f == nil {
		return
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 64<<10), mostJSON)
	n := 0
	for s.Scan() && ctx.Err() == nil {
		n++
		if err := each(s.Bytes()); err != nil {
			v.fault(name, 0, "line %d is damaged: %v", n, err)
		}
	}
	if err := s.Err(); err != nil {
		v.fault(name, 0, "the file is damaged after line %d: %v", n, err)
	}
}

// readAudit checks the audit log: its chain, and the entries that anchors have.
func (v *verification) readAudit(ctx context.Context) {
	var seq int64
	var prev job.Hash
	const log = "audit log"
	v.lines(ctx, auditName, func(text []byte) error {
		var e job.Audit
		if err := strict(text, &e); err != nil {
			return err
		}
		v.seen.Audit++
		want := e
		want.Seal(e.Prev)
		switch {
		case e.Seq <= seq:
			v.fault(log, e.Seq, "the entry is there twice, or not in its position")
			return nil
		case e.Seq > seq+1:
			v.fault(log, seq+1, "entries %d to %d were removed", seq+1, e.Seq-1)
		case e.Newer && want.Hash == e.Hash:
			v.fault(log, e.Seq, "the entry (%s by %s) %s", e.Event, e.Actor, fieldAdded)
		case e.Newer:
			v.fault(log, e.Seq, "the entry (%s by %s) %s", e.Event, e.Actor, writtenNewer)
		case want.Hash != e.Hash:
			v.fault(log, e.Seq, "the entry (%s by %s) was changed", e.Event, e.Actor)
		case e.Prev != prev:
			v.fault(log, e.Seq, "the entry does not continue the one before: one of them was replaced")
		}
		if m, ok := v.log[e.Seq]; ok && m.hash != e.Hash {
			v.fault(log, e.Seq, "the entry, or one before it, was replaced after %s", m.of)
			v.missed(m.of)
		}
		if e.Event == job.Purge {
			v.purges[e.Job] = true
		}
		seq, prev = e.Seq, e.Hash
		return nil
	})
	last := mark{}
	for _, m := range v.log {
		if m.seq > seq {
			v.missed(m.of)
		}
		if m.seq > last.seq {
			last = m
		}
	}
	if last.seq > seq {
		v.fault(log, seq+1, "entries %d to %d were removed: %s has the last of them", seq+1, last.seq, last.of)
	}
}

// findMissing reports histories that anchors have and the export does not. A history may have been purged by a person,
// which the audit log has, or because its newest entry is older than the retention time of records.
func (v *verification) findMissing() {
	for _, id := range slices.Sorted(maps.Keys(v.marks)) {
		m := v.marks[id][len(v.marks[id])-1]
		if v.purges[id] || v.expired(m) {
			v.Purged++
			continue
		}
		for _, m := range v.marks[id] {
			v.missed(m.of)
		}
		v.fault(string(id), 0, "the job was removed: %s has %s of its history, and no person purged it", m.of,
			entries(m.seq))
	}
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// expired reports whether the retention time of records could have ended since the newest entry of a history. That one
// is newer than the anchor before the mark.
func (v *verification) expired(m mark) bool {
	at := slices.Index(v.anchors, m.of)
	since := time.Time{}
	if at > 0 {
		since = v.anchors[at-1].Made
	}
	return slices.ContainsFunc(v.anchors[at:], func(a *anchor) bool {
		return a.good && a.Keep > 0 && !since.Add(a.Keep).After(v.Made)
	})
}

func (v *verification) compareCounts() {
	for _, c := range []struct {
		what      string
		has, seen int64
	}{
		{"jobs", v.Jobs, v.seen.Jobs}, {"entries of histories", v.Entries, v.seen.Entries},
		{"entries of the audit log", v.Audit, v.seen.Audit}, {"anchors", v.Anchors, v.seen.Anchors},
	} {
		if c.has != c.seen {
			v.fault("export", 0, "%s lists %d %s, and there are %d", summaryName, c.has, c.what, c.seen)
		}
	}
	slices.SortStableFunc(v.Faults, func(a, b Fault) int { return cmp.Compare(a.rank(), b.rank()) })
}

// rank orders faults: those of the file and of anchors come first, because others follow from them.
func (f *Fault) rank() int {
	if f.Object == "export" {
		return 0
	}
	return 1
}
