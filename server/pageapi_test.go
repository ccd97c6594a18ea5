package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestWorkers: those that have jobs are listed with their leases, and with the number of those that have expired.
func TestWorkers(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for range 5 {
		w.Post(engine.Order{})
	}
	now := w.Engine.Clock().Now()
	for _, c := range []job.Claim{{Worker: "able", N: 3, Lease: time.Minute}, {Worker: "zoe", N: 1, Lease: 1}} {
		c.From, c.Now = []job.KindState{{Kind: "test.letter", State: "Posted"}}, now
		if got, err := w.Store().Claim(t.Context(), c); err != nil || len(got) != c.N {
			t.Fatalf("%+v: got %d, %v", c, len(got), err)
		}
	}
	all, err := w.Client.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][2]int{}
	for _, one := range all {
		got[one.Name] = [2]int{one.Jobs, one.Expired}
	}
	if got["able"] != [2]int{3, 0} || got["zoe"] != [2]int{1, 1} {
		t.Errorf("got %v", got)
	}
}

// TestThroughput: a job that ends is counted once, also when it is deleted later.
func TestThroughput(t *testing.T) {
	w := servertest.Open(t, nil, servertest.Worked)
	w.Run()
	for range 3 {
		id := w.Post(engine.Order{}).ID
		if _, err := w.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.Do(t.Context(), id, "delete", client.Act{Confirm: true}); err != nil {
			t.Fatal(err)
		}
	}
	// The hint of a commit may come after its answer.
	count := func() (n int64) {
		all, err := w.Client.Throughput(t.Context())
		if err != nil || len(all.Hours) != 24 {
			t.Fatalf("got %+v, %v", all, err)
		}
		for _, h := range all.Hours {
			for _, k := range h.Kinds {
				n += k.Jobs
			}
		}
		return n
	}
	until := time.Now().Add(10 * time.Second)
	for count() < 3 && time.Now().Before(until) {
	}
	if n := count(); n != 3 {
		t.Errorf("%d jobs are counted, 3 ended", n)
	}
}

// TestDiagramThen draws a job as it was.
func TestDiagramThen(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	j := w.Post(engine.Order{})
	path := "/api/v1/jobs/" + string(j.ID) + "/diagram.svg"
	if _, err := w.Client.Do(t.Context(), j.ID, "hold", client.Act{}); err != nil {
		t.Fatal(err)
	}
	_, now := w.Ask(w.Request(http.MethodGet, path, ""))
	_, then := w.Ask(w.Request(http.MethodGet, path+"?at="+url.QueryEscape(j.Created.Format(time.RFC3339Nano)), ""))
	if !strings.Contains(now, "Now: Held.") || !strings.Contains(then, "Now: Posted.") {
		t.Errorf("now %v, then %v", strings.Contains(now, "Now: Held."), strings.Contains(then, "Now: Posted."))
	}
}

// TestAsk: an operation is asked in the name of the sender of the outer request, and its refusal is an error with the
// same kind. The operator is the control.
func TestAsk(t *testing.T) {
	g := servertest.Guard(t)
	foreign := g.Post(engine.Order{Owner: "bob"}).ID
	for role, kind := range map[identity.Role]job.ErrorKind{identity.Depositor: job.NotFound, identity.Operator: ""} {
		outer := g.With(g.Tokens[role], http.MethodPost, "/", `{"garbage": true}`)
		outer.Header.Set("If-None-Match", "*")
		text, err := g.Server.Ask(outer, http.MethodGet, "/api/v1/jobs/"+string(foreign), nil)
		if kind == "" && (err != nil || !strings.Contains(string(text), string(foreign))) {
			t.Errorf("as %s: got %s, %v", role, text, err)
		}
		if kind != "" && job.KindOf(err) != kind {
			t.Errorf("as %s: got %s, %v", role, text, err)
		}
	}
	anonymous := g.With("", http.MethodGet, "/", "")
	if _, err := g.Server.Ask(anonymous, http.MethodGet, "/api/v1/counts", nil); job.KindOf(err) != job.Refused {
		t.Errorf("without a token: got %v", err)
	}
}
