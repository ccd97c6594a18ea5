package web_test

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/store/mem"
)

// draft is a lifecycle whose jobs wait for their owners, and may be held by an operator.
var draft = lifecycle.Must("test.draft",
	lifecycle.OnWait("Proof", "its author reads it",
		lifecycle.On("approve", "Printed", lifecycle.Owner, "the author approves it"),
		lifecycle.On("hold", "Held", lifecycle.Operator, "an operator holds it"),
		lifecycle.On("cancel", "Binned", lifecycle.Owner|lifecycle.Operator,
			"it is withdrawn").Sets(lifecycle.Cancelled)),
	lifecycle.OnWait("Held", "an operator holds it",
		lifecycle.On("release", "Proof", lifecycle.Operator, "it is released"),
		lifecycle.On("cancel", "Binned", lifecycle.Owner, "it is withdrawn").Sets(lifecycle.Cancelled)),
	lifecycle.OnEnd("Printed", lifecycle.OK, "it is printed"),
	lifecycle.OnEnd("Binned", lifecycle.None, "it was withdrawn"))

// press is a server with bags, the letters in them, and drafts. Its users are ann and bob, depositors, oscar, an
// operator, amy, an auditor, and ada, an admin.
type press struct {
	*servertest.Harness
	tokens map[string]string
}

// cookies are identities by a cookie with the name of a user, as browsers send it.
type cookies struct {
	identity.Source
	tokens map[string]string
}

func (c cookies) Identify(r *http.Request) (identity.Identity, error) {
	if user, err := r.Cookie("user"); err == nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.tokens[user.Value])
	}
	return c.Source.Identify(r)
}

func openPress(t *testing.T, change func(*server.Options)) press {
	t.Helper()
	file, secrets := filepath.Join(t.TempDir(), "tokens"), map[string]string{}
	for owner, role := range map[string]identity.Role{"ann": identity.Depositor, "bob": identity.Depositor,
		"oscar": identity.Operator, "amy": identity.Auditor, "ada": identity.Admin} {
		secret, err := token.New(rand.Reader)
		if err == nil {
			err = token.Add(file, token.Entry{Hash: secret.Hash(), Role: role, Owner: owner})
		}
		if err != nil {
			t.Fatal(err)
		}
		secrets[owner] = secret.Reveal()
	}
	tokens, err := token.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(mem.New(), []engine.Work{{Life: enginetest.Letter, Prefix: "let", Outside: true,
		Topics: []string{"test.news"}},
		{Life: enginetest.Note, Prefix: "not", Outside: true}, {Life: enginetest.Bag, Prefix: "bag", Outside: true},
		{Life: draft, Prefix: "dra", Outside: true}},
		engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Engine: e, Identities: cookies{tokens, secrets}, SignIn: true, Version: "test"}
	if change != nil {
		change(&o)
	}
	w := servertest.Serve(t, o, part,
		func(*servertest.Harness) server.Part {
			return server.Part{Numbers: []job.Kind{"test.bag"}, Pages: server.Pages{OwnerCauses: []string{"seal"},
				Kinds: map[job.Kind]server.Named{"test.bag": {One: "bag", Many: "bags"},
					"test.letter": {One: "letter", Many: "letters", Part: true}}}}
		})
	return press{w, secrets}
}

func (p press) order(kind job.Kind, owner string) job.ID {
	p.T.Helper()
	j, err := p.Submit(p.T.Context(), engine.Order{Kind: kind, Owner: owner})
	if err != nil {
		p.T.Fatal(err)
	}
	return j.ID
}

// workers is a client for workers.
func (p press) workers() *client.Client {
	p.T.Helper()
	c, err := client.New(p.Web.URL, client.Options{Token: client.NewSecret(p.tokens["ada"])})
	if err != nil {
		p.T.Fatal(err)
	}
	return c
}

// claim claims the only bag and returns the epoch.
func (p press) claim() int64 {
	p.T.Helper()
	claimed, err := p.workers().Claim(p.T.Context(), api.Claim{Worker: "clerk", N: 1,
		From: []job.KindState{{Kind: "test.bag", State: "Packed"}}})
	if err != nil || len(claimed) != 1 {
		p.T.Fatalf("got %v, %v", claimed, err)
	}
	return claimed[0].Epoch
}

// page opens a page as a user.
func (p press) page(who, path string) string {
	p.T.Helper()
	answer, text := p.AskPage(as(who, p.Request(http.MethodGet, path, "")))
	if answer.StatusCode != http.StatusOK {
		p.T.Fatalf("%s: got %s: %s", path, answer.Status, text)
	}
	return text
}

