package zookeeper_test

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

func open(t *testing.T, srv *zktest.Server, o zookeeper.Options) *zookeeper.Store {
	t.Helper()
	o.SessionTimeout = 20 * zktest.Tick
	s, err := zookeeper.Open(t.Context(), []string{srv.Address}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestStore is the contract.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (job.Store, func() job.Store) {
		srv := zktest.Shared(t)
		s := open(t, srv, zookeeper.Options{})
		return s, func() job.Store {
			s.Close()
			s = open(t, srv, zookeeper.Options{})
			return s
		}
	})
}
