package moodle

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestLongPage: a page of the Moodle that is too long is refused, not cut. The control has as many bytes as are
// allowed.
func TestLongPage(t *testing.T) {
	for size, fine := range map[int]bool{maxPage: true, maxPage + 1: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", size))
		}))
		defer server.Close()
		base, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSession(&client{base: base, token: "secret", http: server.Client()}, Login{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.exchange(t.Context(), server.URL+"/backup/restorefile.php", nil)
		if (err == nil) != fine || fine && len(a.text) != size {
			t.Errorf("%d bytes: got %d, %v", size, len(a.text), err)
		}
	}
}
