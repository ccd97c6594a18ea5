package host

import (
	"github.com/stagepost/stagepost/docs"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Lives lists the lifecycles that the program knows without a server.
func Lives() []*lifecycle.Table { return docs.All() }

// LifeOf finds a table among those of the program.
func LifeOf(k job.Kind) *lifecycle.Table {
	for _, t := range Lives() {
		if t.Name() == string(k) {
			return t
		}
	}
	return nil
}
