package server_test

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/identity"
)

// TestActorsAreReserved: no new person or worker has the name of an actor of lifecycles, or what stands for a name that
// is withheld.
func TestActorsAreReserved(t *testing.T) {
	all := lifecycle.Worker | lifecycle.Timer | lifecycle.Operator | lifecycle.Owner | lifecycle.Engine
	for _, name := range append(strings.Split(all.String(), ","), job.Withheld) {
		if identity.CheckNewName(name) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
