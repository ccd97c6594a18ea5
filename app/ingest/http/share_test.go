package ingesthttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/app/ingest/share"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// guarded is a server that authenticates, whose letters are batches with hostile texts.
func guarded(t *testing.T, links *share.Links) *servertest.Guarded {
	t.Helper()
	return servertest.Guard(t, func(w *servertest.Harness) server.Part {
		return ingesthttp.Part(w.Server, ingesthttp.Options{Ingest: &reporter{report: hostile()}, Shares: links})
	})
}

// shares makes a link as its owner and returns its id and its path.
func shares(t *testing.T, g *servertest.Guarded, batch job.ID) client.Share {
	t.Helper()
	c, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(g.Tokens[identity.Depositor])})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	made, err := c.ShareBatch(t.Context(), batch, client.ShareOrder{Valid: "2h", Note: "for the faculty"})
	if err != nil || !strings.HasPrefix(made.Path, "/shared/") || len(made.Path) < len("/shared/")+32 {
		t.Fatalf("got %+v, %v", made, err)
	}
	return made
}

// TestShareWithoutReport: to share a batch, no report is made of all its objects. The page of the link is the control.
func TestShareWithoutReport(t *testing.T) {
	r := &reporter{report: hostile()}
	w := open(t, func(o *options) { o.Ingest = r }, nil)
	path := "/api/v1/ingest/batches/" + string(w.Post(engine.Order{}).ID) + "/shares"
	answer, text := w.Ask(w.Request(http.MethodPost, path, `{"note":"for the faculty","actor":"ann"}`))
	if n := r.made.Load(); answer.StatusCode != http.StatusCreated || n != 0 {
		t.Fatalf("%s, %d reports: %s", answer.Status, n, text)
	}
	_, shared, _ := strings.Cut(text, `"path":"`)
	shared, _, _ = strings.Cut(shared, `"`)
	if w.Ask(w.Request(http.MethodGet, shared, "")); r.made.Load() != 1 {
		t.Errorf("control: %d reports for the page %s", r.made.Load(), shared)
	}
}

// TestSharedBatch: who has a link reads this batch without an account or a cookie, and nothing else, until the link
// expires or is revoked. A request without the link is the control.
func TestSharedBatch(t *testing.T) {
	now := time.Now()
	links := share.Open(t.TempDir(), func() time.Time { return now })
	g := guarded(t, links)
	mine, other := g.Post(engine.Order{Owner: "ann"}).ID, g.Post(engine.Order{Owner: "ann"}).ID
	made := shares(t, g, mine)
	ask := func(method, path string) (*http.Response, string) {
		r := g.With("", method, path, "")
		r.Header.Set("Accept", "text/html")
		return g.Ask(r)
	}
	answer, text := ask(http.MethodGet, made.Path)
	servertest.CheckHeaders(t, answer)
	if answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 0 || !strings.Contains(text, string(mine)) ||
		!strings.Contains(text, "You read this by a link") || strings.Contains(text, "<script") ||
		strings.Contains(text, "<form") || strings.Contains(text, `href="/jobs`) || strings.Contains(text,
		string(other)) {
		t.Errorf("got %s with %v: %s", answer.Status, answer.Cookies(), text)
	}
	for _, format := range []string{"json", "text", "csv-failed"} {
		if answer, text := ask(http.MethodGet, made.Path+"/report?format="+format); answer.StatusCode != http.StatusOK {
			t.Errorf("the report as %s: got %s %s", format, answer.Status, text)
		}
	}
	secret := strings.TrimPrefix(made.Path, "/shared/")
	for _, path := range []string{"/batches/" + string(mine), "/jobs/" + string(mine), "/api/v1/jobs/" + string(mine),
		"/api/v1/ingest/batches/" + string(mine) + "/report", "/api/v1/ingest/batches/" + string(other) + "/report"} {
		r := g.With(secret, http.MethodGet, path, "") // nor is it a token
		if answer, _ := g.Ask(r); answer.StatusCode != http.StatusUnauthorized &&
			answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s with the secret as a token: got %s", path, answer.Status)
		}
		if answer, _ := ask(http.MethodGet, path); answer.StatusCode == http.StatusOK {
			t.Errorf("%s without an account: got %s", path, answer.Status)
		}
	}
	for _, path := range []string{"/shared/" + made.ID, "/shared/" + strings.ToLower(secret), "/shared/x"} {
		if answer, text := ask(http.MethodGet, path); answer.StatusCode != http.StatusNotFound ||
			!strings.Contains(text, "This link leads to nothing") {
			t.Errorf("%s: got %s %s", path, answer.Status, text)
		}
	}
	now = now.Add(2 * time.Hour)
	if answer, _ := ask(http.MethodGet, made.Path); answer.StatusCode != http.StatusNotFound {
		t.Errorf("an expired link: got %s", answer.Status)
	}
}

