package server_test

import (
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestVersionsOfEveryRoute: see [servertest.CheckVersions].
func TestVersionsOfEveryRoute(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	change := func(method, more, body string) servertest.Versioned {
		return func() (string, func() *http.Request) {
			read := "/api/v1/jobs/" + string(w.Post(engine.Order{}).ID)
			return read, func() *http.Request { return w.Request(method, read+more, body) }
		}
	}
	retry := func() (string, func() *http.Request) {
		read := "/api/v1/jobs/" + string(failedTask(w, "seal").ID)
		return read, func() *http.Request {
			return w.Request(http.MethodPost, read+"/tasks/retry", `{"task":"seal","note":"x","actor":"ann"}`)
		}
	}
	servertest.CheckVersions(t, w, w.Server.All(), map[string]servertest.Versioned{
		"POST /api/v1/jobs/{id}/tasks/retry":    retry,
		"POST /api/v1/jobs/{id}/events/{event}": change(http.MethodPost, "/events/hold", `{"note":"x"}`),
		"POST /api/v1/jobs/{id}/{event}":        change(http.MethodPost, "/hold", `{"note":"x"}`),
		"PUT /api/v1/jobs/{id}/priority":        change(http.MethodPut, "/priority", `{"priority":3}`),
	})
}
