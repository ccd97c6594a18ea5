package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestWhyOffersWhatIsPermitted: why offers, and the diagram marks, what the sender may do. A letter that is lost may be
// tried again by its owner and by operators, and be deleted by admins alone.
func TestWhyOffersWhatIsPermitted(t *testing.T) {
	g := servertest.Guard(t)
	id := g.Post(engine.Order{Owner: "ann"}).ID
	path := "/api/v1/jobs/" + string(id)
	admin := g.Tokens[identity.Admin]
	_, text := g.Ask(g.With(admin, http.MethodPost, "/api/v1/worker/claim",
		`{"worker":"clerk","n":1,"from":[{"kind":"test.letter","state":"Posted"}]}`))
	var claims struct{ Jobs []job.Job }
	if err := json.Unmarshal([]byte(text), &claims); err != nil || len(claims.Jobs) != 1 {
		t.Fatalf("got %s, %v", text, err)
	}
	report, err := json.Marshal(api.Reports{Worker: "clerk", Reports: []api.Report{{Job: id,
		Epoch: claims.Jobs[0].Epoch, Fail: "it is torn"}}})
	if err != nil {
		t.Fatal(err)
	}
	if answer, text := g.Ask(g.With(admin, http.MethodPost, "/api/v1/worker/report", string(report))); answer.
		StatusCode != http.StatusOK {
		t.Fatalf("got %s %s", answer.Status, text)
	}
	marked := map[identity.Role]int{}
	for role, offers := range map[identity.Role]string{identity.Depositor: "retry", identity.Operator: "retry",
		identity.Admin: "retry delete", identity.Auditor: ""} {
		_, text := g.Ask(g.With(g.Tokens[role], http.MethodGet, path+"/why", ""))
		_, drawing := g.Ask(g.With(g.Tokens[role], http.MethodGet, path+"/diagram.svg", ""))
		if role == identity.Operator && !strings.Contains(text, "Lost") {
			t.Fatalf("the letter is not lost: %s", text)
		}
		for _, event := range []string{"retry", "delete"} {
			want := strings.Contains(offers, event)
			if got := strings.Contains(text, "stagepost "+event+" "); got != want {
				t.Errorf("%s: why offers %s: %v: %s", role, event, got, text)
			}
		}
		marked[role] = strings.Count(drawing, " legal")
	}
	if marked[identity.Depositor] == 0 || marked[identity.Operator] != marked[identity.Depositor] ||
		marked[identity.Admin] <= marked[identity.Operator] || marked[identity.Auditor] != 0 {
		t.Errorf("the diagrams mark %v", marked)
	}
}