// TestWhoShares: the owner and operators list and revoke the links of a batch, others find no such batch. The audit log
// has who made and revoked them, and no secret.
func TestWhoShares(t *testing.T) {
	g := guarded(t, share.Open(t.TempDir(), time.Now))
	mine := g.Post(engine.Order{Owner: "ann"}).ID
	made := shares(t, g, mine)
	path := "/api/v1/ingest/batches/" + string(mine) + "/shares"
	for secret, want := range map[string]int{g.Tokens[identity.Depositor]: 200, g.Tokens[identity.Operator]: 200,
		g.Tokens[identity.Auditor]: 200, g.Bob: 404, "": 401} {
		answer, text := g.Ask(g.With(secret, http.MethodGet, path, ""))
		if answer.StatusCode != want || want == 200 && !strings.Contains(text, made.ID) ||
			strings.Contains(text, strings.TrimPrefix(made.Path, "/shared/")) {
			t.Errorf("got %s, want %d: %s", answer.Status, want, text)
		}
	}
	for secret, want := range map[string]int{g.Bob: 404, g.Tokens[identity.Auditor]: 403} {
		if answer, _ := g.Ask(g.With(secret, http.MethodDelete, path+"/"+made.ID, "")); answer.StatusCode != want {
			t.Errorf("revoke: got %s, want %d", answer.Status, want)
		}
	}
	if answer, text := g.Ask(g.With(g.Tokens[identity.Depositor], http.MethodDelete, path+"/"+made.ID+"?note=over",
		"")); answer.StatusCode != http.StatusOK || strings.Contains(text, made.ID) {
		t.Errorf("revoke: got %s %s", answer.Status, text)
	}
	if answer, _ := g.Ask(g.With("", http.MethodGet, made.Path, "")); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a revoked link: got %s", answer.Status)
	}
	g.Problem(g.With(g.Tokens[identity.Depositor], http.MethodDelete, path+"/"+made.ID, ""), http.StatusNotFound,
		job.NotFound)
	_, log := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodGet, "/api/v1/audit", ""))
	for _, want := range []string{`"share"`, `"unshare"`, `"ann"`, made.ID, "for the faculty", "over"} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %s: %s", want, log)
		}
	}
	if strings.Contains(log, strings.TrimPrefix(made.Path, "/shared/")) {
		t.Error("the audit log has the secret")
	}
	for _, body := range []string{`{"valid":"soon"}`, `{"valid":"366d"}`, `{"valid":"0s"}`} {
		g.Problem(g.With(g.Tokens[identity.Depositor], http.MethodPost, path, body), http.StatusBadRequest, job.Invalid)
	}
}

// TestShareForm: the form shows the link once, and the form of the list revokes it.
func TestShareForm(t *testing.T) {
	w := open(t, func(o *options) { o.Ingest = &reporter{report: hostile()} }, nil)
	id := string(w.Post(engine.Order{}).ID)
	send := func(path string, fields url.Values) (*http.Response, string) {
		r := w.Request(http.MethodPost, path, fields.Encode())
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return w.Ask(r)
	}
	answer, text := send("/batches/"+id+"/shares", url.Values{"valid": {"7d"}, "note": {"for ben"}})
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, "Copy this link now") {
		t.Fatalf("got %s %s", answer.Status, text)
	}
	_, after, _ := strings.Cut(text, `<a href="/shared/`)
	path, _, _ := strings.Cut(after, `"`)
	if want := `data-copy="` + w.Web.URL + "/shared/" + path + `"`; !strings.Contains(text, want) {
		t.Errorf("the page has no whole address to copy, %s: %s", want, text)
	}
	secret, _, _ := strings.Cut(after, `"`)
	if answer, _ := w.page("/shared/" + secret); answer.StatusCode != http.StatusOK {
		t.Errorf("the link of the page: got %s", answer.Status)
	}
	all, err := w.Client.BatchShares(t.Context(), job.ID(id))
	if err != nil || len(all) != 1 || all[0].Note != "for ben" {
		t.Fatalf("got %+v, %v", all, err)
	}
	if answer, text := send("/batches/"+id+"/shares/revoke", url.Values{"share": {all[0].ID}, "note": {""}}); answer.
		StatusCode != http.StatusSeeOther {
		t.Errorf("revoke: got %s %s", answer.Status, text)
	}
	if answer, _ := w.page("/shared/" + secret); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a revoked link: got %s", answer.Status)
	}
	if answer, _ := send("/batches/"+id+"/shares", url.Values{"valid": {"9000d"}}); answer.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("a link for too long: got %s", answer.Status)
	}
}

// TestRetryForm: the failed objects that can be tried again are, and the page states why others cannot.
func TestRetryForm(t *testing.T) {
	r := &reporter{}
	w := open(t, func(o *options) { o.Ingest = r }, nil)
	batch, child := w.Post(engine.Order{}).ID, w.Post(engine.Order{}).ID
	send := func() (*http.Response, string) {
		q := w.Request(http.MethodPost, "/batches/"+string(batch)+"/retry", "note=x")
		q.Header.Set("Accept", "text/html")
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return w.Ask(q)
	}
	r.report.Jobs = []client.JobReport{{Job: child, State: "Failed", Outcome: "failed"}}
	answer, text := send()
	if answer.StatusCode != http.StatusConflict || !strings.Contains(text, "retry") { // the letter has not failed
		t.Errorf("got %s %s", answer.Status, text)
	}
	claimed, err := w.Client.Claim(t.Context(), client.Claim{Worker: "clerk", N: 10,
		From: []job.KindState{{Kind: "test.letter", State: "Posted"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claimed {
		if c.ID != child {
			continue
		}
		if _, err := w.Client.Report(t.Context(), client.Reports{Worker: "clerk",
			Reports: []client.Report{{Job: c.ID, Epoch: c.Epoch, Fail: "lost"}}}); err != nil {
			t.Fatal(err)
		}
	}
	r.report.Jobs = append(r.report.Jobs, client.JobReport{Job: batch, State: "Failed", Outcome: "failed"},
		client.JobReport{Job: "let_ok", State: "Completed", Outcome: "ok"})
	answer, text = send()
	notice := ""
	for _, c := range answer.Cookies() {
		notice, _ = url.QueryUnescape(c.Value)
	}
	if answer.StatusCode != http.StatusSeeOther || !strings.HasPrefix(notice, "1 tried again; 1 cannot be: ") {
		t.Errorf("got %s, %q: %s", answer.Status, notice, text)
	}
	if j, err := w.Client.Job(t.Context(), child); err != nil || j.Ended {
		t.Errorf("the failed letter is %s, %v", j.State, err)
	}
}
