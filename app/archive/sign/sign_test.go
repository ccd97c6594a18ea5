package sign_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	digitorus "github.com/digitorus/timestamp"

	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

// openssl runs the program in a directory.
func openssl(t *testing.T, dir string, args ...string) error {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("openssl is needed: ", err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestOpenSSL verifies the files of a time stamp and of its renewal with openssl alone.
func TestOpenSSL(t *testing.T) {
	first := newServer(t, "one", until(time.Now().AddDate(0, 2, 0)))
	f := newFixture(t, first)
	for range 2 {
		r, err := f.signer.Sign(t.Context(), f.document())
		if must(t, err); len(r.Files) != 4 || len(r.Warnings) != 0 || r.Token.Generation != 1 {
			t.Errorf("got %+v", r)
		}
	}
	if n := first.asked.Load(); n != 1 {
		t.Errorf("the authority was asked %d times", n)
	}
	must(t, os.WriteFile(filepath.Join(f.dir, "root.pem"), first.RootPEM(), 0o600))
	verify := func(name string, more ...string) error {
		return openssl(t, f.dir, append([]string{"ts", "-verify", "-in", name}, more...)...)
	}
	for _, args := range [][]string{
		{"-data", "manifest.txt", "-CAfile", "root.pem"},
		{"-data", "manifest.txt", "-CAfile", "manifest.txt.pem"},
		{"-queryfile", "manifest.txt.tsq", "-CAfile", "root.pem"},
	} {
		must(t, verify("manifest.txt.tsr", args...))
	}
	must(t, verify("manifest.txt.tst", "-token_in", "-data", "manifest.txt", "-CAfile", "root.pem"))
	if verify("manifest.txt.tsr", "-data", "root.pem", "-CAfile", "root.pem") == nil { // the control
		t.Error("openssl accepts another document")
	}

	second := newServer(t, "two")
	must(t, f.cat.Close())
	f.open(func(string) error { return nil }, second, first)
	for i := range 2 {
		r, renewed, err := f.signer.Renew(t.Context(), f.document())
		must(t, err)
		if renewed != (i == 0) || r.Token.Generation != 2 || r.Token.Authority != "two" || len(r.Files) != 5 {
			t.Errorf("%d: got %t, %+v", i, renewed, r)
		}
	}
	must(t, os.WriteFile(filepath.Join(f.dir, "root2.pem"), second.RootPEM(), 0o600))
	must(t, verify("manifest.txt.2.tsr", "-data", "manifest.txt.2.sha512", "-CAfile", "root2.pem"))
	check := exec.CommandContext(t.Context(), "sha512sum", "-c", "--strict", "manifest.txt.2.sha512")
	check.Dir = f.dir
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "manifest.txt: OK") {
		t.Errorf("sha512sum: %v: %s", err, out)
	}
}

// usage makes the extended key usage of a certificate.
func usage(oids ...asn1.ObjectIdentifier) authority.Option {
	return func(c *x509.Certificate) {
		value, _ := asn1.Marshal(oids)
		id := asn1.ObjectIdentifier{2, 5, 29, 37}
		c.ExtraExtensions = []pkix.Extension{{Id: id, Critical: true, Value: value}}
	}
}

// answering answers each query with what a function makes of it.
func answering(f func(query []byte) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		answer, err := f(query)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", rfc3161.ReplyType+"; charset=binary")
		_, _ = w.Write(answer)
	})
}

