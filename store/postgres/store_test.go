package postgres

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (job.Store, func() job.Store) {
		database := newDatabase(t)
		s := openStore(t, database, Options{CallerTime: true})
		return s, func() job.Store {
			closeStore(t, s)
			s = openStore(t, database, Options{CallerTime: true})
			return s
		}
	})
}
