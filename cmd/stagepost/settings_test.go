package main

import (
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	ingestserve "github.com/stagepost/stagepost/app/ingest/serve"
	"github.com/stagepost/stagepost/host"
)

// of gives the settings of a module.
func of[S any](s *host.Settings) *S {
	for _, m := range s.Modules {
		if found, ok := m.Settings.(*S); ok {
			return found
		}
	}
	panic("no module has such settings")
}

func computeOf(s *host.Settings) *computeserve.Settings { return of[computeserve.Settings](s) }

func ingestOf(s *host.Settings) *ingestserve.Settings { return of[ingestserve.Settings](s) }
