package host

import (
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// TestGrantsAreAudited: a server enters the tokens that it finds, and one that is made while it runs.
func TestGrantsAreAudited(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens")
	add := func(owner string) {
		t.Helper()
		s, err := token.New(rand.Reader)
		if err == nil {
			err = token.Add(file, token.Entry{Hash: s.Hash(), Role: identity.Admin, Owner: owner})
		}
		old := time.Now().Add(-time.Minute)
		if err == nil {
			err = os.Chtimes(file, old, old.Add(time.Duration(len(owner))*time.Second))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("ada")
	s := NewSettings()
	s.Data, s.Listen, s.Store, s.Tokens = dir, "127.0.0.1:0", "mem", file
	r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}()
	await := func(owner string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			all, err := r.Engine.Store().Audit(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				if a.Event == "add-token" && strings.HasSuffix(a.Object, ": admin "+owner) && a.By != 0 &&
					job.VerifyAudit(nil, all) == nil {
					return
				}
			}
		}
		t.Errorf("the token of %s is not in the audit log", owner)
	}
	await("ada")
	add("olga")
	await("olga")
}
