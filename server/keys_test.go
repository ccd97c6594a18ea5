package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	t.Run("mem", func(t *testing.T) { keysOfEveryRoute(t, mem.New()) })
	t.Run("sqlite", func(t *testing.T) {
		store, err := sqlite.Open(t.TempDir(), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		keysOfEveryRoute(t, store)
	})
}

func keysOfEveryRoute(t *testing.T, store job.Store) {
	e, err := engine.New(store, []engine.Work{
		{Life: servertest.Letter, Prefix: "let", Outside: true, Orders: true},
	}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e})
	servertest.CheckKeys(t, w, w.Server.All(), map[string]servertest.Keyed{
		"POST /api/v1/jobs": func(other bool, key string) *http.Request {
			return w.Request(http.MethodPost, "/api/v1/jobs", fmt.Sprintf(
				`{"kind":"test.letter", "spec":{"other": %t}, "key":%q}`, other, key))
		},
	})
}
