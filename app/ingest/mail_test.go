package ingest

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// withPost runs the application with a mail server.
func withPost(t *testing.T, p profile.Profile) (*harness, *postOffice) {
	t.Helper()
	post := openPost(t)
	o := options(t, t.TempDir(), p)
	o.Mail, o.Site = post.sender(t, "stagepost"), "https://ingest.example.org/"
	return startOn(t, mem.New(), o), post
}

// arrived waits until so many mails of a batch are settled, and gives the mails of the server.
func (w *harness) arrived(post *postOffice, batch job.ID, n int) []parcel {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	m := &crashHarness{t: w.t, store: w.store}
	if !m.settled(ctx, batch, n) {
		w.t.Fatal("the mails were not settled")
	}
	return post.all()
}

func (w *harness) retried(id job.ID) {
	w.t.Helper()
	if err := w.do(id, record.Retry); err != nil {
		w.t.Fatal(err)
	}
	w.end(id)
}

func (w *harness) updated(id job.ID) report.Batch {
	w.t.Helper()
	if err := w.do(id, record.Update); err != nil {
		w.t.Fatal(err)
	}
	w.end(id)
	return w.reported(id)
}

// TestMailsOfABatch follows a batch of three objects through two reports: receivers, thread, bodies, attachments.
func TestMailsOfABatch(t *testing.T) {
	p := testProfile()
	p.NotifyAlso, p.NotifyFailure = []string{"Desk <desk@example.org>"}, []string{"ops@example.org", "desk@example.org"}
	p.NotifyAdmins = []string{"root@example.org"}
	w, post := withPost(t, p)
	s := newSite(t, map[string]string{"a": "alpha"})
	b := w.end(w.submit(Submission{Notification: "Ann <ann@example.org>", Filename: "three.checkm"},
		manifest("mrt-single-file-batch-manifest", s.row("a", "l1", "Alpha"), s.row("b", "l2", "<b>Beta</b>"),
			s.row("c", "l3", "=HYPERLINK(1)"))).ID)
	w.arrived(post, b.ID, 2)
	s.put("b", "beta")
	first := w.reported(b.ID)
	for _, j := range first.Jobs[1:] {
		w.retried(j.Job)
	}
	second := w.updated(b.ID)
	mails := w.arrived(post, b.ID, 3)
	if len(mails) != 3 {
		t.Fatalf("got %d mails", len(mails))
	}
	checkEnvelopes(t, b.ID, mails)
	checkChanges(t, &second, &first)
	checkBodies(t, b.ID, mails[2].raw)
}

// checkEnvelopes compares subjects and receivers of three mails of a batch, and requires that they make one thread.
func checkEnvelopes(t *testing.T, batch job.ID, mails []parcel) {
	t.Helper()
	all := "ann@example.org desk@example.org root@example.org"
	failed := "ann@example.org desk@example.org ops@example.org root@example.org"
	for i, want := range []struct{ subject, id, reply, to string }{
		{"Ingest: OK -- Submission Queued: " + string(batch) + ";", "queued", "", all},
		{"Ingest: FAIL -- Submission Processed: " + string(batch) + ";", "report.0", "queued", failed},
		{"Ingest: FAIL -- Submission Processed: " + string(batch) + ";", "report.1", "report.0", failed},
	} {
		m := &mails[i]
		slices.Sort(m.to)
		reply := strings.Trim(m.head.Get("In-Reply-To"), "<>")
		got := []string{m.head.Get("Subject"),
			strings.TrimSuffix(strings.TrimPrefix(m.id(), string(batch)+"."), "@localhost"),
			strings.TrimSuffix(strings.TrimPrefix(reply, string(batch)+"."), "@localhost"), strings.Join(m.to, " ")}
		if diff := cmp.Diff([]string{want.subject, want.id, want.reply, want.to}, got); diff != "" {
			t.Errorf("mail %d: %s", i, diff)
		}
		if strings.Contains(string(m.raw), "root@") {
			t.Errorf("mail %d shows the blind copy", i)
		}
		if got := m.head.Get("Auto-Submitted"); got != "auto-generated" {
			t.Errorf("mail %d: Auto-Submitted is %q", i, got)
		}
	}
	if got := strings.Fields(mails[2].head.Get("References")); len(got) != 2 || got[0] != "<"+mails[0].id()+">" ||
		got[1] != "<"+mails[1].id()+">" {
		t.Errorf("references: %v", got)
	}
}

