package job

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Audit is one entry of the audit log: the person, the event, the job or scope, and the reason. A store writes it in
// the same commit as the event, and never changes it afterwards. Each entry has a hash over itself and the hash
// before it. Entries outlive their jobs.
type Audit struct {
	Seq   int64           `json:"seq"` // 1 for the first
	At    time.Time       `json:"at"`  // to the microsecond
	By    lifecycle.Actor `json:"by"`
	Actor string          `json:"actor"` // the person
	// the event of a lifecycle, or hold, release, priority, create, break-lock, ...
	Event  lifecycle.Event `json:"event"`
	Job    ID              `json:"job,omitempty"`
	Kind   Kind            `json:"kind,omitempty"`
	From   lifecycle.State `json:"from,omitempty"`
	To     lifecycle.State `json:"to,omitempty"`
	Object string          `json:"object,omitempty"` // another object: a scope, a lock, a file
	Note   string          `json:"note,omitempty"`   // reason
	// of the sender if a request caused it; see [WithAddress]
	Address string `json:"address,omitempty"`
	Seen    int64  `json:"seen,omitempty"` // the version that the person saw and expected
	Prev    Hash   `json:"prev"`
	Hash    Hash   `json:"hash"`
	// a newer version wrote it with fields that this version does not have: its hash cannot be computed. Not sealed
	Newer bool `json:"newer,omitempty"`
}

// Purge is the event of the entry for a person's [Change.Purge]. It is in no table, because the record no longer
// exists afterwards.
const Purge lifecycle.Event = "purge"

// Seal sets Prev and Hash. The hash is SHA-256 over prev and the canonical form: every field in the order above,
// texts as length (uvarint) and bytes, numbers as varints, At as microseconds since 1970. Address comes last; it is
// left out if it is empty, as in entries of earlier versions.
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
	if a.Address != "" {
		text(a.Address)
	}
	a.Hash = sha256.Sum256(b)
}

// Audited returns the entry for a change by a person, without number and hash. before is the record before the change.
func Audited(c *Change, before *Job) Audit {
	a := Audit{At: c.At.Truncate(time.Microsecond), By: c.By, Actor: c.Actor, Event: c.Event, Note: c.Note,
		Seen: c.Seen, Address: c.Address}
	a.Job, a.Kind, a.From, a.To = before.ID, before.Kind, before.State, c.To.State
	if c.Purge {
		a.Event, a.To = Purge, ""
	}
	if c.Set.Priority != nil && c.Event == lifecycle.Reprioritize {
		a.Object = fmt.Sprintf("priority %d to %d", before.Priority, *c.Set.Priority)
	}
	return a
}

// AuditedHold returns the entry for a hold. Its object is the scope, and the end of a hold that has one:
// "group=maps until 2026-05-04T12:00:00Z".
func AuditedHold(h *Hold) Audit {
	a := h.audited("hold")
	if !h.Until.IsZero() {
		a.Object += until + h.Until.UTC().Format(time.RFC3339Nano)
	}
	return a
}

// AuditedRelease returns the entry for the release of a hold by Who, at Since, because of Why.
func AuditedRelease(h *Hold) Audit { return h.audited("release") }

func (h *Hold) audited(event lifecycle.Event) Audit {
	return Audit{At: h.Since.Truncate(time.Microsecond), By: lifecycle.Operator, Actor: h.Who, Event: event,
		Job: h.Job, Object: h.Scope.String(), Note: h.Why, Address: h.Address}
}

const until = " until "

// OfHold reports whether an entry is of a hold, put or released. The events hold and release of a lifecycle have a
// kind.
func (a *Audit) OfHold() bool { return (a.Event == "hold" || a.Event == "release") && a.Kind == "" }

// Held returns the hold of an entry, and whether it was put (true) or released. ok is false for another entry.
func (a *Audit) Held() (h Hold, put, ok bool) {
	if !a.OfHold() {
		return h, false, false
	}
	scope, end, ends := strings.Cut(a.Object, until)
	if ends {
		var err error
		if h.Until, err = time.Parse(time.RFC3339Nano, end); err != nil {
			return h, false, false
		}
	}
	h.Scope, ok = parseScope(scope)
	h.Who, h.Why, h.Since = a.Actor, a.Note, a.At
	return h, a.Event == "hold", ok
}

// AuditedCreate returns the entry for the creation of a job by an operator.
func AuditedCreate(c *Created) Audit {
	return Audit{
		At: c.Event.At, By: c.Event.By, Actor: c.Event.Actor, Event: Create, Job: c.Job.ID, Kind: c.Job.Kind,
		To: c.Job.State, Note: c.Event.Note, Address: c.Event.Address,
	}
}

// VerifyAudit checks consecutive entries: their numbers have no gap, and each matches its hash and the previous one.
// prev is the entry before the first, nil if that is number 1.
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
		case entries[i].Newer && want.Hash != entries[i].Hash && entries[i].Prev == hash:
			return newerEntry("audit entry", want.Seq, fmt.Sprintf("%s by %s", want.Event, want.Actor))
		case want.Hash != entries[i].Hash || entries[i].Prev != hash:
			return fmt.Errorf("audit entry %d (%s by %s) does not match its hash: it was changed", entries[i].Seq,
				entries[i].Event, entries[i].Actor)
		}
		seq, hash = entries[i].Seq, entries[i].Hash
	}
	return nil
}
