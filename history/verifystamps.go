package history

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/format/rfc3161"
)

// anchor is an anchor of an export, or a checkpoint.
type anchor struct {
	Anchor
	checkpoint, restored bool

	good  bool   // its text is as it was made, as far as later anchors and its time stamp or signature show
	sum   string // SHA-256 of its text
	reply string // SHA-256 of the answer; none
	stamp *rfc3161.Token
}

// String names it in messages.
func (a *anchor) String() string {
	return fmt.Sprintf("%s of %s", a.object(), a.Made.UTC().Format(time.RFC3339))
}

func (a *anchor) object() string {
	if a.checkpoint {
		return fmt.Sprintf("checkpoint %d", a.Number)
	}
	return fmt.Sprintf("anchor %d", a.Number)
}

var exportNames = regexp.MustCompile(`^` + anchorsName + `/([0-9]{8,18})\.txt$`)

// readAnchors checks the anchors and their time stamps, and reads the marks of those that are as they were made.
func (v *verification) readAnchors() {
	var numbers []int64
	for name := range v.files {
		if m := exportNames.FindStringSubmatch(name); m != nil {
			n, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits fit
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	next := int64(1)
	for _, n := range numbers {
		if n > next {
			v.fault("anchors", 0, "anchors %d to %d were removed", next, n-1)
		}
		next = n + 1
		v.anchors = append(v.anchors, v.readOne(n))
	}
	v.seen.Anchors = int64(len(v.anchors))
	v.compareAnchors()
	v.checkStamps()
	for _, a := range v.anchors {
		if a.good {
			v.readMarks(a)
		}
	}
	v.cover()
}

// span are numbers of entries, without the first.
type span struct{ after, through int64 }

// cover collects the numbers of the entries that good anchors have. In an earlier series of commits the same numbers
// had other entries.
func (v *verification) cover() {
	series := ""
	for _, a := range slices.Backward(v.anchors) {
		if !a.good {
			continue
		}
		if series == "" {
			series = a.Series
		}
		if a.Series != series {
			return
		}
		if n := len(v.covered); n > 0 && v.covered[n-1].after == a.Through {
			v.covered[n-1].after = a.After
		} else {
			v.covered = append(v.covered, span{a.After, a.Through})
		}
		if a.restored { // it has all histories
			return
		}
	}
}

func (v *verification) covers(number int64) bool {
	return slices.ContainsFunc(v.covered, func(s span) bool { return s.after < number && number <= s.through })
}

// readOne reads the head of an anchor and its digests.
func (v *verification) readOne(n int64) *anchor {
	a := &anchor{Anchor: Anchor{Number: n}, reply: none}
	name := anchorsName + "/" + anchorName(n)
	f := v.open(name)
	if f == nil {
		return a
	}
	defer f.Close()
	head, err := readAnchor(f, func(newest) error { return nil })
	if err == nil && head.Number != n {
		err = fmt.Errorf("it has the number %d", head.Number)
	}
	if err == nil {
		a.Anchor, a.good = head, true
		if a.sum, err = v.sum(name); err == nil && v.files[name+".tsr"] != nil {
			a.reply, err = v.sum(name + ".tsr")
		}
	}
	if err != nil {
		v.bad(a, "it was changed: %v", err)
	}
	return a
}

func (v *verification) bad(a *anchor, format string, args ...any) {
	a.good = false
	v.fault(a.object(), 0, format, args...)
}

func (v *verification) sum(name string) (string, error) {
	f, err := v.files[name].Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

// compareAnchors compares each anchor with what the next one has of it.
func (v *verification) compareAnchors() {
	for i, a := range v.anchors {
		if a.Installation != v.Installation && a.good {
			v.bad(a, "it is of another installation, %s", a.Installation)
		}
		if i+1 == len(v.anchors) {
			return
		}
		next := v.anchors[i+1]
		if !a.good || !next.good || next.Number != a.Number+1 {
			continue
		}
		switch {
		case next.Previous != a.sum:
			v.bad(a, "it, or %s, was replaced: their digests differ", next)
		case next.Stamp != none && a.reply == none:
			v.fault(a.object(), 0, "its time stamp was removed: %s has its digest", next)
		case next.Stamp != none && next.Stamp != a.reply:
			v.fault(a.object(), 0, "its time stamp was replaced: %s has another digest", next)
		}
	}
}

// checkStamps verifies the time stamps. Each is covered by the next one, so only the newest has to be valid now.
func (v *verification) checkStamps() {
	unchecked := 0
	var last *anchor
	for _, a := range v.anchors {
		switch {
		case a.reply == none:
			continue
		case v.trusted == nil:
			unchecked++
			continue
		case !v.checkStamp(a):
			continue
		}
		if last != nil && a.stamp.Time.After(last.stamp.Expires()) {
			v.fault(last.object(), 0, "its certificates expired on %s, before the next time stamp of %s",
				date(last.stamp.Expires()), date(a.stamp.Time))
		}
		last = a
		v.Stamps = append(v.Stamps, Stamped{
			Anchor: a.Number, Time: a.stamp.Time, Authority: a.stamp.Chain[0].Subject.String(),
			Serial: a.stamp.Serial.String(), Expires: a.stamp.Expires(),
		})
	}
	switch {
	case unchecked > 0:
		v.fault("anchors", 0, "%d time stamps were not verified: name the certificate of the authority that you trust "+
			"(--ca root.pem)", unchecked)
	case last == nil && v.trusted != nil:
		v.fault("anchors", 0, "there is no time stamp that is good")
	case last != nil && v.now.After(last.stamp.Expires()):
		v.fault(last.object(), 0, "the certificates of the newest time stamp expired on %s",
			date(last.stamp.Expires()))
	}
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkStamp verifies the time stamp of an anchor. An anchor that is not what was stamped is not used.
func (v *verification) checkStamp(a *anchor) bool {
	name := anchorsName + "/" + anchorName(a.Number)
	query, err := v.small(name + ".tsq")
	if err == nil {
		var reply []byte
		if reply, err = v.small(name + ".tsr"); err == nil {
			a.stamp, err = checkStamp(query, reply, func(h crypto.Hash) ([]byte, error) {
				f, err := v.files[name].Open()
				if err != nil {
					return nil, err
				}
				defer f.Close()
				return digestOf(f, h)
			}, v.trusted)
		}
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, rfc3161.ErrDigest):
		v.bad(a, "it was changed, or its time stamp was replaced: %v", err)
	default:
		v.fault(a.object(), 0, "its time stamp is not valid: %v", err)
	}
	a.stamp = nil
	return false
}

// mostSmall bounds a file of a time stamp in bytes.
const mostSmall = 1 << 20

func (v *verification) small(name string) ([]byte, error) {
	f := v.files[name]
	if f == nil {
		return nil, fmt.Errorf("%s is missing", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, mostSmall))
}

// readMarks reads what an anchor has.
func (v *verification) readMarks(a *anchor) {
	f, err := v.files[anchorsName+"/"+anchorName(a.Number)].Open()
	if err != nil {
		return // it was read before
	}
	defer f.Close()
	_, _ = readAnchor(f, func(n newest) error {
		v.marks[n.job] = append(v.marks[n.job], mark{n.seq, n.hash, a})
		return nil
	})
	if a.Audit > 0 {
		v.log[a.Audit] = mark{a.Audit, a.AuditHash, a}
	}
}
