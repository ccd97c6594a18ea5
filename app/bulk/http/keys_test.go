package bulkhttp_test

import (
	"fmt"
	"net/http"
	"testing"

	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	w := openBulk(t)
	routes := bulkhttp.Part(w.Server, nil).Routes
	servertest.CheckKeys(t, w, routes, map[string]servertest.Keyed{
		"POST /api/v1/bulk": func(other bool, key string) *http.Request {
			return w.Request(http.MethodPost, "/api/v1/bulk", fmt.Sprintf(
				`{"kinds":["test.letter"],"event":"hold","note":"other is %t","expect":1,"key":%q}`, other, key))
		},
	})
}
