package history

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Files of an export.
const (
	readmeName    = "README.txt"
	historiesName = "histories.jsonl"
	auditName     = "audit.jsonl"
	summaryName   = "export.json"
	anchorsName   = "anchors"
)

// Endings of the files of a time stamp, which follow the name of the anchor.
var stampEndings = []string{".tsq", ".tst", ".pem", ".tsr"}

// Whole has all histories.
type Whole interface {
	// Audit is that of [job.AuditLog].
	Audit(ctx context.Context, seq int64, n int) ([]job.Audit, error)

	// Histories calls yield with every job, its history, and the numbers of its entries. damage is why entries could
	// not be read.
	Histories(ctx context.Context,
		yield func(j *job.Job, entries []job.Event, numbers []int64, damage error) error) error
}

// Summary is what an export contains.
type Summary struct {
	Version      int       `json:"version"` // of the format: 1
	Installation string    `json:"installation"`
	Made         time.Time `json:"made"`
	Jobs         int64     `json:"jobs"`
	Entries      int64     `json:"entries"`
	Audit        int64     `json:"audit"`
	Anchors      int64     `json:"anchors"`
}

// line is a line of histories.jsonl: a job, or an entry of the last job before it.
type line struct {
	Job    *jobLine   `json:"job,omitempty"`
	Entry  *job.Event `json:"entry,omitempty"`
	Number int64      `json:"number,omitempty"` // of the entry, in the order of commits
}

type jobLine struct {
	ID      job.ID   `json:"id"`
	Entries int64    `json:"entries"`
	Head    job.Hash `json:"head"`
	Damage  string   `json:"damage,omitempty"` // why the entries are missing
}

// Export writes an export. dir has the anchors; it need not exist. It reads the anchors first, then histories, then the
// audit log, so that these contain at least what the anchors cover, and each purge by a person.
func Export(ctx context.Context, w io.Writer, dir, installation string, from Whole, now time.Time) (Summary, error) {
	s := Summary{Version: 1, Installation: installation, Made: now.UTC()}
	z := zip.NewWriter(w)
	if err := writeReadme(z); err != nil {
		return s, err
	}
	if err := writeAnchors(z, os.DirFS(dir), &s); err != nil {
		return s, err
	}
	if err := writeHistories(ctx, z, from, &s); err != nil {
		return s, err
	}
	if err := writeAudit(ctx, z, from, &s); err != nil {
		return s, err
	}
	f, err := z.Create(summaryName)
	if err != nil {
		return s, err
	}
	return s, errors.Join(json.NewEncoder(f).Encode(&s), z.Close())
}

func writeReadme(z *zip.Writer) error {
	f, err := z.Create(readmeName)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, readme)
	return err
}

// writeAnchors copies the anchors and their time stamps.
func writeAnchors(z *zip.Writer, dir fs.FS, s *Summary) error {
	numbers, err := listAnchors(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := copyFile(z, dir, anchorName(n)); err != nil {
			return err
		}
		s.Anchors++
		if _, err := fs.Stat(dir, replyName(n)); errors.Is(err, fs.ErrNotExist) {
			continue // a time stamp is complete when its answer is written
		}
		for _, ending := range stampEndings {
			if err := copyFile(z, dir, anchorName(n)+ending); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(z *zip.Writer, dir fs.FS, name string) (err error) {
	from, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := z.Create(anchorsName + "/" + name)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}

func writeHistories(ctx context.Context, z *zip.Writer, from Whole, s *Summary) error {
	f, err := z.Create(historiesName)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(f)
	return from.Histories(ctx, func(j *job.Job, entries []job.Event, numbers []int64, damage error) error {
		head := jobLine{ID: j.ID, Entries: j.Seq, Head: j.Head}
		if damage != nil {
			head.Damage = damage.Error()
		}
		s.Jobs++
		if err := lines.Encode(line{Job: &head}); err != nil {
			return err
		}
		for i := range entries {
			s.Entries++
			if err := lines.Encode(line{Entry: &entries[i], Number: numbers[i]}); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditPage is the number of entries of the audit log that are read together.
const auditPage = 1000

func writeAudit(ctx context.Context, z *zip.Writer, from Whole, s *Summary) error {
	f, err := z.Create(auditName)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(f)
	for last := int64(0); ; {
		page, err := from.Audit(ctx, last, auditPage)
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for i := range page {
			s.Audit++
			if err := lines.Encode(&page[i]); err != nil {
				return err
			}
		}
		last = page[len(page)-1].Seq
	}
}

const readme = `Export of the histories of a Stagepost installation

histories.jsonl      one line of JSON for each job, and after it one for each entry of its history
audit.jsonl          one line for each entry of the audit log: what people did, and why
anchors/NUMBER.txt   anchors: the newest hash of each history that grew since the anchor before, the newest hash of the
                     audit log, and the SHA-256 of the anchor before and of its time stamp
anchors/NUMBER.txt.tsr, .tsq, .tst, .pem   the time stamp of an anchor (RFC 3161): answer, request, token, certificates
export.json          what the export contains

    stagepost verify EXPORT.zip --ca root.pem

checks everything without a server. Public tools check a time stamp and the chain of anchors:

    openssl ts -verify -data anchors/00000002.txt -in anchors/00000002.txt.tsr -CAfile root.pem
    sha256sum anchors/00000001.txt        # is in the line "previous" of anchors/00000002.txt
    sha256sum anchors/00000001.txt.tsr    # is in the line "stamp" of anchors/00000002.txt

The hash of an entry is the SHA-256 of the hash of the entry before (32 zero bytes for the first one), followed by the
fields. A text is its length (unsigned LEB128) and its bytes in UTF-8; a number is a zigzag LEB128; a time is the number
of microseconds since 1970-01-01 UTC.

    entry of a history     job, seq (number), event, from, to, outcome, by (one byte), actor, cause, note, epoch (number),
                           at (time); then, if there is an address or began: address, and began (time) if there is one
    entry of the audit log seq (number), at (time), by (one byte), actor, event, job, kind, from, to, object, note,
                           seen (number), address if there is one

The byte of "by": worker 1, timer 2, operator 4, owner 8, engine 16.
`
