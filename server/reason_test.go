package server_test

import (
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// reasonIn lists, independently of the routes, in which type each route that needs a reason reads it; nil: in the
// query.
var reasonIn = map[string]any{
	"POST /api/v1/jobs/{id}/events/{event}": client.Act{},
	"POST /api/v1/jobs/{id}/{event}":        client.Act{},
	"PUT /api/v1/jobs/{id}/priority":        client.Priority{},
	"POST /api/v1/jobs/{id}/tasks/retry":    client.TaskRetry{},
	"PUT /api/v1/holds":                     client.Hold{},
	"DELETE /api/v1/holds":                  nil,
	"DELETE /api/v1/locks":                  nil,
	"POST /api/v1/outbox/replay":            client.Replay{},
	"POST /api/v1/workers/{name}/drain":     api.WorkerDrain{},
	"POST /api/v1/workers/{name}/resume":    api.WorkerDrain{},
	"POST /api/v1/fixity":                   client.CheckFixity{},
	"POST /api/v1/admin/fsck":               client.Fsck{},
	"POST /api/v1/admin/clock":              client.ConfirmClock{},
	"POST /api/v1/admin/backup":             client.Backup{},
}

func TestReasons(t *testing.T) {
	servertest.CheckReasons(t, reasonIn)
}

// TestReasonsPreview: what only reads needs no reason, whatever the names of its fields; a body of a DELETE
// counts for nothing. Without tokens only who acts as owner needs none.
func TestReasonsPreview(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.ReasonsRequired = true }, nil)
	path := "/api/v1/jobs/" + string(w.Post(engine.Order{Owner: "ann"}).ID)
	for _, c := range []struct {
		method, path, body string
		refused            bool
	}{
		{http.MethodPost, "/api/v1/admin/fsck", `{}`, false},
		{http.MethodPost, "/api/v1/admin/fsck", `{"repair":true}`, true},
		{http.MethodPost, "/api/v1/admin/fsck", `{"REPAIR":true}`, true},
		{http.MethodPost, "/api/v1/admin/fsck", `{"repair":true,"Note":"counts"}`, false},
		{http.MethodDelete, "/api/v1/holds?group=g", `{"why":"in the body"}`, true},
		{http.MethodDelete, "/api/v1/holds?group=g&why=done", "", false},
		{http.MethodPost, path + "/hold", "", true},
		{http.MethodPost, path + "/hold", "null", true},
		{http.MethodPost, path + "/hold", `{"note":5}`, true},
		{http.MethodPost, path + "/hold", `{"as":"operator"}`, true},
		{http.MethodPost, path + "/hold", `{"as":"owner"}`, false},
		{http.MethodPost, path + "/hold", `[`, false}, // refused by the handler
	} {
		answer, text := w.Ask(w.Request(c.method, c.path, c.body))
		if got := servertest.ReasonRefused(text); got != c.refused || got &&
			answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s %s: %s %s", c.method, c.path, c.body, answer.Status, text)
		}
	}
}