// TestBadAnswers: none of them is recorded, the next authority is asked, and without one the error is permanent.
func TestBadAnswers(t *testing.T) {
	changed := func(change func(*digitorus.Timestamp)) func(*server) http.Handler {
		return func(s *server) http.Handler {
			return answering(func(q []byte) ([]byte, error) { return s.Reply(q, change) })
		}
	}
	coding := usage(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 3})
	never := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }
	for name, c := range map[string]struct {
		handle  func(*server) http.Handler
		options []authority.Option
		want    error
	}{
		"wrong digest": {handle: changed(func(s *digitorus.Timestamp) {
			s.HashedMessage = bytes.Repeat([]byte{1}, 64)
		}), want: rfc3161.ErrDigest},
		"wrong nonce": {handle: changed(func(s *digitorus.Timestamp) {
			s.Nonce = big.NewInt(7)
		}), want: rfc3161.ErrNonce},
		"wrong chain": {handle: func(*server) http.Handler {
			other, err := authority.New("other", time.Now())
			must(t, err)
			return other
		}, want: rfc3161.ErrChain},
		"tampered": {handle: func(s *server) http.Handler {
			return answering(func(q []byte) ([]byte, error) {
				answer, err := s.Reply(q)
				answer[len(answer)-5] ^= 1
				return answer, err
			})
		}, want: rfc3161.ErrSignature},
		"rejection": {handle: func(*server) http.Handler {
			return answering(func([]byte) ([]byte, error) {
				return digitorus.CreateErrorResponse(digitorus.Rejection, digitorus.BadAlgorithm)
			})
		}},
		"expired":     {options: []authority.Option{never}, want: rfc3161.ErrChain},
		"wrong usage": {options: []authority.Option{coding}, want: rfc3161.ErrUsage},
		"no certificate": {handle: changed(func(s *digitorus.Timestamp) {
			s.AddTSACertificate = false
		}), want: rfc3161.ErrCertificate},
		"no answer": {handle: func(*server) http.Handler {
			return answering(func([]byte) ([]byte, error) { return []byte("<html>"), nil })
		}, want: rfc3161.ErrFormat},
		"other content": {handle: func(*server) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<html>log in</html>"))
			})
		}, want: timestamp.ErrReply},
		"too large": {handle: func(*server) http.Handler {
			return answering(func([]byte) ([]byte, error) { return make([]byte, 2<<20), nil })
		}, want: timestamp.ErrReply},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := newServer(t, "bad", c.options...), newServer(t, "good")
			if c.handle != nil {
				bad.handle = c.handle(bad)
			}
			f := newFixture(t, bad)
			_, err := f.signer.Sign(t.Context(), f.document())
			failed(t, err, c.want, false)
			if entries, err := filepath.Glob(filepath.Join(f.dir, "manifest.txt.*")); err != nil || len(entries) != 0 {
				t.Errorf("it left %v, %v", entries, err)
			}
			if n := f.tokens(); n != 0 {
				t.Errorf("%d tokens are recorded", n)
			}
			must(t, f.cat.Close())
			f.open(func(string) error { return nil }, bad, good)
			r, err := f.signer.Sign(t.Context(), f.document())
			if must(t, err); r.Token.Authority != "good" || f.tokens() != 1 {
				t.Errorf("got %+v", r.Token)
			}
		})
	}
}

// TestTemporary has errors that may pass.
func TestTemporary(t *testing.T) {
	status := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(code)
		})
	}
	waiting := answering(func([]byte) ([]byte, error) {
		return digitorus.CreateErrorResponse(digitorus.Waiting, digitorus.UnknownFailureInfo)
	})
	for name, c := range map[string]struct {
		handle    http.Handler
		temporary bool
		after     time.Duration
	}{
		"500": {status(500), true, 90 * time.Second}, "503": {status(503), true, 90 * time.Second},
		"429": {status(429), true, 90 * time.Second}, "408": {status(408), true, 90 * time.Second},
		"waiting": {waiting, true, 0}, "401": {status(401), false, 0}, "403": {status(403), false, 0},
		"404": {status(404), false, 0}, "302": {status(302), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "one")
			s.handle = c.handle
			f := newFixture(t, s)
			_, err := f.signer.Sign(t.Context(), f.document())
			if e := failed(t, err, nil, c.temporary); e.After != c.after {
				t.Errorf("after %s", e.After)
			}
			s.handle = nil
			_, err = f.signer.Sign(t.Context(), f.document())
			must(t, err)
		})
	}
	down, bad := newServer(t, "down"), newServer(t, "bad")
	down.settings.URL = "http://127.0.0.1:1/"
	bad.handle = status(404)
	f := newFixture(t, down, bad)
	_, err := f.signer.Sign(t.Context(), f.document())
	if e := failed(t, err, nil, true); len(e.Errs) != 2 { // the first may come back
		t.Errorf("got %v", e.Errs)
	}
}

// TestEveryCrash crashes at each step, starts anew and signs again: there is one token, and its files are complete.
func TestEveryCrash(t *testing.T) {
	errCrash := errors.New("the process crashed")
	for n := 1; ; n++ {
		s := newServer(t, "one", until(time.Now().AddDate(0, 2, 0)))
		other := newServer(t, "two")
		f := newFixture(t, s)
		must(t, f.cat.Close())
		at := 0
		f.open(func(string) error {
			if at++; at >= n {
				return errCrash
			}
			return nil
		}, s, other)
		run := func() error {
			_, err := f.signer.Sign(t.Context(), f.document())
			if err == nil {
				_, _, err = f.signer.Renew(t.Context(), f.document())
			}
			return err
		}
		crashed := run()
		if crashed != nil && !errors.Is(crashed, errCrash) {
			t.Fatal(crashed)
		}
		must(t, f.cat.Close())
		f.open(func(string) error { return nil }, s, other)
		must(t, run())
		asked := s.asked.Load() + other.asked.Load() // a renewal asks both, because the first gains nothing
		if f.tokens() != 2 || asked > 5 {
			t.Errorf("crash %d: %d tokens, %d requests", n, f.tokens(), asked)
		}
		v, err := sign.Verify(f.root.FS(), "manifest.txt", nil, f.signer.Verifier(), time.Now())
		if must(t, err); len(v.Stamps) != 2 {
			t.Errorf("crash %d: %+v", n, v)
		}
		for generation, suffix := range []string{"", ".2"} {
			token, err := f.cat.Token(t.Context(), job+"/manifest.txt", generation+1)
			must(t, err)
			reply, err := f.root.ReadFile("manifest.txt" + suffix + ".tsr")
			if must(t, err); !bytes.Equal(reply, token.Reply) {
				t.Errorf("crash %d: the file of generation %d is of another token", n, generation+1)
			}
		}
		events, err := f.cat.Events(t.Context(), job, "", 0)
		if must(t, err); len(events) != 2 {
			t.Errorf("crash %d: %d events", n, len(events))
		}
		if crashed == nil {
			if n < 15 {
				t.Errorf("only %d crashes", n)
			}
			break
		}
	}
}

