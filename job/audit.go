package job

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Audit is one entry of the audit list: what a person did, to which job or scope, and why. A store writes it in the commit of what it tells of,
// and never changes it afterwards. Each entry carries a hash over itself and the hash before it. Entries outlive the jobs they tell of.
type Audit struct {
	Seq    int64           `json:"seq"` // 1 for the first
	At     time.Time       `json:"at"`  // to the microsecond
	By     lifecycle.Actor `json:"by"`
	Actor  string          `json:"actor"` // who
	Event  lifecycle.Event `json:"event"` // what: the event of a lifecycle, hold, release, priority, create, break-lock, ...
	Job    ID              `json:"job,omitempty"`
	Kind   Kind            `json:"kind,omitempty"`
	From   lifecycle.State `json:"from,omitempty"`
	To     lifecycle.State `json:"to,omitempty"`
	Object string          `json:"object,omitempty"` // what else it was done to: a scope, a lock, a file
	Note   string          `json:"note,omitempty"`   // why
	Seen   int64           `json:"seen,omitempty"`   // the version that the person saw and expected
	Prev   Hash            `json:"prev"`
	Hash   Hash            `json:"hash"`
}

// Purge is the event of the entry that a person's [Change.Purge] makes. It is in no table: the record is gone afterwards.
const Purge lifecycle.Event = "purge"

// Auditor is a store that keeps the audit list. A store need not: who wants the list asks for it.
type Auditor interface {
	// Audit gives up to n entries after number seq (0: from the first), oldest first. A negative n gives the last -n entries before number
	// seq (0: of all), oldest first too.
	Audit(ctx context.Context, seq int64, n int) ([]Audit, error)
}

// Seal sets Prev and Hash. The hash is SHA-256 over prev and the canonical form: every field in the order above, texts as length (uvarint) and
// bytes, numbers as varints, At as microseconds since 1970.
func (a *Audit) Seal(prev Hash) {
	a.Prev = prev
	var room [512]byte
	b := append(room[:0], prev[:]...)
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendVarint(b, a.Seq)
	b = binary.AppendVarint(b, a.At.UnixMicro())
	b = append(b, byte(a.By))
	text(a.Actor)
	text(string(a.Event))
	text(string(a.Job))
	text(string(a.Kind))
	text(string(a.From))
	text(string(a.To))
	text(a.Object)
	text(a.Note)
	b = binary.AppendVarint(b, a.Seen)
	a.Hash = sha256.Sum256(b)
}

// Audited gives the entry that a change by a person makes, without number and hash; before is the record it was made to, nil for a change
// without a job, whose Set.Message names the object.
func Audited(c *Change, before *Job) Audit {
	a := Audit{At: c.At.Truncate(time.Microsecond), By: c.By, Actor: c.Actor, Event: c.Event, Note: c.Note, Seen: c.Seen}
	if before == nil {
		if c.Set.Message != nil {
			a.Object = *c.Set.Message
		}
		return a
	}
	a.Job, a.Kind, a.From, a.To = before.ID, before.Kind, before.State, c.To.State
	if c.Purge {
		a.Event, a.To = Purge, ""
	}
	if c.Set.Priority != nil && c.Event == lifecycle.Reprioritize {
		a.Object = fmt.Sprintf("priority %d to %d", before.Priority, *c.Set.Priority)
	}
	return a
}

// AuditedHold gives the entry that a hold or a release makes. Its object is the scope, and the end of a hold that has one: "group=maps until
// 2026-05-04T12:00:00Z".
func AuditedHold(c *HoldChange) Audit {
	event, object := lifecycle.Event("hold"), c.Hold.Scope.String()
	if !c.Hold.Until.IsZero() && !c.Release {
		object += until + c.Hold.Until.UTC().Format(time.RFC3339Nano)
	}
	if c.Release {
		event = "release"
	}
	return Audit{
		At: c.Hold.Since.Truncate(time.Microsecond), By: lifecycle.Operator, Actor: c.Hold.Who, Event: event, Job: c.Hold.Job,
		Object: object, Note: c.Hold.Why,
	}
}

const until = " until "

// Held gives the hold that an entry tells of, and whether it was put (true) or released. ok is false for an entry about something else.
func (a *Audit) Held() (h Hold, put, ok bool) {
	if a.Event != "hold" && a.Event != "release" || a.Kind != "" {
		return h, false, false
	}
	scope, end, ends := strings.Cut(a.Object, until)
	if ends {
		var err error
		if h.Until, err = time.Parse(time.RFC3339Nano, end); err != nil {
			return h, false, false
		}
	}
	h.Scope, ok = ParseScope(scope)
	h.Who, h.Why, h.Since = a.Actor, a.Note, a.At
	return h, a.Event == "hold", ok
}

// AuditedCreate gives the entry that the creation of a job by an operator makes.
func AuditedCreate(c *Created) Audit {
	return Audit{
		At: c.Event.At, By: c.Event.By, Actor: c.Event.Actor, Event: Create, Job: c.Job.ID, Kind: c.Job.Kind, To: c.Job.State, Note: c.Event.Note,
	}
}

// VerifyAudit checks a run of entries: their numbers follow each other and each matches its hash and the one before. prev is the entry before the
// first, nil if that is number 1.
func VerifyAudit(prev *Audit, entries []Audit) error {
	seq, hash := int64(0), Hash{}
	if prev != nil {
		seq, hash = prev.Seq, prev.Hash
	}
	for i := range entries {
		want := entries[i]
		want.Seal(hash)
		switch {
		case entries[i].Seq != seq+1:
			return fmt.Errorf("audit entry %d is missing: the next one has number %d", seq+1, entries[i].Seq)
		case want.Hash != entries[i].Hash || entries[i].Prev != hash:
			return fmt.Errorf("audit entry %d (%s by %s) does not match its hash: it was changed", entries[i].Seq, entries[i].Event, entries[i].Actor)
		}
		seq, hash = entries[i].Seq, entries[i].Hash
	}
	return nil
}