// checkBodies reads the second report.
func checkBodies(t *testing.T, batch job.ID, raw []byte) {
	t.Helper()
	text, html, attached := parts(t, raw)
	for _, want := range []string{
		"\nSubmission ID: " + string(batch) + "\nJob(s): \n\n\t:Number of pending job(s): 0\n\t:Number of completed " +
			"job(s): 2\n\t:Number of failed job(s): 1\n",
		"What happened: 2 of your 3 objects are stored. 1 could not be stored.",
		"1 object was stored that had not been stored before.",
		"1 object still could not be stored, as before.", "1 object is as it was.",
		"a file is not where the manifest says it is",
	} {
		if !strings.Contains("\n"+strings.TrimPrefix(text, "\n"), want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for _, want := range []string{"&lt;b&gt;Beta", "=HYPERLINK", "1 object was stored",
		`<a href="https://ingest.example.org/batches/` + string(batch) + `">`, "prefers-color-scheme: dark"} {
		if !strings.Contains(html, want) {
			t.Errorf("the HTML lacks %q", want)
		}
	}
	for _, never := range []string{"<b>Beta", "<script", "<img", "src=", "@import", "url(", "<link"} {
		if strings.Contains(html, never) {
			t.Errorf("the HTML has %q", never)
		}
	}
	checkAttached(t, attached, 2, 1)
	if !strings.Contains(attached["failed.csv"], "'=HYPERLINK(1)") {
		t.Errorf("failed.csv: %s", attached["failed.csv"])
	}
}

func checkChanges(t *testing.T, second, first *report.Batch) {
	t.Helper()
	none := []job.ID{}
	want := &report.Changes{Since: 0, Succeeded: []job.ID{first.Jobs[1].Job}, Newly: none,
		Failed: []job.ID{first.Jobs[2].Job}, Open: none, Deleted: none, Unchanged: 1}
	if diff := cmp.Diff(want, second.Changes); diff != "" {
		t.Error(diff)
	}
	if first.Changes != nil {
		t.Errorf("the first report has changes: %+v", first.Changes)
	}
}

// checkAttached reads the four attachments as receivers do.
func checkAttached(t *testing.T, attached map[string]string, completed, failed int) {
	t.Helper()
	if len(attached) != 4 {
		t.Errorf("got %d attachments", len(attached))
	}
	for name, want := range map[string]int{"completed": completed, "failed": failed} {
		var list map[string][]report.Job
		if err := json.Unmarshal([]byte(attached[name+".json"]), &list); err != nil || len(list[name+"Jobs"]) != want {
			t.Errorf("%s.json: %v, %s", name, err, attached[name+".json"])
		}
		rows, err := csv.NewReader(strings.NewReader(attached[name+".csv"])).ReadAll()
		if err != nil || len(rows) != want+1 ||
			strings.Join(rows[0], ",")+"\r\n" != string((&report.Batch{}).CSV(true)) {
			t.Errorf("%s.csv: %v, %v", name, err, rows)
		}
	}
}

// TestMailThatTheSubmissionCouldNotBeQueued reports a payload of which nothing can be made.
func TestMailThatTheSubmissionCouldNotBeQueued(t *testing.T) {
	p := testProfile()
	p.NotifyFailure = []string{"ops@example.org"}
	w, post := withPost(t, p)
	b := w.end(w.submit(Submission{Type: TypeBatchManifest, Filename: "x.checkm"}, "no manifest").ID)
	mails := w.arrived(post, b.ID, 1)
	if len(mails) != 1 || !strings.HasPrefix(mails[0].head.Get("Subject"),
		"Ingest: FAIL -- Submission Queue Failed: ") || !slices.Contains(mails[0].to, "ops@example.org") {
		t.Fatalf("got %+v", mails)
	}
	text, html, _ := parts(t, mails[0].raw)
	for _, body := range []string{text, html} {
		if !strings.Contains(body, "its manifest cannot be read") || !strings.Contains(body, "as a new submission") {
			t.Errorf("got %s", body)
		}
	}
	if r := w.reported(b.ID); !strings.Contains(r.Summary, "could not be read") ||
		!strings.Contains(r.Next, "new submission") {
		t.Errorf("got %q, %q", r.Summary, r.Next)
	}
}

func TestWhom(t *testing.T) {
	p := &profile.Profile{
		Notification: []string{"p@example.org"}, NotifyAlso: []string{"also@example.org", "ANN@example.org"},
		NotifyFailure: []string{"fail@example.org"}, NotifyAdmins: []string{"root@example.org", "also@example.org"},
	}
	for name, c := range map[string]struct {
		own    string
		failed bool
		want   receivers
	}{
		"the profile's": {"", false, receivers{To: []string{"p@example.org"},
			Cc: []string{"also@example.org", "ANN@example.org"}, Bcc: []string{"root@example.org"}}},
		"the depositor's": {"ann@example.org", false,
			receivers{To: []string{"<ann@example.org>"}, Cc: []string{"also@example.org"},
				Bcc: []string{"root@example.org"}}},
		"after a failure": {"ann@example.org", true,
			receivers{To: []string{"<ann@example.org>"}, Cc: []string{"also@example.org", "fail@example.org"},
				Bcc: []string{"root@example.org"}}},
		"no mistake": {"not an address", false, receivers{To: []string{"p@example.org"},
			Cc: []string{"also@example.org", "ANN@example.org"}, Bcc: []string{"root@example.org"}}},
	} {
		if diff := cmp.Diff(c.want, whom(p, &Submission{Notification: c.own}, c.failed)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	none := whom(&profile.Profile{}, &Submission{}, true)
	if !none.none() {
		t.Errorf("got %+v", none)
	}
}

func TestSubmissionWithAddressesThatCannotBeWrittenTo(t *testing.T) {
	w := start(t)
	for _, a := range []string{
		"not an address", "a@b\r\nBcc: evil@example.org", `"a b"@example.org`, "a@[127.0.0.1]", "-o@example.org",
		strings.Repeat("a@example.org,", maxOwn) + "b@example.org",
	} {
		if _, err := w.Submit(t.Context(), Submission{Profile: "test", Notification: a},
			strings.NewReader("x")); job.KindOf(err) != job.Invalid {
			t.Errorf("%q: got %v", a, err)
		}
	}
	if _, err := w.Submit(t.Context(), Submission{Profile: "test",
		Notification: "Ann Lee <ann@example.org>, bo@example.org"}, strings.NewReader("x")); err != nil {
		t.Errorf("control: %v", err)
	}
}

// shifted is a clock that a test puts forward.
type shifted struct {
	clock.Clock
	by *atomic.Int64
}

func (s shifted) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// hurry puts the clock forward until it is stopped, so that no test waits for the pauses between attempts.
func (s shifted) hurry() (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.by.Add(int64(10 * time.Minute))
			}
		}
	}()
	return func() { close(done); <-gone }
}

// refusing answers a step of the dialogue with a code, or with silence, so many times.
func refusing(at string, code, times int) func(step, hello string) error {
	var refused atomic.Int64
	return func(step, _ string) error {
		switch {
		case step != at || refused.Add(1) > int64(times):
			return nil
		case code == 0:
			return errHangUp
		}
		return &smtp.SMTPError{Code: code, Message: "no"}
	}
}

// TestMailServerThatRefuses goes the whole way, from the commit to the server: what is refused for now is sent again
// under the same Message-ID after the pauses of webhooks, what is refused permanently is abandoned with the reason.
func TestMailServerThatRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		step    string
		code    int
		times   int // that the server refuses
		settled job.Settled
		tries   int
	}{
		"for now, before the text":       {"data", 451, 2, job.Delivered, 3},
		"for now, after the text":        {"read", 452, 1, job.Delivered, 2},
		"for now, the receiver":          {"rcpt curator@example.org", 450, 1, job.Delivered, 2},
		"hangs up":                       {"data", 0, 1, job.Delivered, 2},
		"permanently, after the text":    {"read", 554, 1, job.Abandoned, 1},
		"permanently, the receiver":      {"rcpt curator@example.org", 550, 9, job.Abandoned, 1},
		"for now, again and again":       {"mail", 451, 99, job.Abandoned, 8},
		"permanently, another receiver":  {"rcpt desk@example.org", 550, 9, job.Delivered, 1},
		"control: takes it":              {"", 0, 0, job.Delivered, 1},
		"permanently, its administrator": {"rcpt root@example.org", 550, 9, job.Delivered, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testProfile()
			p.Suppress, p.NotifyAlso, p.NotifyAdmins = profile.SuppressPartial, []string{"desk@example.org"},
				[]string{"root@example.org"}
			post := openPost(t)
			o := options(t, t.TempDir(), p)
			o.Mail = post.sender(t, "stagepost")
			clock := shifted{clock.System(), new(atomic.Int64)}
			post.on(refusing(c.step, c.code, c.times))
			w := withClock(t, o, clock)
			b := w.end(w.submit(Submission{}, "text").ID)
			stop := clock.hurry()
			w.arrived(post, b.ID, 1)
			stop()
			messages, err := job.MessagesOf(t.Context(), w.store, b.ID)
			if err != nil || len(messages) != 1 {
				t.Fatalf("got %d messages, %v", len(messages), err)
			}
			m := messages[0]
			for i := 1; i < len(m.Tried); i++ {
				if pause := m.Tried[i].At.Sub(m.Tried[i-1].At); pause < webhook.Pause(i) {
					t.Errorf("attempt %d came %s after the one before", i+1, pause)
				}
			}
			if m.Settled != c.settled || m.Attempts != c.tries ||
				(c.settled == job.Abandoned) != strings.Contains(m.Error, fmt.Sprint(c.code)) {
				t.Errorf("got %q after %d attempts: %s", m.Settled, m.Attempts, m.Error)
			}
			got := post.all()
			if want := map[job.Settled]int{job.Delivered: 1}[c.settled]; len(got) != want {
				t.Fatalf("%d mails arrived, want %d", len(got), want)
			}
			if len(got) == 1 {
				refusedOne := strings.HasPrefix(name, "permanently")
				if got[0].id() != string(b.ID)+".report.0@localhost" || (len(got[0].to) == 2) != refusedOne {
					t.Errorf("got %s for %v", got[0].id(), got[0].to)
				}
			}
		})
	}
}

