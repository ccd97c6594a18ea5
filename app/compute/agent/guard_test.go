package agent

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"testing"
)

// A page in a browser cannot hand an agent without a token a payload, or have it take none any more; a program can.
func TestStrangersPage(t *testing.T) {
	w := newWorld(t, writes(0), nil)
	_, server := w.remote(HandlerOptions{})
	ask := func(path, host string, header http.Header) int {
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		f, err := m.CreateFormFile("file", scriptName)
		if err == nil {
			_, err = io.WriteString(f, "echo")
		}
		if err != nil || m.Close() != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, &form)
		if err != nil {
			t.Fatal(err)
		}
		r.Host, r.Header = host, header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Content-Type", m.FormDataContentType())
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	page := http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
	for _, path := range []string{"/submit", "/v1/drain"} {
		if got := ask(path, "", page); got != http.StatusForbidden {
			t.Errorf("%s: got %d", path, got)
		}
		if got := ask(path, "evil.example", http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"same-origin"}}); got != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: got %d", path, got)
		}
		if w.app.Draining() || w.runner.count() != 0 {
			t.Error("it did something all the same")
		}
	}
	for _, path := range []string{"/submit", "/v1/drain"} {
		if got := ask(path, "", nil); got != http.StatusOK {
			t.Errorf("control: %s: got %d", path, got)
		}
	}
}
