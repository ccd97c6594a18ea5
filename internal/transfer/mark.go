package transfer

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/job"
)

// State is what a migration has made of a store.
type State string

// The states of stores.
const (
	Free       State = ""           // servers may use it
	Unfinished State = "unfinished" // it is the target of a migration that has not finished
	Moved      State = "moved"      // its content was migrated to another store
)

// Mark is the durable state of a store, with the other store of the migration.
type Mark struct {
	State State
	Other string // for people, without a password
	At    time.Time
}

// Marked is a store with a mark. SetMark also ends the work of processes that had the store open before.
type Marked interface {
	Mark(ctx context.Context) (Mark, error)
	SetMark(ctx context.Context, m Mark) error
}

// Refuse returns why no server may use the store, or nil. name is that of the store, for people.
func (m *Mark) Refuse(name string) error {
	switch m.State {
	case Free:
		return nil
	case Unfinished:
		return job.Errorf(job.Refused, "open", "", "the migration from %s to %s, which began %s, has not finished: "+
			"run the same stagepost migrate again, or use %s", m.Other, name, m.at(), m.Other)
	}
	return job.Errorf(job.Refused, "open", "", "the jobs of %s were migrated to %s on %s: start servers with that "+
		"store; stagepost migrate --help explains the way back", name, m.Other, m.at())
}

func (m *Mark) at() string { return m.At.UTC().Format(time.RFC3339) }
