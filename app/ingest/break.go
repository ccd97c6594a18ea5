package ingest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// BreakLock is the event under which a broken lock stands in the audit list.
const BreakLock lifecycle.Event = "break-lock"

// BreakLock takes a lock from its holder, for a reason, and gives it as it was. What the holder writes under it afterwards is refused; it has to ask for
// the lock again. The audit list has the entry before the lock is gone. Kinds of error: Invalid, NotFound, and Conflict if it changed hands meanwhile.
func (a *App) BreakLock(ctx context.Context, kind, name, actor, note string) (Lock, error) {
	if !slices.Contains(inventory.LockKinds(), inventory.LockKind(kind)) {
		return Lock{}, job.Errorf(job.Invalid, "break", "", "%.40q is no kind of lock (known: %s, %s, %s)", kind, inventory.ObjectLock, inventory.InventoryLock, inventory.LocalIDLock)
	}
	if strings.TrimSpace(note) == "" {
		return Lock{}, job.Errorf(job.Invalid, "break", "", "breaking a lock needs a reason: it stands in the audit list")
	}
	if err := cmp.Or(record.CheckText(note), record.CheckText(actor)); err != nil {
		return Lock{}, job.Errorf(job.Invalid, "break", "", "note or actor: %w", err)
	}
	if ark, err := noid.ParseARK(name); err == nil && inventory.LockKind(kind) != inventory.LocalIDLock {
		name = ark.String()
	}
	l, found, err := a.inventory.LockOf(ctx, inventory.LockKind(kind), name)
	if err != nil {
		return Lock{}, err
	}
	if !found {
		return Lock{}, job.Errorf(job.NotFound, "break", "", "nobody has the lock %s %.200q", kind, name)
	}
	was, err := a.seen(ctx, l)
	if err != nil {
		return Lock{}, err
	}
	entry := operator.Entry{By: lifecycle.Operator, Actor: cmp.Or(actor, "unknown"), Event: BreakLock, Object: l.String(), Note: note}
	if err := a.engine.Operator().Audit(ctx, entry); err != nil {
		return Lock{}, err
	}
	gone, err := a.inventory.Release(ctx, l)
	if err != nil {
		return Lock{}, err
	}
	if len(gone) == 0 {
		return Lock{}, job.Errorf(job.Conflict, "break", "", "%s changed hands meanwhile: look again", l)
	}
	a.line.freed(gone...)
	a.log.Warn("lock broken", "lock", l.String(), "holder", l.Job, "token", l.Token, "actor", actor, "note", note)
	return was, nil
}
