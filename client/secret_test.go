package client

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSecretNeverPrints prints a secret in every way; the control is the text itself.
func TestSecretNeverPrints(t *testing.T) {
	s := NewSecret("stp_geheim")
	text, err := json.Marshal(map[string]Secret{"token": s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", s, "options", Options{Token: s})
	c, err := New("http://127.0.0.1:1", Options{Token: s})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{
		fmt.Sprint(s), fmt.Sprintf("%s %v %+v %#v %x %q %d", s, s, s, s, s, s, s),
		fmt.Sprintf("%v %+v %#v", Options{Token: s}, Options{Token: s}, Options{Token: s}),
		fmt.Sprintf("%v %+v", c, *c), fmt.Errorf("x: %v", s).Error(), string(text), log.String(),
	} {
		if strings.Contains(got, "geheim") || strings.Contains(got, "67656865696d") {
			t.Errorf("it printed %s", got)
		}
	}
	if !strings.Contains(fmt.Sprintf("%v", struct{ s string }{"stp_geheim"}), "geheim") {
		t.Error("the control fails")
	}
}

// TestTokenIsSent holds what the server gets against the options.
func TestTokenIsSent(t *testing.T) {
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("{}"))
	}))
	defer web.Close()
	for _, token := range []string{"stp_x", ""} {
		c, err := New(web.URL, Options{Token: NewSecret(token)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Counts(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if len(got) != 2 || got[0] != "Bearer stp_x" || got[1] != "" {
		t.Errorf("got %q", got)
	}
}
