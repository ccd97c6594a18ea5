package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// withStore asks the server that works on the data directory. If none does, it opens the store there; the store's own lock keeps two
// from opening it, so a server that starts meanwhile is no danger.
func withStore[T any](ctx context.Context, c *cli, ask func(context.Context, *client.Client) (T, error),
	look func(context.Context, *keeper) (T, error)) (answer T, err error) {
	if c.settings.Server != "" || c.served(ctx) {
		api, err := c.api()
		if err != nil {
			return answer, err
		}
		return ask(ctx, api)
	}
	dir, err := filepath.Abs(c.settings.Data)
	if err != nil {
		return answer, err
	}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.db")); err != nil {
		return answer, job.Errorf(job.NotFound, NoStore, "", "there is no store in %s", dir)
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	k := &keeper{store: store, lives: lifeOf, dir: dir, settings: c.host}
	k.compare = func(ctx context.Context) (ingest.Comparison, error) {
		profiles, err := openProfiles(c.host, dir)
		if err != nil {
			return ingest.Comparison{}, err
		}
		return ingest.CompareDir(ctx, ingest.Options{Dir: dir, Installation: store.Installation(), Records: store, Profiles: profiles})
	}
	return look(ctx, k)
}

// served tells whether a server answers at the address in the data directory.
func (c *cli) served(ctx context.Context) bool {
	api, err := c.api()
	if err != nil {
		return false
	}
	_, err = api.Health(ctx)
	return err == nil || client.ProblemOf(err) != nil
}
