package main

import (
	"github.com/stagepost/stagepost/app/ingest/access"
)

// openAccess opens the application that gives back what ingest stored.
func (r *running) openAccess(s *settings, stored access.Holdings) (*access.App, error) {
	app, err := access.New(access.Options{
		Dir: r.Data, Holdings: stored, Log: r.log, SmallBytes: s.AccessSmall, SmallWorkers: s.AccessWorkers, LargeWorkers: s.AccessLarge,
		MaxFiles: s.AccessFiles, MaxBytes: s.AccessBytes, Keep: forEver(s.AccessKeep),
	})
	if err != nil {
		return nil, err
	}
	r.apps = append(r.apps, app)
	r.closers = append(r.closers, app)
	return app, nil
}
