package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// TestFormsOfReaders: a page has a form only for those who may send it. The operator is the control.
func TestFormsOfReaders(t *testing.T) {
	p := openPress(t, nil)
	id := p.order("test.letter", "ann")
	workers := p.workers()
	claimed, err := workers.Claim(t.Context(), api.Claim{Worker: "clerk", N: 1,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("got %v, %v", claimed, err)
	}
	if _, err := workers.Update(t.Context(), api.Reports{Worker: "clerk", Reports: []api.Report{{Job: id,
		Epoch: claimed[0].Epoch, Messages: []api.Letter{{Topic: "test.news", Key: "sent",
			Body: json.RawMessage(`{"to":"bob"}`)}}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := workers.Hold(t.Context(), api.Hold{Scope: job.Scope{Group: "maps"}, Why: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/holds", "/locks", "/outbox", "/fixity", "/jobs?state=Lost", "/jobs/" + string(id)} {
		forms := func(who string) (all []string) {
			for _, of := range posts.FindAllStringSubmatch(p.page(who, path), -1) {
				if !slices.Contains([]string{"/theme", "/sign-out"}, of[1]) {
					all = append(all, of[1])
				}
			}
			return all
		}
		if got := forms("amy"); len(got) > 0 {
			t.Errorf("%s offers an auditor %q", path, got)
		}
		for _, action := range forms("oscar") {
			answer, text := p.AskPage(as("amy", p.Form(action, "x", "y")))
			if answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s: the form %s of an auditor: got %s %s", path, action, answer.Status, text)
			}
		}
	}
	for path, want := range map[string]string{"/holds": "/holds/release", "/outbox": "/outbox/replay"} {
		if page := p.page("oscar", path); !strings.Contains(page, `action="`+want+`"`) {
			t.Errorf("%s lacks the form %s for an operator: %s", path, want, page)
		}
		if page := p.page("amy", path); !strings.Contains(page, "maps") && !strings.Contains(page, "test.news") {
			t.Errorf("%s shows an auditor nothing: %s", path, page)
		}
	}
}

// TestIcon: the pages name an icon that the server has, so that a browser does not request /favicon.ico.
func TestIcon(t *testing.T) {
	p := openPress(t, nil)
	page := p.page("ann", "/mine")
	answer, icon := p.Ask(p.Request(http.MethodGet, "/assets/icon.svg", ""))
	if !strings.Contains(page, `<link rel="icon" type="image/svg+xml" href="/assets/icon.svg">`) ||
		answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "image/svg+xml" ||
		!strings.HasPrefix(icon, "<svg ") {
		t.Errorf("got %s %s: %s", answer.Status, answer.Header.Get("Content-Type"), page)
	}
}

// TestFailedLast: the overview counts the jobs that failed and lists them, without the parts of others.
func TestFailedLast(t *testing.T) {
	p := openPress(t, nil)
	ids := map[job.Kind]job.ID{"test.note": "", "test.letter": ""}
	for kind, state := range map[job.Kind]lifecycle.State{"test.note": "Written", "test.letter": "Posted"} {
		ids[kind] = p.order(kind, "ann")
		claimed, err := p.workers().Claim(t.Context(), api.Claim{Worker: "clerk", N: 1,
			From: []job.KindState{{Kind: kind, State: state}}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("got %v, %v", claimed, err)
		}
		results, err := p.workers().Report(t.Context(), api.Reports{Worker: "clerk", Reports: []api.Report{{
			Job: ids[kind], Epoch: claimed[0].Epoch, Fail: "it is torn"}}})
		if err != nil || results[0].Problem != nil {
			t.Fatalf("got %+v, %v", results, err)
		}
	}
	page := p.page("oscar", "/")
	for !strings.Contains(page, "Jobs were searched") { // the page does not wait for the search
		page = p.page("oscar", "/")
	}
	if !strings.Contains(page, "<span>1 job failed</span> <a href=\"/jobs?outcome=failed&amp;outcome=timed-out&amp;kind=test.note&amp;state=Torn\">") ||
		strings.Contains(page, "Nothing. All jobs") {
		t.Errorf("the overview does not state what failed: %s", page)
	}
	if last := group(page, "Failed last"); !strings.Contains(last, string(ids["test.note"])) ||
		strings.Contains(last, string(ids["test.letter"])) {
		t.Errorf("failed last: %s", last)
	}
}

// TestRefusedHold: the form of a hold that is refused is shown again as it was sent, with the mistake and the job that
// it is about.
func TestRefusedHold(t *testing.T) {
	p := openPress(t, nil)
	answer, page := p.AskPage(as("oscar", p.Form("/holds", "kind", "test.bag", "state", "Posted", "group", "maps",
		"owner", "ann", "tag", "a=b", "job", "let_none", "until", "2099-01-01T10:00", "why", `the shelf "x" is full`)))
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("got %s", answer.Status)
	}
	for _, want := range []string{"let_none: there is no such job", `value="test.bag" selected`,
		`<option selected>Posted`, `name="group" value="maps"`, `name="owner" value="ann"`, `name="tag" value="a=b"`,
		`name="job" value="let_none"`,
		`value="2099-01-01T10:00"`, `value="the shelf &#34;x&#34; is full"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if _, page := p.AskPage(as("oscar", p.Request(http.MethodGet, "/jobs/let_none", ""))); !strings.Contains(page,
		"<code>let_none</code>") {
		t.Errorf("the page about a job that does not exist does not name it: %s", page)
	}
}
