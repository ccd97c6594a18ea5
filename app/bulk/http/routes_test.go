package bulkhttp_test

import (
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/servertest"
)

// allowed lists the roles for each path prefix: see [servertest.CheckRoles].
var allowed = map[string]string{
	"/api/v1/bulk": "oa",
}

// reasonIn lists the type in which each route that needs a reason reads it; nil: in the query.
var reasonIn = map[string]any{
	"POST /api/v1/bulk": client.Bulk{},
}

func TestEveryRoute(t *testing.T) {
	servertest.CheckPart(t, allowed, reasonIn, part)
}
