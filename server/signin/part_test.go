package signin_test

import (
	"testing"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/signin"
)

// allowed has who may use the routes of sign-in.
var allowed = map[string]string{"/sign-in": "*", "/sign-out": "*", "/api/v1/session": "*", "/api/v1/admin/": "a"}

func TestRoutes(t *testing.T) {
	app, err := signin.Open(signin.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	part := func(w *servertest.Harness) server.Part { return signin.Part(w.Server, app) }
	servertest.CheckPart(t, allowed, map[string]any{"DELETE /api/v1/admin/sessions/{key}": nil}, part)
}
