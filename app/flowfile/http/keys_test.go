package flowhttp_test

import (
	"encoding/json"
	"net/http"
	"testing"

	flowhttp "github.com/stagepost/stagepost/app/flowfile/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestKeysOfEveryRoute: see [servertest.CheckKeys].
func TestKeysOfEveryRoute(t *testing.T) {
	w := openFlows(t, map[string]durable.Factory{"gives": gives})
	routes := flowhttp.Part(w.Server, nil).Routes
	servertest.CheckKeys(t, w.Harness, routes, map[string]servertest.Keyed{
		"POST /api/v1/flows": func(other bool, key string) *http.Request {
			o := client.FlowOrder{Factory: "gives", Args: json.RawMessage(`"one"`), Key: key}
			if other {
				o.Args = json.RawMessage(`"two"`)
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			return w.Request(http.MethodPost, "/api/v1/flows", string(text))
		},
	})
}