// TestMailOverTLSWithLogin goes the whole way, from the commit to a server that requires TLS and a login; without them
// nothing arrives, and the message has the reason.
func TestMailOverTLSWithLogin(t *testing.T) {
	users := map[string]string{"stagepost": "hunter2"}
	for name, c := range map[string]struct {
		offers  mail.TLSMode
		wants   mail.TLSMode
		user    string
		trusted bool
		settled job.Settled
	}{
		"STARTTLS":                {mail.StartTLS, mail.StartTLS, "stagepost", true, job.Delivered},
		"TLS":                     {mail.ImplicitTLS, mail.ImplicitTLS, "stagepost", true, job.Delivered},
		"STARTTLS, no login":      {mail.StartTLS, mail.StartTLS, "", true, job.Abandoned},
		"STARTTLS, unknown user":  {mail.StartTLS, mail.StartTLS, "stranger", true, job.Abandoned},
		"STARTTLS, not trusted":   {mail.StartTLS, mail.StartTLS, "stagepost", false, job.Abandoned},
		"TLS, not trusted":        {mail.ImplicitTLS, mail.ImplicitTLS, "stagepost", false, job.Abandoned},
		"no STARTTLS, but wanted": {mail.NoTLS, mail.StartTLS, "stagepost", true, job.Abandoned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			post := openSafePost(t, c.offers, users)
			m := mail.Options{Addr: post.addr, TLS: c.wants, User: c.user, Timeout: 5 * time.Second}
			if c.user != "" {
				m.Password = mail.Secret(users["stagepost"])
			}
			if c.trusted {
				m.RootCAs = post.pool
			}
			p := testProfile()
			p.Suppress = profile.SuppressPartial
			o := options(t, t.TempDir(), p)
			var err error
			if o.Mail, err = mail.SMTP(m); err != nil {
				t.Fatal(err)
			}
			w := startOn(t, mem.New(), o)
			b := w.end(w.submit(Submission{}, "text").ID)
			got := w.arrived(post, b.ID, 1)
			messages, err := job.MessagesOf(t.Context(), w.store, b.ID)
			if err != nil || len(messages) != 1 {
				t.Fatalf("got %d messages, %v", len(messages), err)
			}
			if msg := messages[0]; msg.Settled != c.settled || msg.Attempts != 1 ||
				(len(got) == 1) != (c.settled == job.Delivered) || strings.Contains(msg.Error, "hunter2") {
				t.Errorf("got %q after %d attempts, %d mails: %s", msg.Settled, msg.Attempts, len(got), msg.Error)
			}
		})
	}
}

