package token

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

// UsesName is the name of the file of last uses in a data directory.
const UsesName = "token-use"

// usedEvery is the resolution of last uses.
const usedEvery = time.Minute

// Uses are the times at which tokens were used last, to the minute. They are kept in memory until [Uses.Flush] writes
// them to a file, which several servers may share. It is safe for concurrent use.
type Uses struct {
	name string

	mu  sync.Mutex // guards new
	new map[string]time.Time
}

// NewUses returns the uses of a file, which is made if it is missing.
func NewUses(name string) *Uses { return &Uses{name: name, new: map[string]time.Time{}} }

// note notes a use.
func (u *Uses) note(k identity.Key, now time.Time) {
	now = now.UTC().Truncate(usedEvery)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.new[shortOf(k)] = now
}

// shortOf names a token in files and lists.
func shortOf(k identity.Key) string { return k.String()[:16] }

// Flush writes what was noted since the last call. Uses of tokens that are not known are removed from the file, unless
// known is empty. What cannot be written is written by the next call.
func (u *Uses) Flush(known []identity.Key) error {
	u.mu.Lock()
	noted := maps.Clone(u.new)
	u.mu.Unlock()
	if len(noted) == 0 {
		return nil
	}
	check := func(text []byte) error { _, err := parseUses(text); return err }
	err := sharedfile.Edit(u.name, check, func(text []byte) ([]byte, error) {
		all, err := parseUses(text)
		if err != nil {
			return nil, err
		}
		for k, at := range noted {
			if at.After(all[k]) {
				all[k] = at
			}
		}
		kept := map[string]bool{}
		for _, k := range known {
			kept[shortOf(k)] = true
		}
		maps.DeleteFunc(all, func(k string, _ time.Time) bool { return len(known) > 0 && !kept[k] })
		text, err = json.MarshalIndent(all, "", "  ")
		return append(text, '\n'), err
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.new, func(k string, at time.Time) bool { return !at.After(noted[k]) })
	return nil
}

// All returns the last uses by the first 16 digits of the hashes of tokens: those of the file and those that were noted
// since.
func (u *Uses) All() (map[string]time.Time, error) {
	all, err := ReadUses(u.name)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, at := range u.new {
		if at.After(all[k]) {
			all[k] = at
		}
	}
	return all, nil
}

// ReadUses reads a file of last uses; there are none if it is missing.
func ReadUses(name string) (map[string]time.Time, error) {
	text, err := sharedfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return parseUses(text)
}

func parseUses(text []byte) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	if len(text) == 0 {
		return all, nil
	}
	return all, json.Unmarshal(text, &all)
}
