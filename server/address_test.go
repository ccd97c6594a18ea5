package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// behindProxy are options of a server that believes the proxy on this machine.
func behindProxy(o *server.Options) { o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// from sends a request as a proxy would, in the name of an address.
func from(g *servertest.Guarded, address string, role identity.Role, method, path, body string) string {
	g.T.Helper()
	r := g.With(g.Tokens[role], method, path, body)
	r.Header.Set("X-Forwarded-For", address)
	answer, text := g.Ask(r)
	if answer.StatusCode >= 300 {
		g.T.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return text
}

// TestAddressOfSender: what is done over HTTP has the address of the sender, in the history and in the audit log, as
// the trusted proxy states it. Without a trusted proxy, which is the control, the header is not believed. What no
// request causes has no address.
func TestAddressOfSender(t *testing.T) {
	for name, trusted := range map[string]bool{"a trusted proxy": true, "no proxy": false} {
		t.Run(name, func(t *testing.T) {
			g := servertest.GuardWith(t, func(g *servertest.Guarded, o *server.Options) {
				g.Tokens[identity.Worker] = addWorker(t, g, "carrier", "test.letter")
				if trusted {
					behindProxy(o)
				}
			})
			var j job.Job
			text := from(g, "192.0.2.1", identity.Operator, http.MethodPost, "/api/v1/jobs", `{"kind":"test.letter"}`)
			if err := json.Unmarshal([]byte(text), &j); err != nil {
				t.Fatal(err)
			}
			path := "/api/v1/jobs/" + string(j.ID)
			from(g, "192.0.2.2", identity.Operator, http.MethodPost, path+"/events/hold", `{"note":"wait"}`)
			from(g, "2001:db8::3", identity.Admin, http.MethodPost, path+"/events/release", `{"note":"go on"}`)
			from(g, "192.0.2.4", identity.Operator, http.MethodPut, path+"/priority", `{"priority":7,"note":"soon"}`)
			from(g, "192.0.2.5", identity.Operator, http.MethodPut, "/api/v1/holds", `{"group":"maps","why":"a flood"}`)
			from(g, "192.0.2.6", identity.Operator, http.MethodDelete, "/api/v1/holds?group=maps&why=dry", "")
			if _, err := g.Engine.Operator().SetPriority(t.Context(), j.ID, 0, 9, "olga", "here"); err != nil {
				t.Fatal(err)
			}
			text = from(g, "192.0.2.8", identity.Worker, http.MethodPost, "/api/v1/worker/claim", claimOf("", "Posted"))
			var claimed api.Claimed
			if err := json.Unmarshal([]byte(text), &claimed); err != nil || len(claimed.Jobs) != 1 {
				t.Fatalf("got %s, %v", text, err)
			}
			from(g, "192.0.2.9", identity.Worker, http.MethodPost, "/api/v1/worker/report",
				fmt.Sprintf(`{"worker":"carrier","reports":[{"job":%q,"epoch":%d}]}`, j.ID, claimed.Jobs[0].Epoch))
			acts := []string{"192.0.2.1", "192.0.2.2", "2001:db8::3", "192.0.2.4", "", "192.0.2.9"}
			log := []string{"192.0.2.1", "192.0.2.2", "2001:db8::3", "192.0.2.4", "192.0.2.5", "192.0.2.6", ""}
			if !trusted {
				for _, list := range [][]string{acts, log} {
					for i := range list {
						if list[i] != "" {
							list[i] = "127.0.0.1"
						}
					}
				}
			}
			checkAddresses(t, g, j.ID, acts, log)
		})
	}
}

// checkAddresses compares the addresses of a history and of the audit log, and the filter of the list.
func checkAddresses(t *testing.T, g *servertest.Guarded, id job.ID, acts, log []string) {
	t.Helper()
	history, err := g.Store().History(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range history {
		got = append(got, e.Address)
	}
	if diff := cmp.Diff(acts, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	var audits api.Audits
	list := func(query string) (got []string) {
		_, text := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodGet, "/api/v1/audit"+query, ""))
		if err := json.Unmarshal([]byte(text), &audits); err != nil {
			t.Fatal(err)
		}
		for _, a := range audits.Entries {
			got = append(got, a.Address)
		}
		return got
	}
	if diff := cmp.Diff(log, list("")); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
	if err := job.VerifyAudit(nil, audits.Entries); err != nil {
		t.Error(err)
	}
	for _, address := range []string{log[0], log[2]} {
		var want []string
		for _, one := range log {
			if one == address {
				want = append(want, one)
			}
		}
		if diff := cmp.Diff(want, list("?address="+address)); diff != "" {
			t.Errorf("entries from %s (-want +got):\n%s", address, diff)
		}
	}
}

// TestAuditByAddress: an address in any notation and a prefix select the same senders, and no others; what is neither
// is refused.
func TestAuditByAddress(t *testing.T) {
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { behindProxy(o) })
	all := []string{"192.0.2.7", "192.0.2.70", "192.0.3.7", "2001:db8::7", "2001:db8:1::7"}
	for i, address := range all {
		from(g, address, identity.Operator, http.MethodPut, "/api/v1/holds",
			fmt.Sprintf(`{"group":"g%d","why":"x"}`, i))
	}
	unknown := job.WithAddress(t.Context(), "unknown")
	if err := g.Engine.Operator().Audit(unknown, operator.Entry{Actor: "olga", Event: "note"}); err != nil {
		t.Fatal(err)
	}
	all = append(all, "unknown")
	for filter, want := range map[string][]string{
		"": all, "unknown": {all[5]},
		"192.0.2.7": {all[0]}, "::ffff:192.0.2.7": {all[0]}, "::FFFF:c000:207": {all[0]}, "192.0.2.7/32": {all[0]},
		"192.0.2.0/24": {all[0], all[1]}, "192.0.2.9/24": {all[0], all[1]}, "::ffff:192.0.2.0/120": {all[0], all[1]},
		"0.0.0.0/0": {all[0], all[1], all[2]}, "::/0": {all[3], all[4]}, "192.0.4.0/24": nil,
		"2001:db8::7": {all[3]}, "2001:0DB8:0:0::0007": {all[3]}, "2001:db8::7%eth0": {all[3]},
		"2001:db8::/48": {all[3]}, "2001:db8::/32": {all[3], all[4]}, "2001:db8::8": nil,
	} {
		for _, after := range []string{"", "&after=0"} {
			var got []string
			path := "/api/v1/audit?address=" + url.QueryEscape(filter) + after
			var audits api.Audits
			_, text := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodGet, path, ""))
			if err := json.Unmarshal([]byte(text), &audits); err != nil {
				t.Fatalf("%s: %s", path, text)
			}
			for _, a := range audits.Entries {
				got = append(got, a.Address)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
	}
	for _, wrong := range []string{"192.0.2", "192.0.2.0/33", "192.0.2.0/", "olga", "192.0.2.7:80", "[2001:db8::7]"} {
		r := g.With(g.Tokens[identity.Operator], http.MethodGet, "/api/v1/audit?address="+url.QueryEscape(wrong), "")
		if answer, text := g.Ask(r); answer.StatusCode != http.StatusBadRequest ||
			!strings.Contains(text, "must be an IP address") {
			t.Errorf("%s: got %s %s", wrong, answer.Status, text)
		}
	}
}

// TestAddressIsWithheld: a depositor sees the addresses of its own acts alone, wherever entries of a history are. An
// operator, who is the control, sees all.
func TestAddressIsWithheld(t *testing.T) {
	g := servertest.GuardWith(t, func(_ *servertest.Guarded, o *server.Options) { behindProxy(o) })
	var j job.Job
	text := from(g, "192.0.2.1", identity.Depositor, http.MethodPost, "/api/v1/jobs", `{"kind":"test.letter"}`)
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/jobs/" + string(j.ID)
	from(g, "192.0.2.2", identity.Operator, http.MethodPost, path+"/events/hold", `{"note":"wait"}`)
	for role, want := range map[identity.Role][]string{
		identity.Depositor: {"192.0.2.1", job.Withheld}, identity.Operator: {"192.0.2.1", "192.0.2.2"},
		identity.Auditor: {"192.0.2.1", "192.0.2.2"}, identity.Admin: {"192.0.2.1", "192.0.2.2"},
	} {
		var h api.History
		_, text := g.Ask(g.With(g.Tokens[role], http.MethodGet, path+"/history", ""))
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		for i, e := range h.History {
			if e.Address != want[i] {
				t.Errorf("%s, entry %d of the history: got %q, want %q", role, e.Seq, e.Address, want[i])
			}
		}
		for i, e := range streamed(t, g.With(g.Tokens[role], http.MethodGet, path+"/events", ""), len(want)) {
			if e.Address != want[i] {
				t.Errorf("%s, entry %d of the stream: got %q, want %q", role, e.Seq, e.Address, want[i])
			}
		}
		_, text = g.Ask(g.With(g.Tokens[role], http.MethodGet, path+"/why", ""))
		if shows := strings.Contains(text, "192.0.2.2"); shows && role == identity.Depositor {
			t.Errorf("%s: why has the address of another: %s", role, text)
		}
	}
}

// streamed returns the first entries of an event stream.
func streamed(t *testing.T, r *http.Request, n int) (all []job.Event) {
	t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	history := false
	for lines := bufio.NewScanner(answer.Body); len(all) < n && lines.Scan(); {
		text := lines.Text()
		if data, ok := strings.CutPrefix(text, "data: "); ok && history {
			var e job.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		history = text == "event: history"
	}
	if len(all) < n {
		t.Fatalf("%d entries, want %d", len(all), n)
	}
	return all
}

// TestEveryHandlerHasTheAddress: handlers of routes and those that authenticate by themselves get it from the context.
func TestEveryHandlerHasTheAddress(t *testing.T) {
	var got []string
	note := func(_ http.ResponseWriter, r *http.Request) error {
		got = append(got, job.AddressOf(r.Context()))
		return nil
	}
	w := servertest.Open(t, nil, nil, func(*servertest.Harness) server.Part {
		return server.Part{Routes: []server.Route{
			{Method: http.MethodGet, Pattern: "/read", Who: server.Anyone, Doc: "A test.", Handle: note},
			{Method: http.MethodPost, Pattern: "/act", Who: server.Operator, Doc: "A test.", Handle: note},
		}}
	})
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "http://localhost/read", nil),
		httptest.NewRequest(http.MethodPost, "http://localhost/act", nil),
	} {
		w.Server.ServeHTTP(httptest.NewRecorder(), r)
	}
	aside := w.Server.UnderIdentities(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = note(w, r) }))
	aside.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://localhost/", nil))
	if diff := cmp.Diff([]string{"192.0.2.1", "192.0.2.1", "192.0.2.1"}, got); diff != "" { // that of httptest
		t.Errorf("(-want +got):\n%s", diff)
	}
}