// withClock runs the application under a clock.
func withClock(t *testing.T, o Options, clock clock.Clock) *harness {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(store, a.Works(), engine.Options{Deliver: a.Deliver(), Sweep: 5 * time.Millisecond,
		Lease: 1000 * time.Hour, Grace: 5 * time.Second, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	w := &harness{App: a, t: t, dir: o.Dir, store: store, e: e}
	w.run()
	return w
}

// TestMailOfAReportThatIsGone is abandoned, with the reason; it does not create the directory.
func TestMailOfAReportThatIsGone(t *testing.T) {
	w := start(t)
	body := []byte(`{"to":["a@example.org"],"subject":"s","message_id":"m@localhost","batch":"bat_gone","generation":3}`)
	err := w.deliverMail(t.Context(), job.Message{Key: "k", Body: body})
	if err == nil || cause.Temporary(err) || !strings.Contains(err.Error(), "report 3 of bat_gone is gone") {
		t.Errorf("got %v", err)
	}
	if names := w.workDirs(); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestAddressForLinks(t *testing.T) {
	for _, site := range []string{"ingest.example.org", "ftp://x", "https://", "https://x/?q", "https://u:p@x",
		"javascript:alert(1)"} {
		o := options(t, t.TempDir())
		o.Site = site
		if _, err := New(o); err == nil {
			t.Errorf("%q passes", site)
		}
	}
}

// TestReportsWithTheKeysOfMerritt reads failed.json and completed.json of a profile that asks for Merritt's keys, and
// the address for answers. A profile that does not is the control.
func TestReportsWithTheKeysOfMerritt(t *testing.T) {
	for _, form := range []profile.Form{profile.FormMerritt, profile.FormStagepost} {
		p := testProfile()
		p.Reports, p.ReplyTo = form, "Help <help@example.org>"
		w, post := withPost(t, p)
		s := newSite(t, map[string]string{"a": "alpha"})
		b := w.end(w.submit(Submission{Filename: "two.checkm", Note: "from the archive",
			Notification: "me@example.org", ResourceType: "Image/Photo", RetainTarget: true,
			DublinCore: map[string][]string{"subject": {"maps", "ink"}}}, manifest("mrt-single-file-batch-manifest",
			s.row("a", "l1;l2", "Alpha"), s.row("b", "l3", "Beta"))).ID)
		mails := w.arrived(post, b.ID, 2)
		for i := range mails {
			if got := mails[i].head.Get("Reply-To"); got != `"Help" <help@example.org>` {
				t.Errorf("mail %d: answers go to %q", i, got)
			}
		}
		_, _, attached := parts(t, mails[len(mails)-1].raw)
		var lists map[string][]map[string]any
		for name, want := range map[string]map[string]any{
			"completed": {"localID": "l1;l2", "status": "Completed", "message": "Success", "title": "Alpha",
				"creator": "A. Person", "date": "2009", "type": "file", "filename": "a", "submitter": "ann",
				"batchID": string(b.ID), "profile": "test", "versionID": 1.0, "update": false,
				"notificationFormat": "xml", "notification": "me@example.org", "note": "from the archive",
				"DataCiteResourceType": "Image/Photo", "DCsubject": "maps; ink", "retainTargetURL": "true"},
			"failed": {"localID": "l3", "status": "Failed", "title": "Beta", "type": "file", "update": false,
				"note": "from the archive", "DCsubject": "maps; ink"},
		} {
			if err := json.Unmarshal([]byte(attached[name+".json"]), &lists); err != nil ||
				len(lists[name+"Jobs"]) != 1 {
				t.Fatalf("%s.json: %v, %s", name, err, attached[name+".json"])
			}
			got := lists[name+"Jobs"][0]
			if form == profile.FormStagepost {
				if got["job"] == nil || got["jobID"] != nil {
					t.Errorf("control: %s.json: %v", name, got)
				}
				continue
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s.json: %s is %v, want %v", name, key, got[key], value)
				}
			}
			if size, ok := got["size"].(float64); !ok || size == 0 {
				t.Errorf("%s.json: size is %v", name, got["size"])
			}
			if got["jobID"] == nil || got["submissionDate"] == nil || got["message"] == "" || got["job"] != nil {
				t.Errorf("%s.json: %v", name, got)
			}
			if ark, _ := got["objectID"].(string); (ark != "") != (name == "completed") {
				t.Errorf("%s.json: objectID is %q", name, ark)
			}
		}
	}
}
