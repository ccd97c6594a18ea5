package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestDeletes: an event deletes if it is named delete, or leads from a later state to a tombstone. Events that withdraw
// a job from its first state, or end it otherwise, are the control.
func TestDeletes(t *testing.T) {
	const people = lc.Operator | lc.Owner
	life := lc.Must("test.file",
		lc.OnWait("Asked", "A person asks for it.", lc.On("open", "Open", people, "It is opened."),
			lc.On("withdraw", "Gone", people, "It was not begun.")),
		lc.OnWait("Open", "People write in it.", lc.OnPass("close", "Closed", people, "It is complete."),
			lc.On("cancel", "Left", people, "It is not continued.").Sets(lc.Cancelled)),
		lc.OnEnd("Closed", lc.OK, "It is complete.", lc.On("discard", "Gone", people, "It is not needed any more.")),
		lc.OnEnd("Left", lc.Cancelled, "It is not complete."),
		lc.OnEnd("Gone", lc.None, "Only the record is left."))
	e, err := engine.New(mem.New(), []engine.Work{{Life: life, Prefix: "fil", Outside: true}}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Options{Engine: e})
	defer s.Close()
	for event, want := range map[lc.Event]bool{"delete": true, "discard": true, "withdraw": false, "cancel": false,
		"close": false, "open": false, "none": false} {
		if s.Deletes("test.file", event) != want {
			t.Errorf("%s deletes: %t", event, !want)
		}
	}
	if s.Deletes("test.none", "discard") || !s.Deletes("test.none", "delete") {
		t.Error("the events of a kind that the server does not know")
	}
}

// TestWhoDeletes: an operator deletes its own job alone, and why does not offer to it what it may not do. The controls
// are an admin, and a server without authentication, where each caller deletes.
func TestWhoDeletes(t *testing.T) {
	g := servertest.Guard(t)
	open := servertest.Open(t, nil, nil)
	for _, c := range []struct {
		on     *servertest.Harness
		role   identity.Role // empty: none
		owner  string
		status int
	}{
		{g.Harness, identity.Operator, "ann", http.StatusForbidden},
		{g.Harness, identity.Operator, "", http.StatusForbidden},
		{g.Harness, identity.Operator, "operator", http.StatusOK},
		{g.Harness, identity.Admin, "ann", http.StatusOK},
		{open, "", "ann", http.StatusOK},
	} {
		j := c.on.Post(engine.Order{Owner: c.owner})
		path := "/api/v1/jobs/" + string(j.ID)
		ask := func(method, path, body string) (int, string) {
			r := c.on.Request(method, path, body)
			if c.role != "" {
				r.Header.Set("Authorization", "Bearer "+g.Tokens[c.role])
			}
			answer, text := c.on.Ask(r)
			return answer.StatusCode, text
		}
		if status, text := ask(http.MethodPost, path+"/hold", `{"note":"n"}`); status != http.StatusOK {
			t.Fatalf("hold by %q: got %d %s", c.role, status, text)
		}
		may := c.status == http.StatusOK
		if _, text := ask(http.MethodGet, path+"/why", ""); strings.Contains(text, "stagepost delete") != may {
			t.Errorf("why offers to %q of %q to delete: %t: %s", c.role, c.owner, !may, text)
		}
		for _, as := range []string{"owner", "operator"} {
			status, text := ask(http.MethodPost, path+"/delete", `{"note":"n","confirm":true,"as":"`+as+`"}`)
			if may && as == "owner" { // the lifecycle refuses it, not the role
				if status != http.StatusConflict {
					t.Errorf("%q as owner: got %d %s", c.role, status, text)
				}
				continue
			}
			if status != c.status || !may && !strings.Contains(text, "may not delete the work of others: ask an admin") {
				t.Errorf("%q of %q as %s: got %d %s", c.role, c.owner, as, status, text)
			}
		}
	}
	c, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(g.Tokens[identity.Operator])})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), "let_none", "delete", client.Act{Note: "n"}); job.KindOf(err) != job.NotFound {
		t.Errorf("a job that does not exist: got %v", err)
	}
}
