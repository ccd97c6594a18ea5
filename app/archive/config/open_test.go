package archiveconfig

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/job"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secrets writes the files that the file full names.
func secrets(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tsa, err := authority.New("dfn", time.Now())
	must(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	host, err := ssh.NewPublicKey(public)
	must(t, err)
	for name, text := range map[string]string{
		"token": "t", "password": "p", "a": "access", "b": "secret", "sender": "s", "signing": "s",
		"k":        string(pem.EncodeToMemory(key)),
		"hosts":    knownhosts.Line([]string{"sftp.example.org"}, host) + "\n",
		"root.pem": string(tsa.RootPEM()),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{"near", "lists"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o750))
	}
	return dir
}

// TestOpen opens each kind of source and location without a connection. What is unchanged stays open when a file is
// opened again; a secret that was exchanged is used.
func TestOpen(t *testing.T) {
	dir := secrets(t)
	pool := NewPool(filepath.Join(dir, "downloads"), nil)
	defer pool.Close()
	open := func() *Parts {
		t.Helper()
		c, err := parse(dir, []byte(full+"objects: {main: {path: lists}}\n"))
		must(t, err)
		p, err := c.Open(pool)
		must(t, err)
		return p
	}
	first := open()
	must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("another"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte("another"), 0o600))
	second := open()
	for i, changed := range []bool{true, false, false} { // bucket, far, near
		if (first.Targets[i].At != second.Targets[i].At) != changed {
			t.Errorf("%s: opened again is not %t", first.Targets[i].Name, changed)
		}
	}
	for name, changed := range map[string]bool{"campus": true, "web": false} {
		one, err := first.Source(name)
		must(t, err)
		two, err := second.Source(name)
		must(t, err)
		again, err := second.Source(name)
		must(t, err)
		if name == "campus" { // the first one was opened with the secret of then, which its file no longer has
			one = nil
		}
		if (one != two) != changed || two != again {
			t.Errorf("%s: opened again is not %t", name, changed)
		}
	}
	if second.Objects["main"] == nil || second.Objects["main"] != first.Objects["main"] {
		t.Error("the OCFL storage root was opened again")
	}
	if second.Targets[0].Locks == nil || second.Targets[0].At.Properties().Tier != storage.Slow ||
		second.Targets[2].Parallel != 3 || second.Describe("bucket").Kind != "s3" {
		t.Errorf("got %+v", second.Targets)
	}
	if _, err := second.Source("other"); job.KindOf(err) != job.Invalid {
		t.Errorf("an unknown source: %v", err)
	}
	if _, err := second.Source("exams"); job.KindOf(err) != job.Unavailable {
		t.Errorf("a directory that is missing: %v", err)
	}
}

// TestOpenMistakes: what cannot be opened is reported with its line, without the secret.
func TestOpenMistakes(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"token", "", "6:19: sources.campus.moodle.token_file: "}, {"k", "hush", "21:3: locations.far: key_file: "},
		{"hosts", "hush", "21:3: locations.far: known_hosts: "}, {"root.pem", "hush", "24:5: authorities.0: "},
		{"a", "", "19:67: locations.bucket.s3.access_key_file: "},
	} {
		dir := secrets(t)
		must(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
		config, err := parse(dir, []byte(full))
		must(t, err)
		pool := NewPool(dir, nil)
		_, err = config.Open(pool)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, want %s", c.file, err, c.want)
		}
		must(t, pool.Close())
	}
	dir := secrets(t)
	must(t, os.Chmod(filepath.Join(dir, "password"), 0o644))
	config, err := parse(dir, []byte(full))
	must(t, err)
	if _, err := config.Open(NewPool(dir, nil)); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a secret that others can read: %v", err)
	}
}

// TestDirectoryComesLater: a directory that does not exist is not a missing file; one that appears is used, and so is
// another one at the same path.
func TestDirectoryComesLater(t *testing.T) {
	at := filepath.Join(t.TempDir(), "mount")
	d := &dir{path: at, tier: storage.Local}
	defer d.Close()
	if _, err := d.Stat(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, which counts as a missing file", err)
	}
	put := func() {
		must(t, os.Mkdir(at, 0o750))
		must(t, os.WriteFile(filepath.Join(at, "a"), []byte("one"), 0o640))
		if s, err := d.Stat(t.Context(), "a"); err != nil || s.Size != 3 {
			t.Errorf("got %+v, %v", s, err)
		}
	}
	put()
	must(t, os.Rename(at, at+"-before"))
	put()
	if _, err := d.Stat(t.Context(), "b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("control: a missing file: %v", err)
	}
}
