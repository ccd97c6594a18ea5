package agent

import (
	"net/http"
	"testing"
)

// A page in a browser cannot have an agent without a token take no payloads any more; a program can.
func TestStrangersPage(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	_, server := w.remote(HandlerOptions{})
	ask := func(host string, header http.Header) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/drain", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host, r.Header = host, header
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	page := http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
	if got := ask("", page); got != http.StatusForbidden {
		t.Errorf("got %d", got)
	}
	same := http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"same-origin"}}
	if got := ask("evil.example", same); got != http.StatusMisdirectedRequest {
		t.Errorf("under another name: got %d", got)
	}
	if w.app.Draining() {
		t.Error("it did something all the same")
	}
	if got := ask("", nil); got != http.StatusOK || !w.app.Draining() {
		t.Errorf("control: got %d", got)
	}
}

// Without a module an agent has its own API and nothing else; with one the rest is the module's.
func TestOther(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	_, alone := w.remote(HandlerOptions{})
	_, beside := w.remote(HandlerOptions{Other: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusTeapot)
	})})
	for path, want := range map[string][2]int{
		"/v1/room": {200, 200}, "/": {404, http.StatusTeapot}, "/submit": {404, http.StatusTeapot},
		"/v1/none": {404, 404},
	} {
		for i, url := range []string{alone.URL, beside.URL} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != want[i] {
				t.Errorf("%s: got %d, want %d", path, a.StatusCode, want[i])
			}
		}
	}
}
