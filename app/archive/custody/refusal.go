package custody

import (
	"errors"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/job"
)

// refusal gives an error of the catalog the kind by which callers act.
func refusal(op string, id job.ID, err error) error {
	kind := job.Internal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, catalog.ErrNotFound):
		kind = job.NotFound
	case errors.Is(err, catalog.ErrHeld), errors.Is(err, catalog.ErrRetained), errors.Is(err, catalog.ErrSame),
		errors.Is(err, catalog.ErrConflict):
		kind = job.Refused
	}
	return job.Errorf(kind, op, id, "%w", err)
}

// absent is refusal for a job whose archive is sought. A job that failed before it read its source has none.
func absent(op string, id job.ID, err error) error {
	if errors.Is(err, catalog.ErrNotFound) {
		return job.Errorf(job.NotFound, op, id,
			"the job has no archive, or none yet; how far it is, or why it failed: stagepost why %s", id)
	}
	return refusal(op, id, err)
}

// refusalOrKind is refusal for an error that may have a kind already.
func refusalOrKind(op string, id job.ID, err error) error {
	if err == nil {
		return nil
	}
	if known := (*job.Error)(nil); errors.As(err, &known) {
		return err
	}
	return refusal(op, id, err)
}