// as is a request of a user.
func as(who string, r *http.Request) *http.Request {
	r.AddCookie(&http.Cookie{Name: "user", Value: who})
	return r
}

// group returns the part of a page with a heading.
func group(page, heading string) string {
	_, after, _ := strings.Cut(page, ">"+heading+"</h2>")
	text, _, _ := strings.Cut(after, "</section>")
	return text
}

// TestMine: the page has the user's own jobs, whatever its role; those that wait for their owner are among those that
// need attention, and parts that are newer than the whole do not hide it.
func TestMine(t *testing.T) {
	p := openPress(t, nil)
	workers := p.workers()
	sealed := p.order("test.bag", "ann")
	results, err := workers.Report(t.Context(), api.Reports{Worker: "clerk", Reports: []api.Report{{Job: sealed,
		Epoch: p.claim(), Wait: &job.Blocker{Code: "seal", Sentence: "it waits for the seal"}}}})
	if err != nil || results[0].Problem != nil {
		t.Fatalf("got %+v, %v", results, err)
	}
	bag, proof, held := p.order("test.bag", "ann"), p.order("test.draft", "ann"), p.order("test.draft", "ann")
	withdrawn := p.order("test.draft", "bob")
	for id, event := range map[job.ID]lifecycle.Event{held: "hold", withdrawn: "cancel"} {
		if _, err := workers.Do(t.Context(), id, event, api.Act{Note: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 25 {
		p.order("test.letter", "ann")
	}
	page := p.page("ann", "/mine")
	attention, progress := group(page, "Needs your attention"), group(page, "In progress")
	for id, waits := range map[job.ID]bool{sealed: true, bag: false, proof: true, held: false} {
		if strings.Contains(attention, string(id)) != waits || strings.Contains(progress, string(id)) == waits {
			t.Errorf("%s: waits for its owner: %v: %s", id, !waits, page)
		}
	}
	if strings.Contains(page, "not submitted") || strings.Contains(page, "let_") ||
		strings.Contains(page, "continue by themselves") {
		t.Errorf("got %s", page)
	}
	if page := p.page("bob", "/mine"); !strings.Contains(group(page, "Ended"), string(withdrawn)) ||
		strings.Contains(page, "not submitted") {
		t.Errorf("a withdrawn draft: got %s", page)
	}
	own := p.order("test.bag", "oscar")
	if page := p.page("oscar", "/mine"); !strings.Contains(page, string(own)) || strings.Contains(page, string(bag)) {
		t.Errorf("an operator's own work: got %s", page)
	}
	if page := p.page("ada", "/mine"); !strings.Contains(page, "not submitted anything") {
		t.Errorf("an admin without work: got %s", page)
	}
}

// TestMineOfUnnamedParts: parts of which no application states that they are parts do not make the page claim that
// there is nothing.
func TestMineOfUnnamedParts(t *testing.T) {
	p := openPress(t, nil)
	bag := p.order("test.bag", "ann")
	parts := make([]api.Order, 25)
	for i := range parts {
		parts[i].Kind = "test.draft"
	}
	results, err := p.workers().Update(t.Context(), api.Reports{Worker: "clerk", Reports: []api.Report{{Job: bag,
		Epoch: p.claim(), Spawn: &api.Spawn{Expected: len(parts), From: 1, Jobs: parts}}}})
	if err != nil || results[0].Problem != nil {
		t.Fatalf("got %+v, %v", results, err)
	}
	page := p.page("ann", "/mine")
	if strings.Contains(page, "not submitted") || strings.Contains(page, "dra_") ||
		!strings.Contains(group(page, "In progress"), `href="/jobs?ended=false`) {
		t.Errorf("got %s", page)
	}
}

// TestPlainWords: the page of a job states to its owner why it waits without terms of operators, and so does the list.
// The control is the page of an operator.
func TestPlainWords(t *testing.T) {
	p := openPress(t, nil)
	id := p.order("test.letter", "ann")
	terms := []string{"is for workers outside", "priority ", "Work is counted from the claim",
		"What was checked and is not the reason"}
	page, control := p.page("ann", "/jobs/"+string(id)), p.page("oscar", "/jobs/"+string(id))
	_, page, _ = strings.Cut(page, "<main") // without the navigation
	if !strings.Contains(page, "it waits for something outside this server, and goes on by itself") {
		t.Errorf("the page does not state why it waits: %s", page)
	}
	for _, term := range terms {
		if strings.Contains(page, term) {
			t.Errorf("the page of its owner has %q: %s", term, page)
		}
		if !strings.Contains(control, term) {
			t.Errorf("the control: the page of an operator lacks %q", term)
		}
	}
}
