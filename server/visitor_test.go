package server

import (
	"net/http/httptest"
	"testing"
)

// TestAbsolute: an address to pass on is that of the setting, else that of the request.
func TestAbsolute(t *testing.T) {
	r := httptest.NewRequest("GET", "http://archive.example:8080/x", nil)
	for _, c := range []struct {
		of   Options
		want string
	}{
		{Options{}, "http://archive.example:8080/shared/a"},
		{Options{TLS: true}, "https://archive.example:8080/shared/a"},
		{Options{URL: "https://jobs.example.org/sub/", TLS: true}, "https://jobs.example.org/sub/shared/a"},
		{Options{URL: "https://jobs.example.org"}, "https://jobs.example.org/shared/a"},
	} {
		s := Server{Options: c.of}
		if got := s.Absolute(r, "/shared/a"); got != c.want {
			t.Errorf("%+v: got %s", c.of, got)
		}
	}
}
