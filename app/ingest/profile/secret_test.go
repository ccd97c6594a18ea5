package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	firstKey  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secondKey = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// TestSecretFiles reads secrets from files beside the profile, as they are at the moment.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("maps.yaml", "id: maps\ncallback: {url: \"https://ann@x.org/a\", password_file: password, secret_file: "+
		"callback}\n"+
		"minter: {url: \"https://mint@x.org\", password_file: password}\n"+
		"webhooks: [{url: \"https://x.org\", secret_file: hook}]\n")
	live, err := Open(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	// without the files, a server refuses the profiles, and others get warnings
	var all Mistakes
	if err := live.Set().CheckSecrets(); !errors.As(err, &all) || len(all) != 4 ||
		!strings.Contains(all[3].Error(), "4:35: webhooks.0.secret_file: "+dir+"/hook: no such file") {
		t.Errorf("got %v", err)
	}
	if _, err := live.Reload(); !errors.As(err, &all) || len(Lint(live.Set(), dir)) < 4 {
		t.Errorf("got %v, warnings %v", err, Lint(live.Set(), dir))
	}
	put("password", "p@ss\n")
	put("callback", "hush\n")
	put("hook", firstKey+"\n\n"+secondKey+"\n")
	if _, err := live.Reload(); err != nil {
		t.Error(err)
	}
	if got := live.Set().SecretFiles(); len(got) != 4 || got[1] != filepath.Join(dir, "callback") {
		t.Errorf("got %v", got)
	}
	p, _ := live.Get("maps")
	if got, err := p.Callback.Address(); got != "https://ann:p%40ss@x.org/a" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := p.Minter.Address(); got != "https://mint:p%40ss@x.org" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := p.Callback.Keys(); len(got) != 1 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := p.Webhooks[0].Keys(); len(got) != 2 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for text, want := range map[string]string{
		firstKey + "\nhush\n":            "hook: line 2: a webhook secret begins with whsec_",
		strings.Repeat(firstKey+"\n", 9): "hook: more than 8 secrets",
		"\n":                             "hook is empty",
	} {
		put("hook", text)
		if _, err := p.Webhooks[0].Keys(); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	put("hook", firstKey)
	if err := os.Chmod(filepath.Join(dir, "hook"), 0o664); err != nil {
		t.Fatal(err)
	}
	if err := live.Set().CheckSecrets(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}
