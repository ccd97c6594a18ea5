package ingesthttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	w := open(t, nil, nil)
	all := ingesthttp.Part(w.Server, ingesthttp.Options{}).Routes
	i := slices.IndexFunc(all, func(r server.Route) bool { return r.Pattern == "/api/v1/access" })
	servertest.CheckKeys(t, w.Harness, all, map[string]servertest.Keyed{
		"POST /api/v1/ingest/submissions": func(other bool, key string) *http.Request {
			r := w.Request(http.MethodPost, "/api/v1/ingest/submissions", form(
				"submission", fmt.Sprintf(`{"title":"%t","key":%q}`, other, key), "payload", "bytes"))
			r.Header.Set("Content-Type", "multipart/form-data; boundary=B")
			return r
		},
	})
	d := openDesk(t)
	servertest.CheckKeys(t, d.Harness, all[i:i+1], map[string]servertest.Keyed{
		"POST /api/v1/access": func(other bool, key string) *http.Request {
			format := map[bool]string{true: "tar", false: "zip"}[other]
			return d.Request(http.MethodPost, "/api/v1/access",
				fmt.Sprintf(`{"object":%q,"format":%q,"key":%q}`, vault, format, key))
		},
	})
}
