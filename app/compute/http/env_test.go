package computehttp_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestComputeLargeVariable has a variable with which the system would run nothing, and beside it the largest with which
// it does.
func TestComputeLargeVariable(t *testing.T) {
	c := openCompute(t, nil)
	for bytes, want := range map[int]int{128<<10 - 3: http.StatusCreated, 128<<10 - 2: http.StatusBadRequest} {
		body := `{"service":"wide","command":["true"],"env":{"A":"` + strings.Repeat("x", bytes) + `"}}`
		if answer, text := c.Ask(c.Request(http.MethodPost, "/api/v1/compute/jobs", body)); answer.StatusCode != want {
			t.Errorf("%d bytes: %s %.300s", bytes, answer.Status, text)
		}
	}
}
