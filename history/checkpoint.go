package history

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// checkpointTitle is the first line of the signed text of a checkpoint.
const checkpointTitle = "Stagepost checkpoint of histories 1"

// headsTitle begins the line before the heads of a checkpoint, in a file of checkpoints.
const headsTitle = "Heads of checkpoint "

// interrupted ends a record that a crash ended: no empty line, which could end it as if it were whole. A title follows.
const interrupted = " interrupted\n"

// Checkpoint is the text of a checkpoint, which is signed as a note (C2SP signed-note). Previous is the SHA-256 of the
// signed note of the checkpoint before; it has no time stamp.
type Checkpoint struct {
	Anchor
	Heads    int64  // number of the histories that grew since the checkpoint before, whose heads precede it in the file
	HeadsSum string // SHA-256 of the lines of these heads
	Restored string // who recorded that a backup was restored, and why; empty: none was
	Void     int64  // with Restored: number of the first checkpoint that the restored backup does not extend
	Key      string // the public key that signs the next checkpoints; empty: the same one as before
}

// checkpointLines are the lines that each checkpoint has, in their order.
var checkpointLines = []string{
	"number", "installation", "series", "made", "previous", "keep", "entries", "audit", "heads",
}

func (c *Checkpoint) object() string { return fmt.Sprintf("checkpoint %d", c.Number) }

// text is what is signed.
func (c *Checkpoint) text() string {
	text := fmt.Sprintf("%s\nnumber: %d\ninstallation: %s\nseries: %s\nmade: %s\nprevious: %s\nkeep: %s\n"+
		"entries: %d to %d\naudit: %d %s\nheads: %d %s\n", checkpointTitle, c.Number, c.Installation, c.Series,
		c.Made.UTC().Format(time.RFC3339Nano), c.Previous, keepText(c.Keep), c.After+1, c.Through, c.Audit,
		c.AuditHash, c.Heads, c.HeadsSum)
	if c.Restored != "" {
		text += fmt.Sprintf("restored: void from %d, %s\n", c.Void, c.Restored)
	}
	if c.Key != "" {
		text += "key: " + c.Key + "\n"
	}
	return text
}

// errCheckpoint is a text that is not a checkpoint.
var errCheckpoint = errors.New("not a checkpoint of histories")

// parseCheckpoint reads the signed text.
func parseCheckpoint(text string) (c Checkpoint, err error) {
	c.Stamp = none
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != checkpointTitle {
		return c, fmt.Errorf("%w: the first line is not %q", errCheckpoint, checkpointTitle)
	}
	if lines = lines[1:]; len(lines) < len(checkpointLines) {
		return c, fmt.Errorf("%w: the line %s is missing", errCheckpoint, checkpointLines[len(lines)])
	}
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ": ")
		if i < len(checkpointLines) {
			ok = ok && name == checkpointLines[i]
		} else {
			ok = ok && (name == "restored" || name == "key")
		}
		if !ok || c.set(name, value) != nil {
			return c, fmt.Errorf("%w: the line %q", errCheckpoint, line)
		}
	}
	return c, nil
}

func (c *Checkpoint) set(name, value string) (err error) {
	switch name {
	case "heads":
		n, sum, _ := strings.Cut(value, " ")
		if c.Heads, err = natural(n); err == nil {
			c.HeadsSum, err = digest(sum)
		}
	case "restored":
		_, err = fmt.Sscanf(value, "void from %d,", &c.Void)
		_, c.Restored, _ = strings.Cut(value, ", ")
	case "key":
		c.Key = value
	default:
		err = c.Anchor.set(name, value)
	}
	return err
}

// record is a checkpoint of a file.
type record struct {
	Checkpoint
	heads []newest
	note  []byte // the text with its signatures
	fault error  // why it is not what was signed, as far as that is visible without a key
}

// sum is what the next checkpoint has of this one.
func (r *record) sum() string {
	sum := sha256.Sum256(r.note)
	return hex.EncodeToString(sum[:])
}

// Parts of a record.
const (
	inHeads = iota
	inText
	inSignatures
)

// mostNote is the longest signed note, and the longest line of a file of checkpoints, in bytes.
const mostNote = 64 << 10

// records reads a file of checkpoints.
type records struct {
	heads bool // whether each record gets its heads
	yield func(*record) error

	at   int64   // offset behind the line
	end  int64   // offset behind the last whole record
	next *record // that is being read; nil: none
	part int
	n    int64 // of heads
	sum  hash.Hash
}

// readRecords calls yield with each whole checkpoint of a file, and returns the offset behind the last one. A record
// that a crash ended is skipped: the next one begins with a title of its own, and numbers and digests of the others
// show whether one is missing.
func readRecords(r io.Reader, heads bool, yield func(*record) error) (end int64, err error) {
	p := records{heads: heads, yield: yield}
	lines := bufio.NewReaderSize(r, mostNote)
	for {
		line, err := lines.ReadSlice('\n')
		p.at += int64(len(line))
		switch {
		case err == nil:
			err = p.line(line)
		case errors.Is(err, bufio.ErrBufferFull):
			p.next, err = nil, nil
		case errors.Is(err, io.EOF):
			return p.end, nil
		}
		if err != nil {
			return p.end, err
		}
	}
}

// line reads a line with its end.
func (p *records) line(line []byte) error {
	if bytes.HasPrefix(line, []byte(headsTitle)) {
		p.next, p.part, p.n, p.sum = &record{}, inHeads, 0, sha256.New()
		return nil
	}
	blank := len(line) == 1
	switch {
	case p.next == nil:
	case p.part == inHeads && blank:
		p.part = inText
	case p.part == inHeads:
		return p.head(line)
	case p.part == inSignatures && blank:
		return p.whole()
	case len(p.next.note)+len(line) > mostNote:
		p.next = nil
	default:
		p.next.note = append(p.next.note, line...)
		if blank {
			p.part = inSignatures
		}
	}
	return nil
}

// head reads the line of a head.
func (p *records) head(line []byte) error {
	p.n++
	p.sum.Write(line)
	if p.heads {
		n, err := parseNewest(string(line[:len(line)-1]))
		if err != nil {
			p.next.fault = err
		}
		p.next.heads = append(p.next.heads, n)
	}
	return nil
}

// whole yields the record.
func (p *records) whole() error {
	r := p.next
	p.next, p.end = nil, p.at
	text, _, _ := strings.Cut(string(r.note), "\n\n")
	c, err := parseCheckpoint(text)
	switch {
	case err != nil:
		r.fault = err
	case c.Heads != p.n || c.HeadsSum != hex.EncodeToString(p.sum.Sum(nil)):
		r.fault = errors.New("the heads before it are not those that were signed")
	}
	r.Checkpoint = c
	return p.yield(r)
}
