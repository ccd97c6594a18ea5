package host

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// kept keeps what is logged.
type kept struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(b)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// forgeries are texts that would make a line of their own, or act on a terminal.
var forgeries = []string{
	"x\ntime=2030-01-01T00:00:00.000Z level=ERROR msg=forged", "x\r\ntime=2030-01-01T00:00:00.000Z msg=forged",
	"x\n{\"time\":\"2030-01-01T00:00:00Z\",\"msg\":\"forged\"}", "x\x1b[2Jforged", "x\u2028time=2030 msg=forged",
	"x\" level=ERROR msg=forged",
}

// forged returns the lines of a log that a text has made, and those with control characters.
func forged(format, log string) (wrong []string) {
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		record := map[string]any{}
		switch {
		case strings.HasPrefix(line, "time=2030"), strings.HasPrefix(line, `{"time":"2030`),
			strings.ContainsAny(line, "\r\x1b\u2028"), strings.HasSuffix(line, `" level=ERROR msg=forged`),
			format == "json" && json.Unmarshal([]byte(line), &record) != nil,
			format == "text" && !strings.HasPrefix(line, "time="):
			wrong = append(wrong, line)
		}
	}
	return wrong
}

// TestLogInjection: whatever the path, the body and the header fields of a request have, the log of the server has one
// line for each record. The control is a log that writes texts as they are.
func TestLogInjection(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			secret, err := token.New(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			s := NewSettings()
			s.Data, s.Listen, s.Store, s.Tokens = dir, "127.0.0.1:0", "mem", filepath.Join(dir, "tokens")
			s.LogFormat = format
			if err := token.Add(s.Tokens, token.Entry{Hash: secret.Hash(), Role: identity.Admin,
				Owner: "ada"}); err != nil {
				t.Fatal(err)
			}
			var log kept
			logger, err := NewLog(&log, s.Common, new(slog.LevelVar))
			if err != nil {
				t.Fatal(err)
			}
			r, err := Start(t.Context(), s, logger)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range forgeries {
				body, err := json.Marshal(map[string]string{"note": f, "actor": f})
				if err != nil {
					t.Fatal(err)
				}
				q, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					r.URL+"/api/v1/jobs/"+url.PathEscape(f)+"/hold", bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Authorization", "Bearer "+secret.Reveal())
				q.Header.Set("Content-Type", "application/json")
				q.Header.Set("User-Agent", strings.Map(func(c rune) rune { return max(c, ' ') }, f))
				answer, err := http.DefaultTransport.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
			}
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
			text := log.String()
			if n := strings.Count(text, "forged"); n < len(forgeries) {
				t.Errorf("%d of %d requests are in the log: %s", n, len(forgeries), text)
			}
			if wrong := forged(format, text); len(wrong) > 0 {
				t.Errorf("the log has %q", wrong)
			}
			if strings.Contains(text, secret.Reveal()) {
				t.Error("the log has the token")
			}
			for _, f := range forgeries {
				raw := fmt.Sprintf("time=2026-01-01T00:00:00.000Z level=INFO msg=act path=\"%s\n", f)
				if len(forged(format, raw)) == 0 {
					t.Errorf("the control: %q is not found", raw)
				}
			}
		})
	}
}
