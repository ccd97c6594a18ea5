package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Create is the event of a history's first entry. It is in no table: its state is the start.
const Create lifecycle.Event = "create"

// Hash is a SHA-256 sum; it reads and writes as 64 hexadecimal digits.
type Hash [sha256.Size]byte

// String returns the digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes the digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the digits; an empty text is the zero hash.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Hash{}
		return nil
	}
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("not a SHA-256 sum: %.80q", text)
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("not a SHA-256 sum: %q", text)
	}
	return nil
}

// Event is one entry of a job's history. Entries are only appended. Each has a hash over itself and the hash before
// it, so that a changed, lost or moved entry is detected.
type Event struct {
	Job     ID                `json:"job"`
	Seq     int64             `json:"seq"` // 1 for Create
	Event   lifecycle.Event   `json:"event"`
	From    lifecycle.State   `json:"from,omitempty"`
	To      lifecycle.State   `json:"to"`
	Outcome lifecycle.Outcome `json:"outcome,omitempty"` // after the event
	By      lifecycle.Actor   `json:"by"`
	Actor   string            `json:"actor,omitempty"`   // the worker or person
	Cause   string            `json:"cause,omitempty"`   // of Create: digest of the request, if it had a key
	Note    string            `json:"note,omitempty"`    // the reason of a person, or the error
	Address string            `json:"address,omitempty"` // of the sender if a request caused it; see [WithAddress]
	Epoch   int64             `json:"epoch"`
	At      time.Time         `json:"at"` // to the microsecond
	// when the work that the event ends began: the claim of its worker, or the event before under the same claim; zero:
	// not known, or no worker caused the event
	Began time.Time `json:"began,omitzero"`
	Prev  Hash      `json:"prev"`
	Hash  Hash      `json:"hash"`
	// a newer version wrote it with fields that this version does not have: its hash cannot be computed. Not sealed
	Newer bool `json:"newer,omitempty"`
}

// Moved counts the entries of the histories of one kind that have the same states and the same outcome, of one hour.
type Moved struct {
	Kind     Kind
	From, To lifecycle.State
	Outcome  lifecycle.Outcome // after the event
	Hour     time.Time         // its start, in UTC
	Entries  int64
}

// Seal sets Prev and Hash. The hash is SHA-256 over prev and the canonical form: every field in the order above,
// texts as length (uvarint) and bytes, numbers as varints, At as microseconds since 1970. Address and Began come last,
// Began in the form of At. Both are left out if Began is zero and Address is empty, as in entries of earlier versions;
// Began alone is left out if it is zero. A field that is added needs a name in JSON, and in a store that servers of
// several versions share a higher form of the entries that have it: both show earlier versions that they are Newer.
func (e *Event) Seal(prev Hash) {
	e.Prev = prev
	var room [512]byte
	b := append(room[:0], prev[:]...)
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(string(e.Job))
	b = binary.AppendVarint(b, e.Seq)
	text(string(e.Event))
	text(string(e.From))
	text(string(e.To))
	text(string(e.Outcome))
	b = append(b, byte(e.By))
	text(e.Actor)
	text(e.Cause)
	text(e.Note)
	b = binary.AppendVarint(b, e.Epoch)
	b = binary.AppendVarint(b, e.At.UnixMicro())
	if e.Address != "" || !e.Began.IsZero() {
		text(e.Address)
	}
	if !e.Began.IsZero() {
		b = binary.AppendVarint(b, e.Began.UnixMicro())
	}
	e.Hash = sha256.Sum256(b)
}

// Verify checks a job's whole history against its record: the chain of hashes, that no entry is missing, and that the
// replay ends in the position of the record. The error names an entry that is missing, that does not match its hash,
// that is Newer, or that the table does not allow. A store that computes the hashes of entries from the first on, and
// keeps the last one with the record, shows that an entry was changed, not which.
func Verify(j Job, history []Event, life *lifecycle.Table) error {
	var prev Hash
	taken := make([]lifecycle.Taken, 0, len(history))
	for i, e := range history {
		if e.Seq != int64(i+1) {
			return fmt.Errorf("entry %d is missing: the next one has number %d", i+1, e.Seq)
		}
		want := e
		want.Seal(prev)
		if e.Newer && want.Hash != e.Hash && e.Prev == prev {
			return newerEntry("entry", e.Seq, string(e.Event))
		}
		if want.Hash != e.Hash || e.Prev != prev {
			return fmt.Errorf("entry %d (%s) does not match its hash: it was changed", e.Seq, e.Event)
		}
		prev = e.Hash
		if i > 0 {
			taken = append(taken, lifecycle.Taken{Event: e.Event, By: e.By})
		}
	}
	if int64(len(history)) != j.Seq || prev != j.Head {
		return fmt.Errorf("the record counts %d entries ending in %.8s, the history has %d ending in %.8s",
			j.Seq, j.Head, len(history), prev)
	}
	if life.Hash() != j.Definition {
		return nil // an older definition: its own table must be replayed
	}
	end, err := life.Replay(taken)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if end != j.Position {
		return fmt.Errorf("the replay ends in %+v, the record has %+v", end, j.Position)
	}
	return nil
}
