package ingest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/job"
)

// hookReceiver is a receiver of notifications: it verifies each and keeps what it took. It answers as its function
// does, 200 without.
type hookReceiver struct {
	*httptest.Server
	t       *testing.T
	secrets []webhook.Secret
	answer  func(nth int, w http.ResponseWriter) // of the nth call, from 1

	mu    sync.Mutex // guards the rest
	calls int
	taken map[string][]notice // by id
	came  chan struct{}
}

// notice is a notification that came. Its data is empty for a ping.
type notice struct {
	webhook.Event
	Data job.Job `json:"data"`
	Body string  `json:"-"`
}

func newHookReceiver(t *testing.T, secrets ...string) *hookReceiver {
	t.Helper()
	e := &hookReceiver{t: t, taken: map[string][]notice{}, came: make(chan struct{}, 1000)}
	for _, text := range secrets {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		e.secrets = append(e.secrets, s)
	}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *hookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	id, err := webhook.Verify(r.Header, body, time.Now(), e.secrets...)
	n := notice{Body: string(body)}
	err = errors.Join(err, webhooktest.Check(r.Header, body), json.Unmarshal(body, &n))
	if err != nil || n.Subject != string(n.Data.ID) || strings.Contains(id, ".") {
		e.t.Errorf("%s: %v in %s", id, err, body)
	}
	e.taken[id] = append(e.taken[id], n)
	if e.answer != nil {
		e.answer(e.calls, w)
	}
	e.came <- struct{}{}
}

// await waits for so many calls.
func (e *hookReceiver) await(n int) {
	e.t.Helper()
	for range n {
		select {
		case <-e.came:
		case <-time.After(2 * time.Minute):
			e.t.Fatalf("got %v", e.types())
		}
	}
}

// name is the name of the event in profiles.
func (n *notice) name() string { return strings.TrimPrefix(n.Type, "io.github.stagepost.ingest.") }

// types counts the ids of each name of event.
func (e *hookReceiver) types() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]int{}
	for _, notices := range e.taken {
		all[notices[0].name()]++
	}
	return all
}

func newSecret(t *testing.T) string {
	t.Helper()
	s, err := webhook.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secretFile writes a secret to a file.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// hooked is the test's profile with a hook at the receiver, without mails.
func hooked(t *testing.T, e *hookReceiver, secret string, events ...string) profile.Profile {
	p := testProfile()
	p.Suppress = profile.SuppressFull
	p.Webhooks = []profile.Webhook{{Name: "receiver", URL: e.URL + "/hook", SecretFile: secretFile(t, secret),
		Events: events}}
	return p
}
