package agent

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// prefix of the ids of payloads.
const prefix = "pay"

// Spec is what a payload was taken with. It never changes.
type Spec struct {
	Job     job.ID            `json:"job,omitempty"` // empty for one that came without a ticket
	Attempt int64             `json:"attempt,omitempty"`
	Secret  string            `json:"secret_sha256,omitempty"`
	Service string            `json:"service"`
	Files   []compute.File    `json:"files"`
	Env     map[string]string `json:"env,omitempty"`
	Limits  compute.Limits    `json:"limits,omitzero"` // those that hold
	Inputs  bool              `json:"inputs,omitempty"`
}

// Data is what became of a payload.
type Data struct {
	Ending  *compute.Ending  `json:"ending,omitempty"`
	Results *compute.Results `json:"results,omitempty"`
	Inodes  *Inodes          `json:"inodes,omitempty"` // while it runs
}

func specOf(j *job.Job) (s Spec, err error) {
	if err = json.Unmarshal(j.Spec, &s); err != nil {
		err = job.Errorf(job.Internal, "agent", j.ID, "its spec cannot be read: %w", err)
	}
	return s, err
}

func dataOf(j *job.Job) (d Data) {
	if len(j.Data) > 0 {
		_ = json.Unmarshal(j.Data, &d) // what cannot be read is as good as nothing: the files report, too
	}
	return d
}

// keyOf names what a ticket is for: a second submission under it gets the first one's payload.
func keyOf(t compute.Ticket) string { return fmt.Sprintf("%s/%d", t.Job, t.Attempt) }

// idOf makes a payload's id from its ticket: the same one for each submission, so that there cannot be two. It sorts by
// the time of the job's own id.
func idOf(t compute.Ticket) job.ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("payload "+string(t.Job)+" "), uint64(t.Attempt)))
	var id ulid.ULID
	copy(id[6:], sum[:10])
	if _, own, ok := strings.Cut(string(t.Job), "_"); ok {
		if parsed, err := ulid.ParseStrict(own); err == nil {
			copy(id[:6], parsed[:6])
		}
	}
	return job.ID(prefix + "_" + id.String())
}

func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// matches reports whether a secret is the payload's, in a time that does not depend on it.
func (s *Spec) matches(secret string) bool {
	return s.Secret != "" && subtle.ConstantTimeCompare([]byte(hashed(secret)), []byte(s.Secret)) == 1
}

// checkTicket reports what is wrong with a ticket.
func checkTicket(t compute.Ticket) error {
	switch {
	case t.Job == "" || len(t.Job) > 100 || strings.ContainsFunc(string(t.Job), func(r rune) bool {
		return r <= ' ' || r == '/' || r > '~'
	}):
		return job.Errorf(job.Invalid, "agent", "",
			"a ticket names its job by 1 to 100 visible ASCII characters without a slash")
	case t.Attempt < 1:
		return job.Errorf(job.Invalid, "agent", t.Job, "the attempt of a ticket is 1 or more")
	case len(t.Secret) < 16 || len(t.Secret) > 200:
		return job.Errorf(job.Invalid, "agent", t.Job, "the secret of a ticket has 16 to 200 characters")
	}
	return nil
}

// checkParcel reports what is wrong with a parcel.
func checkParcel(p *compute.Parcel) error {
	if err := checkTicket(p.Ticket); err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return job.Errorf(job.Invalid, "agent", p.Job, format, args...)
	}
	if p.Service == "" || len(p.Service) > 200 {
		return wrong("a parcel names its service")
	}
	if len(p.Files) > maxFiles {
		return wrong("a parcel has at most %d files", maxFiles)
	}
	seen, size := map[string]bool{}, int64(0)
	for _, f := range p.Files {
		switch {
		case f.Name == "" || f.Name == "." || f.Name == ".." || len(f.Name) > 255 ||
			strings.ContainsAny(f.Name, "/\x00") || !utf8.ValidString(f.Name):
			return wrong("%.300q cannot be the name of a file", f.Name)
		case seen[f.Name]:
			return wrong("the file %q is there twice", f.Name)
		case f.Size < 0 || f.Size > mostBytes-size:
			return wrong("the size of %q is negative, or too large", f.Name)
		}
		size += f.Size
		seen[f.Name] = true
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return wrong("%.100q cannot be a variable of the environment", name)
		}
	}
	if err := p.Limits.Within(compute.Limits{}); err != nil {
		return wrong("%w", err)
	}
	return nil
}

// Bounds of a parcel.
const (
	maxFiles  = 100_000
	maxParcel = 32 << 20 // bytes of its description
	mostBytes = 1 << 60  // of its files together: sums of it stay numbers
)

// timeOf gives a time for a notice, whole to the microsecond as stores keep it.
func timeOf(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