func TestAuthentication(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
	s := newServer(t, "one")
	s.settings.User, s.settings.PasswordFile = "ada", secret
	f := newFixture(t, s)
	_, err := f.signer.Sign(t.Context(), f.document())
	must(t, err)
	r := http.Request{Header: s.header}
	if user, password, ok := r.BasicAuth(); !ok || user != "ada" || password != "s3cret" {
		t.Errorf("got %q, %q", user, password)
	}
	s = newServer(t, "two")
	s.settings.TokenFile = secret
	f = newFixture(t, s)
	_, err = f.signer.Sign(t.Context(), f.document())
	must(t, err)
	if got := s.header.Get("Authorization"); got != "Bearer s3cret" {
		t.Errorf("got %q", got)
	}
	s.settings.TokenFile = filepath.Join(t.TempDir(), "none")
	f = newFixture(t, s)
	_, err = f.signer.Sign(t.Context(), f.document())
	failed(t, err, os.ErrNotExist, false)
}

func TestSettings(t *testing.T) {
	good := newServer(t, "one").settings
	good.Policy, good.Hash = "1.2.3.4.5", "sha256"
	if _, err := timestamp.NewAuthority(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*timestamp.Settings){
		"name": func(s *timestamp.Settings) { s.Name = "" }, "url": func(s *timestamp.Settings) { s.URL = "ftp://x" },
		"password in url": func(s *timestamp.Settings) { s.URL = "https://a:b@x/" },
		"no roots":        func(s *timestamp.Settings) { s.Roots = nil },
		"policy":          func(s *timestamp.Settings) { s.Policy = "one" },
		"hash":            func(s *timestamp.Settings) { s.Hash = "sha1" },
		"user":            func(s *timestamp.Settings) { s.User = "ada" },
		"both":            func(s *timestamp.Settings) { s.User, s.PasswordFile, s.TokenFile = "a", "b", "c" },
	} {
		s := good
		change(&s)
		if _, err := timestamp.NewAuthority(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := sign.New(sign.Options{}); err == nil {
		t.Error("no authority is accepted")
	}
}

// TestPolicyAndHash: the settings of an authority are in its tokens.
func TestPolicyAndHash(t *testing.T) {
	s := newServer(t, "one")
	s.settings.Policy, s.settings.Hash = "1.2.3.4.5.6", "sha256"
	f := newFixture(t, s)
	r, err := f.signer.Sign(t.Context(), f.document())
	if must(t, err); r.Token.Policy != "1.2.3.4.5.6" || r.Token.Algorithm != "sha256" || len(r.Token.Imprint) != 64 {
		t.Errorf("got %+v", r.Token)
	}
	s.handle = answering(func(q []byte) ([]byte, error) {
		return s.Reply(q, func(x *digitorus.Timestamp) { x.Policy = authority.Policy })
	})
	f = newFixture(t, s)
	_, err = f.signer.Sign(t.Context(), f.document())
	failed(t, err, rfc3161.ErrPolicy, false)
}

func TestClocks(t *testing.T) {
	s := newServer(t, "one")
	f := newFixture(t, s)
	s.Clock = func() time.Time { return time.Now().Add(time.Hour) }
	r, err := f.signer.Sign(t.Context(), f.document())
	if must(t, err); len(r.Warnings) != 1 {
		t.Errorf("got %v", r.Warnings)
	}
}

// TestOtherContent: a document that changed after its time stamp is refused, not stamped again.
func TestOtherContent(t *testing.T) {
	f := newFixture(t, newServer(t, "one"))
	_, err := f.signer.Sign(t.Context(), f.document())
	must(t, err)
	d := f.document()
	d.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("other")), nil }
	if _, err := f.signer.Sign(t.Context(), d); !errors.Is(err, rfc3161.ErrDigest) {
		t.Errorf("got %v", err)
	}
	if _, _, err := f.signer.Renew(t.Context(), d); !errors.Is(err, rfc3161.ErrDigest) {
		t.Errorf("got %v", err)
	}
}

// TestChosenAuthorities: a document names the authorities that are asked for it.
func TestChosenAuthorities(t *testing.T) {
	first, second := newServer(t, "one"), newServer(t, "two")
	f := newFixture(t, first, second)
	d := f.document()
	d.Authorities = []string{"two"}
	_, err := f.signer.Sign(t.Context(), d)
	must(t, err)
	if first.asked.Load() != 0 || second.asked.Load() != 1 || f.tokens() != 1 {
		t.Errorf("asked %d and %d times, %d tokens", first.asked.Load(), second.asked.Load(), f.tokens())
	}
}
