package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	e, err := engine.New(mem.New(), []engine.Work{
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
