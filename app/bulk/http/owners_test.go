package bulkhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestMixedOwners: who is no operator neither changes nor counts jobs by a bulk, not even its own: previews, starts and
// forms are refused without a number. The control is an operator of all jobs; TestBulkWithinGroups has those of groups.
func TestMixedOwners(t *testing.T) {
	g := servertest.Guard(t, part)
	own := g.Post(engine.Order{Owner: "ann", Group: "maps"})
	for range 6 {
		g.Post(engine.Order{Owner: "bob", Group: "secretmaps"})
	}
	const body = `{"kinds":["test.letter"],"event":"hold","note":"a flood","expect":%d}`
	form := "kind=test.letter&event=hold&note=a+flood&expect=7"
	asks := func(secret string) (all []*http.Request) {
		for _, n := range []int{1, 7} {
			all = append(all, g.With(secret, http.MethodPost, "/api/v1/bulk", fmt.Sprintf(body, n)))
		}
		all = append(all, g.With(secret, http.MethodPost, "/api/v1/bulk?dry=true", fmt.Sprintf(body, 1)),
			g.With(secret, http.MethodPost, "/api/v1/bulk", strings.Replace(fmt.Sprintf(body, 1), `"kinds"`,
				`"group":"maps","kinds"`, 1)),
			g.With(secret, http.MethodGet, "/bulk?kind=test.letter&event=hold", ""))
		sent := g.With(secret, http.MethodPost, "/bulk", form)
		sent.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return append(all, sent)
	}
	for name, secret := range map[string]string{
		"a depositor": g.Tokens[identity.Depositor], "an auditor": g.Tokens[identity.Auditor],
		"a worker": g.Tokens[identity.Worker],
	} {
		for _, r := range asks(secret) {
			if r.Method == http.MethodGet && name == "an auditor" { // it may read everything
				continue
			}
			answer, text := g.Ask(r)
			if answer.StatusCode != http.StatusForbidden || strings.Contains(text, "secretmaps") ||
				strings.Contains(text, "7 jobs") || strings.Contains(text, string(own.ID)) {
				t.Errorf("%s: %s %s: %s %s", name, r.Method, r.URL, answer.Status, text)
			}
		}
	}
	page, err := g.Store().List(t.Context(), job.Query{Limit: 100})
	if err != nil || len(page.Jobs) != 7 {
		t.Fatalf("%d jobs, %v: a bulk was made", len(page.Jobs), err)
	}
	for i := range page.Jobs {
		if page.Jobs[i].Version != 1 {
			t.Errorf("%s was changed", page.Jobs[i].ID)
		}
	}
	answer, text := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodPost, "/api/v1/bulk?dry=true",
		fmt.Sprintf(body, 1)))
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, `"count":7`) ||
		!strings.Contains(text, "secretmaps") {
		t.Errorf("the control: %s %s", answer.Status, text)
	}
}

// TestWhoDeletesInBulk: an operator deletes by a bulk only jobs that are its own, and the page does not offer the
// event. The control is an admin.
func TestWhoDeletesInBulk(t *testing.T) {
	g := servertest.Guard(t, part)
	g.Post(engine.Order{Owner: "ann"})
	const body = `{%s"kinds":["test.letter"],"event":"delete","note":"a flood","expect":1,"confirm":true}`
	for _, c := range []struct {
		role   identity.Role
		owner  string
		status int
	}{
		{identity.Operator, "", http.StatusForbidden},
		{identity.Operator, `"owner":"ann",`, http.StatusForbidden},
		{identity.Operator, `"owner":"operator",`, http.StatusOK},
		{identity.Admin, "", http.StatusOK},
	} {
		for path, status := range map[string]int{"/api/v1/bulk?dry=true": http.StatusOK,
			"/api/v1/bulk": http.StatusBadRequest} { // it is let in, and this engine has no bulks
			if c.status != http.StatusOK {
				status = c.status
			}
			answer, text := g.Ask(g.With(g.Tokens[c.role], http.MethodPost, path, fmt.Sprintf(body, c.owner)))
			if answer.StatusCode != status ||
				status == http.StatusForbidden && !strings.Contains(text, "may not delete the work of others") {
				t.Errorf("%s %s as %s: got %s %s", path, c.owner, c.role, answer.Status, text)
			}
		}
	}
	for role, offered := range map[identity.Role]bool{identity.Operator: false, identity.Admin: true} {
		_, text := g.Ask(g.With(g.Tokens[role], http.MethodGet, "/bulk?kind=test.letter", ""))
		if strings.Contains(text, "<option>delete</option>") != offered ||
			!strings.Contains(text, "<option>hold</option>") {
			t.Errorf("the page for %s: %s", role, text)
		}
	}
}
