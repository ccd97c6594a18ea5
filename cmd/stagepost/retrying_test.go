package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/cli"
)

// TestSaysThatItRetries: a follower reports on standard error that its connection is lost, and continues. Standard
// output has nothing of it.
func TestSaysThatItRetries(t *testing.T) {
	const end = "event: job\ndata: {\"id\":\"ing_01M83NDKS22T6JGAMZGG29TJ69\",\"ended\":true,\"outcome\":\"ok\",\"state\":\"Completed\"}\n\n"
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(end))
		},
	}
	for _, c := range []struct{ output, want string }{
		{"plain", "stagepost: connection lost, retrying: "}, {"json", `{"detail":"connection lost, retrying: `},
	} {
		asked := 0
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answers[asked](w)
			asked++
		}))
		t.Cleanup(proxy.Close)
		var out, errs bytes.Buffer
		n := run([]string{"watch", "ing_01M83NDKS22T6JGAMZGG29TJ69", "--server", proxy.URL, "-o", c.output},
			strings.NewReader(""), &out, &errs)
		if n != cli.ExitOK || asked != 3 || strings.Count(errs.String(), "\n") != 1 ||
			!strings.HasPrefix(errs.String(), c.want) || strings.Contains(out.String(), "retrying") {
			t.Errorf("exit %d after %d requests\nout: %s\nerr: %s", n, asked, &out, &errs)
		}
	}
}
