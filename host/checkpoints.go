package host

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/host/stores"
)

// Names in the directory with the files of jobs.
const (
	CheckpointsName = "checkpoints"
	signingKeyName  = "signing-key"
)

// Checkpoints returns what signs checkpoints of the histories of a store, whose files are in dir; nil: the store has no
// numbers of all entries. Without a store it only reads.
func (s *Settings) Checkpoints(
	dir string, store *stores.Store, log *slog.Logger, leads func() bool,
) *history.Checkpoints {
	o := history.CheckpointOptions{
		File: filepath.Join(dir, CheckpointsName), Key: cmp.Or(s.CheckpointKey, filepath.Join(dir, signingKeyName)),
		Every: s.CheckpointEvery, Keep: s.RecordsKeep, Log: log, Leads: leads,
	}
	if store != nil {
		if store.Histories == nil {
			return nil
		}
		o.Source, o.Installation = store.Histories, store.Installation
	}
	return history.NewCheckpoints(o)
}

// lastCheckpointTime is how long the checkpoint at the end may take.
const lastCheckpointTime = 10 * time.Second

// lastCheckpoint signs what was committed since the last checkpoint, at an orderly stop.
func (r *Server) lastCheckpoint() {
	if r.signed == nil || r.alive() != nil || !r.Engine.Leads() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastCheckpointTime)
	defer cancel()
	_ = r.signed.Round(ctx) // it logs
}
