package agent

import (
	"context"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/lifecycle"
)

// voidDelay keeps the engine from taking up a record without files between its commit and its end. It counts only if
// the agent ends in between; then the payload is rejected after it, for its files are not there.
const voidDelay = time.Hour

// voidTicket has it that a ticket whose parcel never came is never run: it leaves the record of a payload that was
// ended. The server gave the job up, and a parcel that was underway may come yet; it finds the record, and its files
// are not read. One that is being received is waited for, and ended. A ticket that another payload has, by another
// secret, is [compute.ErrNoPayload].
func (a *App) voidTicket(ctx context.Context, h compute.Handle, note string) error {
	if err := checkTicket(h.Ticket); err != nil {
		return err
	}
	id := idOf(h.Ticket)
	free, err := a.locked(ctx, id)
	if err != nil {
		return err
	}
	defer free()
	j, ok, err := a.find(ctx, h)
	switch {
	case err != nil:
		return err
	case ok: // it came meanwhile
		return a.kill(ctx, &j, note)
	case j.ID != "":
		return compute.ErrNoPayload
	}
	if err := a.remove(id); err != nil { // a crash left it
		return unavailable(id, err)
	}
	if err := a.memory.use(); err != nil {
		return unavailable(id, err)
	}
	// The key is the payload's own: it is found under its ticket as any other.
	j, err = a.engine.Submit(context.WithoutCancel(ctx), engine.Order{
		ID: id, Kind: compute.PayloadKind, Key: keyOf(h.Ticket), Due: time.Now().Add(voidDelay),
		By: lifecycle.Engine, Actor: "server", Note: "its parcel has not come, and is not to be run if it comes",
		Spec: &Spec{Job: h.Job, Attempt: h.Attempt, Secret: hashed(h.Secret), Files: []compute.File{}},
	})
	if err != nil {
		return err
	}
	return a.kill(context.WithoutCancel(ctx), &j, note)
}
