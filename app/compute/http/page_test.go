package computehttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/entered"
)

// openPages is openCompute with the pages of every server.
func openPages(t *testing.T, change func(*compute.Options, *options)) *computing {
	t.Helper()
	return openCompute(t, func(o *compute.Options, so *options) {
		logs, err := joblog.Open(t.TempDir(), joblog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = logs.Close() })
		so.Logs = logs
		so.before = []servertest.PartOf{func(w *servertest.Harness) server.Part { return web.Part(w.Server) }}
		if change != nil {
			change(o, so)
		}
	})
}

// pageForm is a form of the page as browsers send it.
func (c *computing) pageForm(parts ...part) *http.Request {
	r := c.form(nil, parts...)
	r.URL.Path = "/compute"
	return r
}

// browse does a request as a browser does.
func (c *computing) browse(r *http.Request) (*http.Response, string) {
	r.Header.Set("Accept", "text/html")
	return c.Ask(r)
}

func (c *computing) page(path string) string {
	c.T.Helper()
	answer, text := c.browse(c.Request(http.MethodGet, path, ""))
	if answer.StatusCode != http.StatusOK {
		c.T.Fatalf("%s: got %s: %s", path, answer.Status, text)
	}
	return text
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e"

// TestPagesOfCompute: the list with its filters, the output, results and inputs of a job.
func TestPagesOfCompute(t *testing.T) {
	c := openPages(t, nil)
	j := c.order(client.ComputeOrder{Name: "Count the words", Owner: "ann", Labels: map[string]string{"set": "odd"}},
		"run.sh", "wc -w text\n", "text", "a b c")
	p := c.runs(j.ID)
	p.write(client.Stdout, "3 words\n")
	if text := c.page("/jobs/" + string(j.ID)); !strings.Contains(text, ">3 words\n</pre>") ||
		!strings.Contains(text, `data-offset="8"`) || !strings.Contains(text, "Download what it has made so far") ||
		strings.Contains(text, "Download the results") {
		t.Errorf("a running job: %s", text)
	}
	p.end(compute.Ending{}, "counts.txt", "3")
	done := c.ended(j.ID)
	text := c.page("/jobs/" + string(j.ID))
	for _, want := range []string{"Download the results", done.Results.SHA256, "counts.txt?from=results",
		"text?from=inputs", done.Files[0].SHA256} {
		if !strings.Contains(text, want) {
			t.Errorf("an ended job: the page lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "data-offset") {
		t.Error("the page follows the output of a job that has ended")
	}
	link := regexp.MustCompile(`href="([^"]*counts.txt\?from=results)"`).FindStringSubmatch(text)
	if _, content := c.get(link[1]); content != "3" {
		t.Errorf("the link to the result leads to %q", content)
	}
	c.order(client.ComputeOrder{Service: "small", Name: "Another", Owner: "bea"})
	for q, want := range map[string][2]bool{"": {true, true}, "?service=wide": {true, false},
		"?owner=bea": {false, true}, "?label=set%3Dodd": {true, false}, "?name=Another": {false, true},
		"?outcome=ok": {true, false}} {
		text := c.page("/compute" + q)
		if strings.Contains(text, "Count the words") != want[0] || strings.Contains(text, ">Another<") != want[1] {
			t.Errorf("/compute%s: want %v: %s", q, want, text)
		}
	}
	several := url.Values{"service": {"wide", "small"}, "outcome": {"ok", "failed"}, "label": {"set=odd", "a=b"},
		"cause": {"x", "y"}, "limit": {"9"}, "owner": {"bea"}}
	if diff := cmp.Diff(several, servertest.Sent(c.page("/compute?"+several.Encode()), `<form class="filters"`),
		cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("the form loses filters of its address: %s", diff)
	}
	answer, _ := c.browse(c.Request(http.MethodGet, "/compute?service=&name=Another", ""))
	if answer.Header.Get("Location") != "/compute?name=Another" {
		t.Errorf("an empty filter leads to %q", answer.Header.Get("Location"))
	}
	if _, err := c.Client.CleanCompute(t.Context(), j.ID, client.Act{}); err != nil {
		t.Fatal(err)
	}
	if text := c.page("/jobs/" + string(j.ID)); !strings.Contains(text, "its files were removed") {
		t.Errorf("a cleaned job: %s", text)
	}
}

// TestOutputIsCut: the page has the end of a long output, from a whole line on.
func TestOutputIsCut(t *testing.T) {
	c := openPages(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	var b strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&b, "line %d é\n", i)
	}
	p.write(client.Stdout, b.String())
	text := c.page("/jobs/" + string(j.ID))
	_, out, _ := strings.Cut(text, `<pre class="output"`)
	_, out, _ = strings.Cut(out, ">")
	out, _, _ = strings.Cut(out, "</pre>")
	if !strings.HasPrefix(out, "line ") || !strings.HasSuffix(out, "line 8999 é\n") || strings.Contains(out,
		"line 1 ") ||
		!strings.Contains(text, "This is the end of it.") ||
		!strings.Contains(text, fmt.Sprintf(`data-offset="%d"`, b.Len())) {
		t.Errorf("got %.200q ... %q", out, out[max(0, len(out)-200):])
	}
}

// TestNewPage sends the form, without files and with some, and follows it to the page of the job.
func TestNewPage(t *testing.T) {
	c := openPages(t, func(o *compute.Options, _ *options) { o.UserBytes = 1 << 20 })
	text := c.page("/compute/new")
	for _, want := range []string{`enctype="multipart/form-data"`, "of 1.0 MiB", "0 of 50",
		"at most 1h of time, 1.0 GiB of memory",
		`data-uploads="/api/v1/compute/uploads"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the form lacks %q: %s", want, text)
		}
	}
	up := c.uploaded("big.bin", "large")
	answer, text := c.browse(c.pageForm(part{"key", "", "k1"}, part{"title", "", "Words"}, part{"service", "", "wide"},
		part{"command", "", "cat a\r\ncat big.bin"}, part{"wall", "", "30s"}, part{"memory", "", "64MiB"},
		part{"labels", "", "a=1, b=2"}, part{"upload", "", up}, part{"file", "a", "x"}))
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	id := job.ID(strings.TrimPrefix(answer.Header.Get("Location"), "/jobs/"))
	got := c.runs(id).inputs
	j, err := c.Client.ComputeJob(t.Context(), id)
	if err != nil || j.Name != "Words" || j.Labels["b"] != "2" || j.Asked.Memory != 64<<20 ||
		got["a"] != "x" || got["big.bin"] != "large" || got["run.sh"] != "#!/bin/bash\ncat a\ncat big.bin\n" {
		t.Errorf("got %+v with %v, %v", j, got, err)
	}
	if text := c.page("/compute/new"); !strings.Contains(text, "1 running, 0 waiting") || !strings.Contains(text,
		"1 of 50") {
		t.Errorf("the quota after one job: %s", text)
	}
}

// noFile is the part of a file field in which no file was chosen.
const noFile = "--edge\r\nContent-Disposition: form-data; name=\"service\"\r\n\r\nwide\r\n" +
	"--edge\r\nContent-Disposition: form-data; name=\"command\"\r\n\r\ntrue\r\n" +
	"--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n" +
	"Content-Type: application/octet-stream\r\n\r\n\r\n--edge--\r\n"

// TestNoFile: browsers send a file field in which nothing was chosen as a part without a name.
func TestNoFile(t *testing.T) {
	c := openPages(t, nil)
	r := c.Request(http.MethodPost, "/compute", noFile)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=edge")
	if answer, text := c.browse(r); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("got %s: %s", answer.Status, text)
	}
}

// TestRefusedForm: each mistake makes no job; the page states it and keeps what was filled in. The form of TestNewPage
// is the control.
func TestRefusedForm(t *testing.T) {
	c := openPages(t, func(o *compute.Options, _ *options) { o.UserBytes = 1000 })
	good := []part{{"title", "", "Kept " + hostile}, {"service", "", "small"}, {"command", "", "true"}}
	for want, more := range map[string][]part{
		"memory 2 GiB is more than the 1 GiB that its service allows": {{"memory", "", "2GiB"}},
		"time: ":                            {{"wall", "", "soon"}},
		"processors must be a number":       {{"cores", "", "NaN"}},
		"a label is written name=value":     {{"labels", "", "x"}},
		"there is no such upload":           {{"upload", "", strings.Repeat("A", 26)}},
		"two files":                         {{"file", "run.sh", "x"}},
		"uploads are flat":                  {{"file", "../evil", "x"}},
		"may have 1000 bytes of files here": {{"file", "big", strings.Repeat("x", 2000)}},
	} {
		answer, text := c.browse(c.pageForm(append(good[:3:3], more...)...))
		if answer.StatusCode < 400 || answer.StatusCode >= 500 || !strings.Contains(text, want) ||
			!strings.Contains(text, "The job was not made") || !strings.Contains(text, "Kept &#34;") ||
			strings.Contains(text, "<script>") {
			t.Errorf("%s: got %s: %s", want, answer.Status, text)
		}
	}
	for want, parts := range map[string][]part{ // the form has what was entered before and after the mistake
		"the form has no field": {{"nonsense", "", "x"}},
		"title was sent twice":  {{"title", "", "a"}, {"title", "", "b"}, {"note", "", "kept behind"}},
		"the field command has more than 65536 bytes": {{"command", "", strings.Repeat("é", 40_000)},
			{"note", "", "kept behind"}},
	} {
		status, behind := http.StatusBadRequest, len(parts) > 1
		if parts[0].name == "command" {
			status = http.StatusRequestEntityTooLarge
		}
		answer, text := c.browse(c.pageForm(append(good[:1:1], parts...)...))
		if answer.StatusCode != status || !strings.Contains(text, want) || !strings.Contains(text, "Kept &#34;") ||
			strings.Contains(text, `value="kept behind"`) != behind {
			t.Errorf("%s: got %s: %.3000s", want, answer.Status, text)
		}
		if status != http.StatusBadRequest && !strings.Contains(text, strings.Repeat("é", 32<<10)+"</textarea>") {
			t.Errorf("%s: the text is lost", want)
		}
	}
	if page, err := c.Client.ComputeJobs(t.Context(), client.ComputeQuery{}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("%d jobs were made, %v", len(page.Jobs), err)
	}
}

// TestPlainWords: a user reads why a job waits without terms of operators and without names of agents. The control is
// the page of an operator, which has both.
func TestPlainWords(t *testing.T) {
	tokens, secrets := tokensOf(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Operator, Owner: "oz"})
	c := openPages(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	as := func(name, path string) string {
		r := c.Request(http.MethodGet, path, "")
		r.Header.Set("Authorization", "Bearer "+secrets[name])
		_, text := c.browse(r)
		return text
	}
	first := c.pageForm(part{"title", "", "of ann"}, part{"service", "", "wide"}, part{"command", "", "true"})
	if _, err := c.app.Drain(t.Context(), "puppet", true, "oz", "new disks"); err != nil {
		t.Fatal(err)
	}
	first.Header.Set("Authorization", "Bearer "+secrets["ann"])
	answer, text := c.browse(first)
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	path := answer.Header.Get("Location")
	id := job.ID(strings.TrimPrefix(path, "/jobs/"))
	if _, err := c.Await(t.Context(), id, func(j *job.Job) bool { return j.Cause == "agents-drained" }); err != nil {
		t.Fatal(err)
	}
	const words = "the computers for it take nothing new at the moment"
	for _, of := range []string{path, "/compute", "/mine", "/jobs"} {
		if of != "/mine" && !strings.Contains(as("oz", of), "oz drains it (new disks)") {
			t.Errorf("the control: %s lacks the reason for an operator: %s", of, as("oz", of))
		}
		if text := as("ann", of); !strings.Contains(text, words) || strings.Contains(text, "puppet") {
			t.Errorf("%s for a user: %s", of, text)
		}
	}
}

// TestFormIsFilledIn: the form of a page about a refusal shows the form of a new job as it was filled in, and makes
// nothing. The form that it shows makes the job, which is the control.
func TestFormIsFilledIn(t *testing.T) {
	c := openPages(t, nil)
	parts := []part{{"title", "", "Count <words>"}, {"service", "", "wide"}, {"command", "", "wc -w"}}
	answer, text := c.browse(c.pageForm(append(parts, part{entered.FillIn, "", "yes"})...))
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, `value="Count &lt;words&gt;"`) ||
		!strings.Contains(text, ">wc -w</textarea>") || strings.Contains(text, "was not made") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	if page, err := c.Client.ComputeJobs(t.Context(), client.ComputeQuery{}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("%d jobs were made, %v", len(page.Jobs), err)
	}
	if answer, text := c.browse(c.pageForm(parts...)); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("the control: got %s: %s", answer.Status, text)
	}
}

// TestWhosePages: a user sees and makes its own jobs, an auditor makes none. The operator is the control.
func TestWhosePages(t *testing.T) {
	tokens, secrets := tokensOf(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Depositor, Owner: "bea"}, token.Entry{Role: identity.Operator, Owner: "oz"},
		token.Entry{Role: identity.Auditor, Owner: "aud"})
	c := openPages(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	as := func(name string, r *http.Request) (*http.Response, string) {
		r.Header.Set("Authorization", "Bearer "+secrets[name])
		return c.browse(r)
	}
	form := func() *http.Request {
		return c.pageForm(part{"title", "", "of ann"}, part{"service", "", "wide"}, part{"command", "", "true"})
	}
	answer, text := as("ann", form())
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	path := answer.Header.Get("Location")
	id := job.ID(strings.TrimPrefix(path, "/jobs/"))
	if _, err := c.Await(t.Context(), id, func(j *job.Job) bool { return j.State == compute.Running }); err != nil {
		t.Fatal(err)
	}
	c.puppet.get(id).write(client.Stdout, "private output")
	for name, sees := range map[string]bool{"ann": true, "bea": false, "oz": true, "aud": true} {
		_, list := as(name, c.Request(http.MethodGet, "/compute", ""))
		_, page := as(name, c.Request(http.MethodGet, path, ""))
		if strings.Contains(list, "of ann") != sees || strings.Contains(page, "private output") != sees {
			t.Errorf("%s sees it: %t: %s%s", name, !sees, list, page)
		}
		if may := name != "aud"; strings.Contains(list, `href="/compute/new"`) != may {
			t.Errorf("%s is offered the form: %t", name, !may)
		}
		if operator := name == "oz" || name == "aud"; strings.Contains(list, "<h2 id=\"agents\">") != operator {
			t.Errorf("%s sees the agents: %t", name, !operator)
		}
	}
	if answer, _ := as("aud", form()); answer.StatusCode != http.StatusForbidden {
		t.Errorf("an auditor makes a job: %s", answer.Status)
	}
}

// TestWhoseFiles: operators and auditors see which files a job of another user has, and neither download nor remove
// them; the page offers neither. The controls are the owner, an admin, and the operator's own job.
func TestWhoseFiles(t *testing.T) {
	tokens, secrets := tokensOf(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Operator, Owner: "oz"}, token.Entry{Role: identity.Auditor, Owner: "aud"},
		token.Entry{Role: identity.Admin, Owner: "ada"})
	c := openPages(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	as := func(name string, r *http.Request) (*http.Response, string) {
		r.Header.Set("Authorization", "Bearer "+secrets[name])
		return c.browse(r)
	}
	path := map[string]string{}
	for _, owner := range []string{"ann", "oz"} {
		answer, text := as(owner, c.pageForm(part{"title", "", "of " + owner}, part{"service", "", "wide"},
			part{"command", "", "true"}))
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("got %s: %s", answer.Status, text)
		}
		path[owner] = answer.Header.Get("Location")
		id := job.ID(strings.TrimPrefix(path[owner], "/jobs/"))
		if _, err := c.Await(t.Context(), id, func(j *job.Job) bool { return j.State == compute.Running }); err != nil {
			t.Fatal(err)
		}
		c.puppet.get(id).end(compute.Ending{}, "secret.txt", "4711")
		if _, err := c.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []struct {
		name, owner string
		may         bool
	}{
		{"ann", "ann", true}, {"ada", "ann", true}, {"oz", "ann", false}, {"aud", "ann", false}, {"oz", "oz", true},
	} {
		at := "/api/v1/compute" + path[who.owner]
		for _, file := range []string{at + "/files/run.sh", at + "/files/secret.txt", at + "/results"} {
			answer, text := as(who.name, c.Request(http.MethodGet, file, ""))
			if (answer.StatusCode == http.StatusOK) != who.may || !who.may && (answer.StatusCode !=
				http.StatusForbidden || !strings.Contains(text, "their owner and admins may")) {
				t.Errorf("%s for %s: got %s: %s", file, who.name, answer.Status, text)
			}
		}
		_, page := as(who.name, c.Request(http.MethodGet, path[who.owner], ""))
		for _, link := range []string{at + "/results", "/files/secret.txt?", "/compute" + path[who.owner] + "/clean"} {
			if strings.Contains(page, link) != who.may {
				t.Errorf("%s is offered %s: %t: %s", who.name, link, !who.may, page)
			}
		}
		if !strings.Contains(page, "secret.txt") ||
			strings.Contains(page, path[who.owner]+"/retry") != (who.name != "aud") {
			t.Errorf("the page for %s lacks the name of a file or the form to run it again: %s", who.name, page)
		}
	}
	id := strings.TrimPrefix(path["ann"], "/jobs/")
	clone := "/api/v1/compute/jobs/" + id + "/clone"
	for body, status := range map[string]int{`{"env":{"BASH_ENV":"$(cat secret.txt)"}}`: http.StatusForbidden,
		`{"priority":7}`: http.StatusCreated} {
		if answer, text := as("oz", c.Request(http.MethodPost, clone, body)); answer.StatusCode != status {
			t.Errorf("a clone by an operator with %s: got %s: %s", body, answer.Status, text)
		}
	}
	clean := "/api/v1/compute/jobs/" + id + "/clean"
	for _, who := range []struct {
		name   string
		status int
	}{{"oz", http.StatusForbidden}, {"ann", http.StatusOK}} {
		if answer, text := as(who.name, c.Request(http.MethodPost, clean, `{"note":"full"}`)); answer.StatusCode !=
			who.status {
			t.Errorf("clean by %s: got %s: %s", who.name, answer.Status, text)
		}
	}
}

// TestFormWithinGroups: the form and the lists of who is limited to a service are those of the service, as the API
// permits it. The control is a depositor without groups.
func TestFormWithinGroups(t *testing.T) {
	tokens, secrets := tokensOf(t, token.Entry{Role: identity.Depositor, Owner: "ann", Groups: "wide"},
		token.Entry{Role: identity.Depositor, Owner: "bea"})
	c := openPages(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	as := func(owner string, r *http.Request) *http.Request {
		r.Header.Set("Authorization", "Bearer "+secrets[owner])
		return r
	}
	send := func(owner, service string, status int) string {
		t.Helper()
		answer, text := c.browse(as(owner, c.pageForm(part{name: "service", text: service},
			part{name: "command", text: "true"}, part{name: "title", text: owner + " on " + service})))
		if answer.StatusCode != status {
			t.Errorf("%s on %s: got %s, want %d: %s", owner, service, answer.Status, status, text)
		}
		return text
	}
	send("ann", "wide", http.StatusSeeOther)
	if text := send("ann", "small", http.StatusForbidden); !strings.Contains(text, "limited to the groups wide") {
		t.Errorf("got %s", text)
	}
	send("bea", "small", http.StatusSeeOther)
	send("bea", "wide", http.StatusSeeOther)
	for owner, all := range map[string]bool{"ann": false, "bea": true} {
		for path, want := range map[string]string{"/compute/new": "wide", "/compute": owner + " on wide",
			"/api/v1/compute/jobs": owner + " on wide", "/api/v1/compute/usage": "wide"} {
			answer, text := c.browse(as(owner, c.Request(http.MethodGet, path, "")))
			if answer.StatusCode != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s, %s: got %s %s", owner, path, answer.Status, text)
			}
			if strings.Contains(text, "small") != all {
				t.Errorf("%s, %s: it has the other service: %v", owner, path, !all)
			}
		}
	}
	c.Problem(as("ann", c.Request(http.MethodGet, "/api/v1/compute/jobs?service=small", "")), http.StatusForbidden,
		job.Refused)
}

// TestActsOnThePage: a job that has ended is run again, and its files are removed, by the forms of its page.
func TestActsOnThePage(t *testing.T) {
	c := openPages(t, nil)
	j := c.order(client.ComputeOrder{Name: "Again"}, "run.sh", "x")
	path := "/compute/jobs/" + string(j.ID)
	c.runs(j.ID)
	post := func(path, fields string) (*http.Response, string) {
		r := c.Request(http.MethodPost, path, fields)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return c.browse(r)
	}
	if text := c.page("/jobs/" + string(j.ID)); strings.Contains(text, path+"/clean") {
		t.Error("the files of a running job can be removed")
	}
	if answer, text := post(path+"/clean", "note=x"); answer.StatusCode != http.StatusConflict ||
		!strings.Contains(text, "it has not ended") {
		t.Errorf("clean of a running job: got %s: %s", answer.Status, text)
	}
	c.finish(j.ID, compute.Ending{})
	if text := c.page("/jobs/" + string(j.ID)); !strings.Contains(text, path+"/clean") ||
		!strings.Contains(text, path+"/retry") {
		t.Errorf("the page has no forms: %s", text)
	}
	if answer, _ := post(path+"/retry", "note=x"); answer.StatusCode != http.StatusConflict {
		t.Errorf("a retry of what completed, without a confirmation: %s", answer.Status)
	}
	answer, text := post(path+"/retry", "note=x&confirm=yes&key=k")
	again := strings.TrimPrefix(answer.Header.Get("Location"), "/jobs/")
	if answer.StatusCode != http.StatusSeeOther || again == string(j.ID) {
		t.Fatalf("retry: got %s: %s", answer.Status, text)
	}
	if answer, _ := post(path+"/retry", "note=x&confirm=yes&key=k"); answer.Header.Get("Location") != "/jobs/"+again {
		t.Errorf("a form that is sent twice leads to %q", answer.Header.Get("Location"))
	}
	if text := c.page("/jobs/" + again); !strings.Contains(text, `<a href="/jobs/`+string(j.ID)+`">another job</a>`) {
		t.Errorf("the new job does not name the one that it repeats: %s", text)
	}
	if answer, text := post(path+"/clean", "note=done"); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("clean: got %s: %s", answer.Status, text)
	}
	if now, err := c.Client.ComputeJob(t.Context(), j.ID); err != nil || now.State != compute.Cleaned {
		t.Errorf("got %+v, %v", now.State, err)
	}
}

// browsed is a server for the tests in a browser: a job that runs, one with results, and one whose every text is
// hostile.
func browsed(t *testing.T, title string) (*computing, map[string]any) {
	c := openPages(t, nil)
	running := c.order(client.ComputeOrder{Name: "Temperatures of 2025", Owner: "ann"}, "run.sh", "sleep 1\n")
	c.runs(running.ID).write(client.Stdout, "reads station 1 of 40\nreads station 2 of 40\n")
	done := c.order(client.ComputeOrder{Name: title, Owner: "ann", Labels: map[string]string{"set": "books"}},
		"run.sh", "wc -w *\n", "text.txt", "a b c")
	p := c.runs(done.ID)
	p.write(client.Stdout, "3 text.txt\n")
	p.end(compute.Ending{}, "counts.txt", "3\n")
	c.ended(done.ID)
	return c, map[string]any{"running": running.ID, "done": done.ID, "title": title}
}

// TestBrowser runs scripts/browser/compute.mjs.
func TestBrowser(t *testing.T) {
	c, set := browsed(t, "Count the words")
	evil := c.order(client.ComputeOrder{Name: hostile, Owner: hostile[:40], Labels: map[string]string{"x": hostile}},
		"run.sh", "x", "<img src=x onerror=alert(1)>", "x")
	p := c.runs(evil.ID)
	p.write(client.Stdout, hostile)
	p.write(client.Stderr, hostile)
	set["evil"], set["piece"] = evil.ID, "written later "+hostile
	set["pages"] = []string{"/compute", "/compute/new", "/jobs/" + string(evil.ID),
		"/jobs/" + set1(set, "running"), "/jobs/" + set1(set, "done")}
	c.Web.Config.Handler = c.writing(c.Web.Config.Handler, p, hostile)
	c.Browser(t, "compute.mjs", set)
}

// writing lets the browser have a job write more: POST /test/write.
func (c *computing) writing(next http.Handler, p *payload, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/test/write" {
			p.write(client.Stdout, "written later "+text)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func set1(set map[string]any, name string) string { return string(set[name].(job.ID)) }
