package ingest

import (
	"context"

	"github.com/stagepost/stagepost/engine"
)

// provision is the step of Provisioning: it takes the room that the gate saw. A job that could never fit fails; one that does not fit
// now goes back into the queue, so that smaller ones pass it and no worker waits.
func (t *task) provision(ctx context.Context) error {
	total, too, err := t.app.room.tooLarge(t.data.Space)
	if err != nil {
		return err
	}
	if too {
		return fail(CauseTooLarge, "it needs %d bytes, the disk of the data directory has %d in all and keeps %d in reserve",
			t.data.Space, total, t.app.options.Reserve)
	}
	j := t.Job()
	if b := t.app.room.promise(ctx, &j, t.data.Space); b != nil {
		return engine.Wait(*b)
	}
	return nil
}
