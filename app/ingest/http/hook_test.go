package ingesthttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/job"
)

// pigeons has notifications as the application has them, the newest first, and keeps what it was asked.
type pigeons struct {
	all    []ingest.Delivery
	replay ingest.Replay
	pinged []string
}

func newPigeons() *pigeons {
	p := &pigeons{}
	for i := range 120 {
		at := time.Unix(int64(1_700_000_000+i), 0).UTC()
		p.all = append(p.all, ingest.Delivery{
			Number: int64(120 - i), Key: fmt.Sprintf("bat_1/%d/batch-completed/ear",
				i), Job: "bat_1", Type: "batch.completed", Profile: "maps", Hook: "ear",
			Host: "example.org", Created: at, Due: at, Attempts: 2, Status: hooklog.Pending, Error: "no",
			Tried: []job.Attempt{{At: at, Took: 5, Error: "no"}},
		})
	}
	return p
}

func (p *pigeons) Deliveries(_ context.Context, q ingest.DeliveryQuery) ([]ingest.Delivery, error) {
	if q.Status == "lost" {
		return nil, job.Errorf(job.Invalid, "hooks", "", "no such status")
	}
	limit := q.Limit
	if limit == 0 {
		limit = 50
	}
	var page []ingest.Delivery
	for _, d := range p.all {
		if (q.Before == 0 || d.Number < q.Before) && len(page) < limit {
			page = append(page, d)
		}
	}
	return page, nil
}

func (p *pigeons) Delivery(_ context.Context, key string) (ingest.Delivery, error) {
	i := slices.IndexFunc(p.all, func(d ingest.Delivery) bool { return d.Key == key })
	if i < 0 {
		return ingest.Delivery{}, job.Errorf(job.NotFound, "hooks", "", "there is no notification %s", key)
	}
	d := p.all[i]
	d.Payload = json.RawMessage(`{"type":"batch.completed"}`)
	return d, nil
}

func (p *pigeons) Replay(_ context.Context, r ingest.Replay) ([]string, error) {
	p.replay = r
	return r.Keys, nil
}

func (p *pigeons) Ping(_ context.Context, profile, hook, actor, _ string) ([]ingest.Ping, error) {
	p.pinged = []string{profile, hook, actor}
	return []ingest.Ping{{Hook: "ear", Host: "example.org", ID: "ping/1", Took: 3}}, nil
}

func TestHooks(t *testing.T) {
	p := newPigeons()
	w := open(t, func(o *options) { o.Hooks = p }, nil)
	var got []client.Hook
	q := client.HookQuery{Job: "bat_1", Status: "pending"}
	for pages := 1; ; pages++ {
		page, err := w.Client.Hooks(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Hooks...)
		if page.Next == "" {
			if pages != 3 {
				t.Errorf("got %d pages", pages)
			}
			break
		}
		q.After = page.Next
	}
	if len(got) != 120 {
		t.Fatalf("got %d", len(got))
	}
	if diff := cmp.Diff(client.Hook(p.all[7]), got[7]); diff != "" {
		t.Error(diff)
	}
	one, err := w.Client.Hook(t.Context(), p.all[3].Key)
	if err != nil || one.Key != p.all[3].Key || string(one.Payload) != `{"type":"batch.completed"}` {
		t.Errorf("got %+v, %v", one, err)
	}
	for _, key := range []string{"", "x", "bat_1/3/../x", "bat_1/%2e%2e"} {
		if _, err := w.Client.Hook(t.Context(), key); job.KindOf(err) != job.NotFound {
			t.Errorf("%q: got %v", key, err)
		}
	}
	if _, err := w.Client.Hooks(t.Context(), client.HookQuery{Status: "lost"}); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/hooks?limit=1001", ""), http.StatusBadRequest, job.Invalid)
	w.Problem(w.Request(http.MethodGet, "/api/v1/hooks?after=x", ""), http.StatusBadRequest, job.Invalid)
}

func TestReplayAndPing(t *testing.T) {
	p := newPigeons()
	w := open(t, func(o *options) { o.Hooks = p }, nil)
	since := time.Unix(1_700_000_000, 0).UTC()
	keys, err := w.Client.ReplayHooks(t.Context(),
		client.ReplayHooks{Keys: []string{"a", "b"}, Failed: true, Since: since, Actor: "ann", Note: "back"})
	want := ingest.Replay{Keys: []string{"a", "b"}, Failed: true, Since: since, Actor: "ann", Note: "back"}
	if diff := cmp.Diff(want, p.replay); err != nil || len(keys) != 2 || diff != "" {
		t.Errorf("got %v, %v\n%s", keys, err, diff)
	}
	pings, err := w.Client.PingHooks(t.Context(), client.PingHooks{Profile: "maps", Hook: "ear"})
	if err != nil || len(pings) != 1 || pings[0].ID != "ping/1" ||
		!slices.Equal(p.pinged, []string{"maps", "ear", "operator"}) {
		t.Errorf("got %+v, %v, %v", pings, err, p.pinged)
	}
	w.Problem(w.Request(http.MethodPost, "/api/v1/hooks/replay", ""), http.StatusUnsupportedMediaType, job.Invalid)
	w.Problem(w.Request(http.MethodPost, "/api/v1/hooks/ping", `{"url":"http://x"}`), http.StatusBadRequest,
		job.Invalid)
	none := open(t, nil, nil)
	none.Problem(none.Request(http.MethodGet, "/api/v1/hooks", ""), http.StatusNotFound, job.NotFound)
}

// TestHooksPage: the page has the receivers with their last result and the delivery log, and sends again what is
// selected, with a reason.
func TestHooksPage(t *testing.T) {
	p := newPigeons()
	p.all[0].Status, p.all[0].Error = hooklog.Abandoned, "status 500 <script>alert(1)</script>\u202e"
	p.all[7].Status = hooklog.Delivered
	w := open(t, func(o *options) { o.Hooks = p }, nil)
	answer, text := w.page("/hooks")
	for _, want := range []string{"<bdi>maps: ear</bdi>", `<span class="badge bad">abandoned</span>`,
		`<span class="badge good">delivered</span>`,
		`<td data-label="Open">118</td><td data-label="Abandoned">1</td>`,
		"Send all abandoned again", `href="/jobs/bat_1"`, `rel="next"`, "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, the page lacks %q: %s", answer.Status, want, text)
		}
	}
	if strings.Contains(text, "<script>alert") || strings.Contains(text, "\u202e") {
		t.Error("the page has a hostile text as it is")
	}
	send := func(fields string) (*http.Response, string) {
		r := w.Request(http.MethodPost, "/hooks/replay", fields)
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return w.Ask(r)
	}
	if answer, text := send("key=a&key=b&note=repaired"); answer.StatusCode != http.StatusSeeOther ||
		cmp.Diff([]string{"a", "b"}, p.replay.Keys) != "" || p.replay.Note != "repaired" {
		t.Errorf("got %s with %+v: %s", answer.Status, p.replay, text)
	}
	if answer, text := send("failed=yes&note=repaired"); answer.StatusCode != http.StatusSeeOther || !p.replay.Failed {
		t.Errorf("got %s with %+v: %s", answer.Status, p.replay, text)
	}
	if answer, _ := send("nonsense=1"); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s", answer.Status)
	}
}
