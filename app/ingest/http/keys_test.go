package ingesthttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	w := open(t, nil, nil)
	servertest.CheckKeys(t, w.World, w.Server.All(), map[string]servertest.Keyed{
		"POST /api/v1/ingest/submissions": func(other bool, key string) *http.Request {
			r := w.Request(http.MethodPost, "/api/v1/ingest/submissions", form(
				"submission", fmt.Sprintf(`{"title":"%t","key":%q}`, other, key), "payload", "bytes"))
			r.Header.Set("Content-Type", "multipart/form-data; boundary=B")
			return r
		},
	})
	d := openDesk(t)
	route := "POST /api/v1/access"
	servertest.CheckKeys(t, d.World, []server.Route{{Method: http.MethodPost, Pattern: "/api/v1/access"}}, map[string]servertest.Keyed{
		route: func(other bool, key string) *http.Request {
			format := map[bool]string{true: "tar", false: "zip"}[other]
			return d.Request(http.MethodPost, "/api/v1/access", fmt.Sprintf(`{"object":%q,"format":%q,"key":%q}`, vault, format, key))
		},
	})
}
