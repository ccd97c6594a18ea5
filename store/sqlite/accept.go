package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// AcceptEvent is what the audit list calls an acceptance.
const AcceptEvent lifecycle.Event = "accept-loss"

// Accept makes the store in dir go on without the commits that Open misses in it, and enters who decided that and why in the audit list. It gives
// what is missing. Kinds of error: Refused (nothing is missing), and those of Open.
func Accept(ctx context.Context, dir, who, why string) (missing string, err error) {
	s, err := Open(dir, Options{accept: func(text string) { missing = text }})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if missing == "" {
		return "", job.Errorf(job.Refused, "accept", "", "%s misses no commits", dir)
	}
	change := job.Change{
		By: lifecycle.Operator, Actor: who, Event: AcceptEvent, Note: fmt.Sprintf("%s (%s)", why, missing), At: time.Now().UTC(),
	}
	results, err := s.Commit(ctx, change)
	if err == nil {
		err = results[0].Err
	}
	return missing, err
}
