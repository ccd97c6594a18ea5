package server

import (
	"net/http/httptest"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// TestUnknownParameter: the refusal names the known parameters, or states that there are none.
func TestUnknownParameter(t *testing.T) {
	none := Params(httptest.NewRequest("GET", "/x?foo=1", nil))
	one := Params(httptest.NewRequest("GET", "/x?foo=1", nil))
	one.Text("bar")
	for want, p := range map[string]*Parameters{
		`there is no parameter "foo" (this address takes none)`: none,
		`there is no parameter "foo" (known: bar)`:              one,
	} {
		if got := job.Reason(p.Err()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
