// Package share keeps links by which people without an account read one batch. A link has a secret of 160 random bits,
// of which only the hash is stored; it expires, and can be revoked.
package share

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/job"
)

// Bounds of links.
const (
	Default = 30 * 24 * time.Hour  // for which a link is valid
	Longest = 365 * 24 * time.Hour // for which it may be
	most    = 100                  // links of one batch that are valid
	secret  = 20                   // random bytes of one
)

// Name is the name of the folder in the data directory.
const Name = "shares"

// Link opens one batch to read.
type Link struct {
	ID      string    `json:"id"`   // names it; it opens nothing
	Hash    string    `json:"hash"` // SHA-256 of its secret
	Batch   job.ID    `json:"batch"`
	By      string    `json:"by,omitempty"`
	Note    string    `json:"note,omitempty"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
}

// Links are those of a data directory. Servers that share the directory share them.
type Links struct {
	file string
	now  func() time.Time
	mu   sync.Mutex // guards edits of this process
}

// Open returns the links of a data directory. Nothing is read yet.
func Open(dir string, now func() time.Time) *Links {
	return &Links{file: filepath.Join(dir, Name, "links.json"), now: now}
}

// Add makes a link for so long, and returns it with its secret, which is stored nowhere. ID, Hash, Made and Expires of
// the given one are set. Errors: Invalid (too long), Refused (too many).
func (l *Links) Add(one Link, valid time.Duration) (Link, string, error) {
	if valid <= 0 || valid > Longest {
		return Link{}, "", job.Errorf(job.Invalid, "share", one.Batch,
			"a link is valid for more than 0 and at most 365 days")
	}
	text := make([]byte, secret)
	_, _ = rand.Read(text) // never fails
	key := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(text)
	one.ID, one.Hash, one.Made = rand.Text()[:10], hash(key), l.now().UTC()
	one.Expires = one.Made.Add(valid)
	err := l.edit(func(all []Link) ([]Link, error) {
		if n := len(ofBatch(all, one.Batch)); n >= most {
			return nil, job.Errorf(job.Refused, "share", one.Batch, "it has %d links: revoke one first", n)
		}
		return append(all, one), nil
	})
	return one, key, err
}

// Of lists the links of a batch that are valid, the oldest first.
func (l *Links) Of(batch job.ID) ([]Link, error) {
	all, err := l.read()
	return ofBatch(all, batch), err
}

// Revoke removes a link of a batch. Error: NotFound.
func (l *Links) Revoke(batch job.ID, id string) error {
	return l.edit(func(all []Link) ([]Link, error) {
		left := slices.DeleteFunc(slices.Clone(all), func(one Link) bool { return one.Batch == batch && one.ID == id })
		if len(left) == len(all) {
			return nil, job.Errorf(job.NotFound, "share", batch, "there is no such link")
		}
		return left, nil
	})
}

// Find returns the link with a secret. Error: NotFound, also for one that has expired.
func (l *Links) Find(key string) (Link, error) {
	all, err := l.read()
	if err != nil {
		return Link{}, err
	}
	want := hash(key)
	for _, one := range all {
		if one.Hash == want {
			return one, nil
		}
	}
	return Link{}, job.Errorf(job.NotFound, "share", "", "there is no such link, or it has expired")
}

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func ofBatch(all []Link, batch job.ID) (some []Link) {
	for _, one := range all {
		if one.Batch == batch {
			some = append(some, one)
		}
	}
	return some
}

// read returns the links that are valid.
func (l *Links) read() ([]Link, error) {
	text, err := sharedfile.Read(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, job.Errorf(job.Internal, "share", "", "the links: %w", err)
	}
	return l.parse(text)
}

func (l *Links) parse(text []byte) (all []Link, err error) {
	if len(text) > 0 {
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, job.Errorf(job.Internal, "share", "", "%s: %w", l.file, err)
		}
	}
	now := l.now()
	return slices.DeleteFunc(all, func(one Link) bool { return !now.Before(one.Expires) }), nil
}

// edit changes the links that are valid; those that have expired are removed.
func (l *Links) edit(change func([]Link) ([]Link, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(l.file), 0o700); err != nil {
		return job.Errorf(job.Unavailable, "share", "", "the links: %w", err)
	}
	check := func(text []byte) error { _, err := l.parse(text); return err }
	return sharedfile.Edit(l.file, check, func(text []byte) ([]byte, error) {
		all, err := l.parse(text)
		if err != nil {
			return nil, err
		}
		if all, err = change(all); err != nil {
			return nil, err
		}
		return json.MarshalIndent(all, "", " ")
	})
}
