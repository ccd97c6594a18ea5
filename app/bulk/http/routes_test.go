package bulkhttp_test

import (
	"testing"

	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists the roles for each path prefix: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/bulk": "oa", "/bulk": "oa",
}

// reasonIn lists the type in which each route that needs a reason reads it; nil: in the query.
var reasonIn = map[string]any{
	"POST /api/v1/bulk": client.Bulk{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, part)
}

// TestFilters: see [servertest.CheckFilters].
func TestFilters(t *testing.T) {
	w := openBulk(t)
	servertest.CheckFilters(t, w, bulkhttp.Part(w.Server, nil).Routes, nil, nil)
}

// TestAbsent: see [servertest.CheckAbsent].
func TestAbsent(t *testing.T) {
	absent := func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, nil) }
	servertest.CheckAbsent(t, absent, openBulk(t), map[string]string{"/": "module bulk"})
}
