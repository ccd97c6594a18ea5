// Package history makes changes of histories and of the audit log detectable, also those by a person who can compute
// their hashes.
//
// An anchor is a text file that has the newest hash of each job's history that grew since the anchor before, the newest
// hash of the audit log, and the digests of the anchor before and of its time stamp. Each hash covers all earlier
// entries ([job.Event], [job.Audit]), so an anchor covers everything up to its moment. A time-stamp authority (RFC
// 3161) confirms when it existed. A later anchor covers the time stamp of an earlier one, so that only the newest time
// stamp has to be valid now: it renews those before it.
//
// An export is a ZIP file with all histories, the audit log, the anchors and their time stamps. [Verify] checks it
// without a server: what was changed, removed or inserted, and between which anchors.
package history

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// title is the first line of an anchor.
const title = "Stagepost anchor of histories 1"

// none is the digest of a file that does not exist.
const none = "none"

// Anchor is the head of the text of an anchor.
type Anchor struct {
	Number       int64 // 1 for the first one
	Installation string
	Series       string // of the commits; entries of another series can have the same numbers
	Made         time.Time
	Previous     string        // SHA-256 of the anchor before, in hexadecimal digits; none
	Stamp        string        // SHA-256 of the answer of the authority for the anchor before (.tsr); none
	Keep         time.Duration // how long records of deleted jobs are kept; zero: unlimited
	After        int64         // number of the entry from which on it has the histories that grew
	Through      int64         // number of the newest entry that it covers
	Audit        int64         // number of the newest entry of the audit log; zero: the log is empty
	AuditHash    job.Hash
}

// newest is a line of an anchor: the newest entry of the history of a job.
type newest struct {
	job  job.ID
	seq  int64
	hash job.Hash
}

// ErrAnchor is a text that is not an anchor.
var ErrAnchor = errors.New("not an anchor of histories")

func keepText(keep time.Duration) string {
	if keep == 0 {
		return "unlimited"
	}
	return keep.String()
}

// write writes the head.
func (a *Anchor) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\nnumber: %d\ninstallation: %s\nseries: %s\nmade: %s\nprevious: %s\nstamp: %s\n"+
		"keep: %s\nentries: %d to %d\naudit: %d %s\n\n", title, a.Number, a.Installation, a.Series,
		a.Made.UTC().Format(time.RFC3339Nano), a.Previous, a.Stamp, keepText(a.Keep), a.After+1, a.Through, a.Audit,
		a.AuditHash)
	return err
}

// mostLine is the longest line of an anchor in bytes.
const mostLine = 1024

// readAnchor reads an anchor and calls yield with each newest entry. The error is [ErrAnchor], or of r or yield.
func readAnchor(r io.Reader, yield func(newest) error) (a Anchor, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, mostLine), mostLine)
	if err := a.readHead(lines); err != nil {
		return a, err
	}
	n := int64(0)
	for lines.Scan() {
		text := lines.Text()
		if count, ok := strings.CutPrefix(text, "end: "); ok {
			if count != strconv.FormatInt(n, 10) || lines.Scan() {
				return a, fmt.Errorf("%w: it does not end with the number of its lines", ErrAnchor)
			}
			return a, lines.Err()
		}
		one, err := parseNewest(text)
		if err != nil {
			return a, err
		}
		n++
		if err := yield(one); err != nil {
			return a, err
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return a, err
	}
	return a, fmt.Errorf("%w: its end is missing", ErrAnchor)
}

func parseNewest(text string) (n newest, err error) {
	id, rest, _ := strings.Cut(text, " ")
	seq, hash, ok := strings.Cut(rest, " ")
	n.job = job.ID(id)
	if n.seq, err = strconv.ParseInt(seq, 10, 64); err != nil || !ok || id == "" || n.seq < 1 {
		return n, fmt.Errorf("%w: the line %q", ErrAnchor, text)
	}
	if err := n.hash.UnmarshalText([]byte(hash)); err != nil || hash == "" {
		return n, fmt.Errorf("%w: the line %q", ErrAnchor, text)
	}
	return n, nil
}

// readHead reads the lines up to the empty one, which have a fixed order.
func (a *Anchor) readHead(lines *bufio.Scanner) error {
	if !lines.Scan() || lines.Text() != title {
		return fmt.Errorf("%w: the first line is not %q", ErrAnchor, title)
	}
	for _, name := range []string{
		"number", "installation", "series", "made", "previous", "stamp", "keep", "entries", "audit",
	} {
		if !lines.Scan() {
			return fmt.Errorf("%w: the line %s is missing", ErrAnchor, name)
		}
		value, ok := strings.CutPrefix(lines.Text(), name+": ")
		if !ok || a.set(name, value) != nil {
			return fmt.Errorf("%w: %q is not the line %s", ErrAnchor, lines.Text(), name)
		}
	}
	if !lines.Scan() || lines.Text() != "" {
		return fmt.Errorf("%w: an empty line is missing after the head", ErrAnchor)
	}
	return nil
}

func (a *Anchor) set(name, value string) (err error) {
	switch name {
	case "number":
		a.Number, err = natural(value)
	case "installation":
		a.Installation = value
	case "series":
		a.Series = value
	case "made":
		a.Made, err = time.Parse(time.RFC3339Nano, value)
	case "previous":
		a.Previous, err = digest(value)
	case "stamp":
		a.Stamp, err = digest(value)
	case "keep":
		if value != "unlimited" {
			a.Keep, err = time.ParseDuration(value)
		}
	case "entries":
		first, last, _ := strings.Cut(value, " to ")
		if a.After, err = natural(first); err == nil {
			a.After--
			a.Through, err = natural(last)
		}
	case "audit":
		seq, hash, _ := strings.Cut(value, " ")
		if a.Audit, err = natural(seq); err == nil {
			err = a.AuditHash.UnmarshalText([]byte(hash))
		}
	}
	return err
}

func natural(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = ErrAnchor
	}
	return n, err
}

func digest(text string) (string, error) {
	if sum, err := hex.DecodeString(text); text != none && (err != nil || len(sum) != sha256.Size) {
		return "", ErrAnchor
	}
	return text, nil
}

// sumOf gives the SHA-256 of a content in hexadecimal digits.
func sumOf(r io.Reader) (string, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), err
}
