package sign_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/sign"
)

// until sets the end of the certificate of a signer.
func until(at time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = at }
}

// TestRenewals keeps a document provable over the life of three authorities, and finds every change of a file.
func TestRenewals(t *testing.T) {
	begin := time.Now().Truncate(time.Second)
	year := func(n int) time.Time { return begin.AddDate(n, 0, 0) }
	var servers []*server
	for i, name := range []string{"one", "two", "three"} {
		s := newServer(t, name, until(year(2*i+2)))
		s.settings.Hash = []string{"sha256", "sha384", "sha512"}[i]
		servers = append(servers, s)
	}
	f := newFixture(t, servers[0])
	now := begin
	f.now = func() time.Time { return now }
	_, err := f.signer.Sign(t.Context(), f.document())
	must(t, err)
	if _, renewed, err := f.signer.Renew(t.Context(), f.document()); err != nil || renewed {
		t.Fatalf("renewed early: %v", err)
	}
	verify := func(at time.Time) (sign.Verification, error) {
		return sign.Verify(f.root.FS(), "manifest.txt", nil, f.signer.Verifier(), at)
	}
	if _, err := verify(year(3)); !errors.Is(err, sign.ErrExpired) {
		t.Errorf("got %v", err)
	}
	for i := 1; i < 3; i++ {
		now = year(2*i).AddDate(0, -1, 0)
		servers[i].Clock = f.now
		must(t, f.cat.Close())
		f.open(func(string) error { return nil }, append([]*server{servers[i]}, servers[:i]...)...)
		tokens, err := f.signer.Expiring(t.Context(), 0)
		if must(t, err); len(tokens) != 1 {
			t.Fatalf("%d tokens expire", len(tokens))
		}
		for _, name := range []string{"manifest.txt.tsr", "manifest.txt.2.tsr", "manifest.txt.2.sha512"} {
			_ = os.Remove(filepath.Join(f.dir, name)) // the catalog has them
		}
		if _, renewed, err := f.signer.Renew(t.Context(), f.document()); err != nil || !renewed {
			t.Fatalf("%t, %v", renewed, err)
		}
	}
	v, err := verify(year(5))
	if must(t, err); len(v.Stamps) != 3 || v.Stamps[2].Algorithm != "sha512" || !v.Expires.After(year(5)) {
		t.Errorf("got %+v", v)
	}
	if _, err := verify(year(7)); !errors.Is(err, sign.ErrExpired) {
		t.Errorf("got %v", err)
	}
	entries, err := filepath.Glob(filepath.Join(f.dir, "manifest.txt*"))
	must(t, err)
	if len(entries) != 1+4+5+5 {
		t.Errorf("%d files: %v", len(entries), entries)
	}
	for _, name := range entries {
		had, err := os.ReadFile(name)
		must(t, err)
		for _, content := range [][]byte{append([]byte("x"), had...), had[:len(had)/2], nil} {
			must(t, os.WriteFile(name, content, 0o600))
			last := strings.HasSuffix(name, ".3.pem") || strings.HasSuffix(name, ".3.tst") // not read to verify
			if _, err := verify(year(5)); err == nil && !last {
				t.Errorf("%s with %d of %d bytes is accepted", filepath.Base(name), len(content), len(had))
			}
		}
		must(t, os.WriteFile(name, had, 0o600))
	}
	_, err = verify(year(5))
	must(t, err)
}

// TestNoGain: an authority whose certificate expires as early is not used for a renewal.
func TestNoGain(t *testing.T) {
	s := newServer(t, "one", until(time.Now().AddDate(0, 1, 0)))
	f := newFixture(t, s)
	_, err := f.signer.Sign(t.Context(), f.document())
	must(t, err)
	_, _, err = f.signer.Renew(t.Context(), f.document())
	failed(t, err, sign.ErrNoGain, true)
	if f.tokens() != 1 {
		t.Errorf("%d tokens", f.tokens())
	}
}

// TestLateRenewal is reported, also when a new time stamp exists.
func TestLateRenewal(t *testing.T) {
	begin := time.Now().Truncate(time.Second)
	first, second := newServer(t, "one", until(begin.AddDate(1, 0, 0))), newServer(t, "two")
	f := newFixture(t, first)
	_, err := f.signer.Sign(t.Context(), f.document())
	must(t, err)
	now := begin.AddDate(2, 0, 0)
	f.now = func() time.Time { return now }
	second.Clock = f.now
	must(t, f.cat.Close())
	f.open(func(string) error { return nil }, second, first)
	if _, renewed, err := f.signer.Renew(t.Context(), f.document()); err != nil || !renewed {
		t.Fatalf("%t, %v", renewed, err)
	}
	v, err := sign.Verify(f.root.FS(), "manifest.txt", nil, f.signer.Verifier(), now)
	if !errors.Is(err, sign.ErrExpired) || len(v.Stamps) != 2 {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestNoTimeStamp(t *testing.T) {
	f := newFixture(t, newServer(t, "one"))
	_, err := sign.Verify(f.root.FS(), "manifest.txt", nil, f.signer.Verifier(), time.Now())
	if !errors.Is(err, sign.ErrNone) {
		t.Errorf("got %v", err)
	}
}
