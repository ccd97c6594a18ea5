package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/stagepost/stagepost/job"
)

// VerifyCheckpoints checks that the histories and the audit log of an export extend each checkpoint of a file, as
// [Verify] does for the anchors of the export. The public keys are trusted for the checkpoints that they signed, those
// before, and those of the keys that they name as successors. An error of kind Invalid is about keys.
func VerifyCheckpoints(
	ctx context.Context, export io.ReaderAt, size int64, checkpoints io.Reader, keys []string, now time.Time,
) (Report, error) {
	known, err := parseKeys(keys)
	if err != nil {
		return Report{}, &job.Error{Op: "verify", Kind: job.Invalid, Err: err}
	}
	v := newVerification(now)
	return v.run(ctx, export, size, func() error { return v.readCheckpoints(checkpoints, known) })
}

// readCheckpoints checks the checkpoints, and reads the marks of those that are as they were signed.
func (v *verification) readCheckpoints(r io.Reader, known verifiers) error {
	v.seen.Anchors = v.Anchors // those of the export are not checked
	var all []*record
	if _, err := readRecords(r, true, func(r *record) error { all = append(all, r); return nil }); err != nil {
		return err
	}
	v.Checkpoints = int64(len(all))
	if len(all) == 0 {
		v.fault("checkpoints", 0, "the file has no checkpoint")
	}
	signed := v.checkSignatures(all, known)
	next := int64(1)
	for i, c := range all {
		a := &anchor{Anchor: c.Anchor, checkpoint: true, restored: c.Restored != ""}
		a.good = signed[i] && c.fault == nil
		v.anchors = append(v.anchors, a)
		switch {
		case c.fault != nil:
			v.fault(a.object(), 0, "it was changed: %v", c.fault)
		case !signed[i]: // is reported
		case c.Installation != v.Installation:
			v.bad(a, "it is of another installation, %s", c.Installation)
		case c.Number > next:
			v.fault("checkpoints", 0, "checkpoints %d to %d were removed or damaged", next, c.Number-1)
		case c.Number < next || i > 0 && signed[i-1] && c.Previous != all[i-1].sum():
			v.fault(a.object(), 0, "it does not follow checkpoint %d: some were removed or inserted", next-1)
		}
		if next = max(next, c.Number) + 1; a.good {
			v.mark(a, c)
		}
	}
	v.cover()
	return nil
}

// checkSignatures reports which checkpoints were signed by a trusted key. One that names its successor makes that the
// key of those after it. Those before a signed one are confirmed by the chain of digests.
func (v *verification) checkSignatures(all []*record, known verifiers) []bool {
	signed, wrong := make([]bool, len(all)), make([]error, len(all))
	for i, c := range all {
		wrong[i] = c.signedBy(known)
		if signed[i] = wrong[i] == nil; !signed[i] || c.Key == "" {
			continue
		}
		next, err := parseKeys([]string{c.Key})
		if err == nil {
			err = c.signedBy(next)
		}
		if err != nil {
			v.fault(c.object(), 0, "the key that it names has not signed it: %v", err)
			continue
		}
		known = next
	}
	for i, c := range slices.Backward(all) {
		signed[i] = signed[i] || i+1 < len(all) && signed[i+1] && all[i+1].Previous == c.sum()
	}
	for i, c := range all {
		switch {
		case signed[i] || c.fault != nil:
		case errors.As(wrong[i], new(*note.UnverifiedNoteError)):
			v.fault(c.object(), 0, "it is signed by a key that is not trusted, %s: if that is a key of the server, "+
				"name its public key too (--key)", c.signers())
		default:
			v.fault(c.object(), 0, "its signature is not valid: %v", wrong[i])
		}
	}
	return signed
}

// mark adds what a checkpoint has. After a restored backup, what some checkpoints before have is void.
func (v *verification) mark(a *anchor, c *record) {
	if a.restored {
		v.Restored = append(v.Restored, fmt.Sprintf("%s, checkpoints from %d on are void: %s", a, c.Void, c.Restored))
		void := func(m mark) bool { return m.of.Number >= c.Void }
		for id, all := range v.marks {
			if v.marks[id] = slices.DeleteFunc(all, void); len(v.marks[id]) == 0 {
				delete(v.marks, id)
			}
		}
		maps.DeleteFunc(v.log, func(_ int64, m mark) bool { return void(m) })
	}
	for _, n := range c.heads {
		v.marks[n.job] = append(v.marks[n.job], mark{n.seq, n.hash, a})
	}
	if _, earlier := v.log[c.Audit]; c.Audit > 0 && !earlier {
		v.log[c.Audit] = mark{c.Audit, c.AuditHash, a}
	}
}

// missed notes that the histories do not extend a checkpoint.
func (v *verification) missed(a *anchor) {
	if a.checkpoint && (v.First == 0 || a.Number < v.First) {
		v.First = a.Number
	}
}
