package computehttp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
)

// TestTicketSecretStays asks for a job in every way there is: none gives the secret of its ticket away.
func TestTicketSecretStays(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	c.finish(j.ID, compute.Ending{}, "out.txt", "result")
	record, err := c.Engine.Store().Get(t.Context(), j.ID)
	if secret := `"secret":"` + p.parcel.Secret; err != nil || !strings.Contains(string(record.Data), secret) {
		t.Fatalf("control: the record has the secret: %v, %s", err, record.Data)
	}
	self := "/api/v1/jobs/" + string(j.ID)
	for _, path := range []string{
		self, self + "/history", self + "/why", self + "/log", self + "/tasks", self + "/events", "/api/v1/jobs",
		"/api/v1/jobs?kind=compute.job", "/api/v1/audit", "/api/v1/outbox", "/api/v1/queue", "/api/v1/stuck",
		"/api/v1/compute/jobs", "/api/v1/compute/jobs/" + string(j.ID), "/api/v1/compute/jobs/" + string(j.ID) +
			"/events",
	} {
		_, text := c.get(path)
		if strings.Contains(text, p.parcel.Secret) {
			t.Errorf("%s gives the secret of the ticket away: %s", path, text)
		}
		if path == self && !strings.Contains(text, `"remote":"r-`) {
			t.Errorf("control: %s has the data: %s", path, text)
		}
	}
}

// TestNoWorkerTakesCompute: a worker outside gets no compute job, whose record would give it the ticket, and which it
// could have run a second time.
func TestNoWorkerTakesCompute(t *testing.T) {
	c := openCompute(t, nil)
	for place, want := range map[string]int{
		`{"kind":"compute.job","state":"Queued"}`: http.StatusConflict, `{"kind":"compute.job","state":"Running"}`: http.StatusConflict,
		`{"kind":"test.letter","state":"Posted"}`: http.StatusOK, // the control
	} {
		r := c.Request(http.MethodPost, "/api/v1/worker/claim", `{"worker":"w1","n":1,"from":[`+place+`]}`)
		if answer, text := c.Ask(r); answer.StatusCode != want {
			t.Errorf("%s: %s %s", place, answer.Status, text)
		}
	}
}
