package main

import (
	"github.com/stagepost/stagepost/docs"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// lives lists the lifecycles that the program knows without a server.
func lives() []*lifecycle.Table { return docs.All() }

// lifeOf finds a table among those of the program.
func lifeOf(k job.Kind) *lifecycle.Table {
	for _, t := range lives() {
		if t.Name() == string(k) {
			return t
		}
	}
	return nil
}
