package rfc3161_test

import (
	"bytes"
	"crypto"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
)

var document = []byte("a package manifest\n")

func digest() []byte {
	sum := sha512.Sum512(document)
	return sum[:]
}

func newAuthority(t *testing.T, options ...authority.Option) *authority.Authority {
	t.Helper()
	a, err := authority.New("Test authority", time.Now(), options...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newRequest(t *testing.T) *rfc3161.Request {
	t.Helper()
	r, err := rfc3161.NewRequest(crypto.SHA512, digest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRequests has the form that strict authorities require: a positive, minimal nonce, and a request for certificates.
func TestRequests(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 {
		r := newRequest(t)
		if r.Nonce.Sign() <= 0 || seen[r.Nonce.String()] {
			t.Fatalf("nonce %s", r.Nonce)
		}
		seen[r.Nonce.String()] = true
		var raw struct {
			Version int
			Imprint struct {
				Algorithm pkix.AlgorithmIdentifier
				Digest    []byte
			}
			Nonce   *big.Int
			CertReq bool
		}
		if rest, err := asn1.Unmarshal(r.DER, &raw); err != nil || len(rest) != 0 || raw.Version != 1 || !raw.CertReq {
			t.Fatalf("got %+v, %d bytes more, %v", raw, len(rest), err)
		}
		if !bytes.Equal(raw.Imprint.Digest, digest()) || raw.Nonce.Cmp(r.Nonce) != 0 {
			t.Fatalf("got %+v", raw)
		}
		again, err := rfc3161.ParseRequest(r.DER)
		if err != nil || again.Nonce.Cmp(r.Nonce) != 0 || again.Hash != r.Hash || !bytes.Equal(again.Digest, r.Digest) {
			t.Fatalf("got %+v, %v", again, err)
		}
	}
	for _, short := range [][]byte{nil, digest()[:32]} {
		if _, err := rfc3161.NewRequest(crypto.SHA512, short, nil); err == nil {
			t.Errorf("a digest of %d bytes is accepted", len(short))
		}
	}
	if _, err := rfc3161.NewRequest(crypto.SHA1, make([]byte, 20), nil); err == nil {
		t.Error("SHA-1 is accepted")
	}
}

func TestGoodToken(t *testing.T) {
	a := newAuthority(t)
	r := newRequest(t)
	answer, err := a.Reply(r.DER)
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Verifier().Reply(r, answer)
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(got.Time).Abs() > time.Minute || got.Serial.Sign() <= 0 ||
		!got.Policy.Equal(authority.Policy) || len(got.Chain) != 2 {
		t.Errorf("got %+v", got)
	}
	if !got.Expires().Equal(a.Root.NotAfter) {
		t.Errorf("expires %s, want %s", got.Expires(), a.Root.NotAfter)
	}
	alone, err := rfc3161.TokenOf(answer)
	if err != nil || !bytes.Equal(alone, got.DER) {
		t.Fatalf("the token of the answer: %v", err)
	}
	if _, err := a.Verifier().Token(alone, crypto.SHA512, digest()); err != nil {
		t.Errorf("the token alone: %v", err)
	}
	policy := asn1.ObjectIdentifier{1, 2, 3, 4, 5, 6}
	r, err = rfc3161.NewRequest(crypto.SHA512, digest(), policy)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = a.Reply(r.DER)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Verifier().Reply(r, answer); err != nil || !got.Policy.Equal(policy) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// usage makes the extended key usage of a certificate.
func usage(critical bool, oids ...asn1.ObjectIdentifier) authority.Option {
	return func(c *x509.Certificate) {
		value, _ := asn1.Marshal(oids)
		id := asn1.ObjectIdentifier{2, 5, 29, 37}
		c.ExtraExtensions = []pkix.Extension{{Id: id, Critical: critical, Value: value}}
	}
}

var (
	oidTimeStamping = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
	oidCodeSigning  = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 3}
)

// TestBadAnswers refuses what an authority must not answer, each with its own error (spec of archive jobs, section 4).
func TestBadAnswers(t *testing.T) {
	a := newAuthority(t)
	change := func(f func(*timestamp.Timestamp)) func(*testing.T, *rfc3161.Request) []byte {
		return func(t *testing.T, r *rfc3161.Request) []byte {
			answer, err := a.Reply(r.DER, f)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
	}
	by := func(other *authority.Authority) func(*testing.T, *rfc3161.Request) []byte {
		return func(t *testing.T, r *rfc3161.Request) []byte {
			answer, err := other.Reply(r.DER)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
	}
	good := change(func(*timestamp.Timestamp) {})
	for _, c := range []struct {
		name   string
		answer func(*testing.T, *rfc3161.Request) []byte
		roots  *authority.Authority // a if nil
		want   error
	}{
		{"none", good, nil, nil},
		{"wrong digest", change(func(s *timestamp.Timestamp) {
			s.HashedMessage = bytes.Repeat([]byte{1}, 64)
		}), nil, rfc3161.ErrDigest},
		{"wrong nonce", change(func(s *timestamp.Timestamp) { s.Nonce = big.NewInt(7) }), nil, rfc3161.ErrNonce},
		{"no nonce", change(func(s *timestamp.Timestamp) { s.Nonce = nil }), nil, rfc3161.ErrNonce},
		{"wrong chain", by(newAuthority(t)), nil, rfc3161.ErrChain},
		{"tampered", func(t *testing.T, r *rfc3161.Request) []byte {
			answer := good(t, r)
			at := bytes.LastIndex(answer, digest()) + 3 // in the TSTInfo
			answer[at] ^= 1
			return answer
		}, nil, rfc3161.ErrSignature},
		{"tampered signature", func(t *testing.T, r *rfc3161.Request) []byte {
			answer := good(t, r)
			answer[len(answer)-5] ^= 1
			return answer
		}, nil, rfc3161.ErrSignature},
		{"no certificate", change(func(s *timestamp.Timestamp) {
			s.AddTSACertificate = false
		}), nil, rfc3161.ErrCertificate},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRequest(t)
			if _, err := a.Verifier().Reply(r, c.answer(t, r)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	for _, c := range []struct {
		name   string
		option authority.Option
		want   error
	}{
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, rfc3161.ErrChain},
		{"not yet valid", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, rfc3161.ErrChain},
		{"wrong usage", usage(true, oidCodeSigning), rfc3161.ErrUsage},
		{"further usage", usage(true, oidTimeStamping, oidCodeSigning), rfc3161.ErrUsage},
		{"usage is not critical", usage(false, oidTimeStamping), rfc3161.ErrUsage},
		{"key usage", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }, rfc3161.ErrUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r := newAuthority(t, c.option), newRequest(t)
			answer, err := a.Reply(r.DER)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Verifier().Reply(r, answer); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	t.Run("rejection", func(t *testing.T) {
		answer, err := timestamp.CreateErrorResponse(timestamp.Rejection, timestamp.BadAlgorithm)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Verifier().Reply(newRequest(t), answer)
		var s *rfc3161.StatusError
		if !errors.As(err, &s) || s.Status != timestamp.Rejection ||
			s.Failure != timestamp.BadAlgorithm || s.Temporary() {
			t.Errorf("got %v", err)
		}
	})
	t.Run("waiting", func(t *testing.T) {
		answer, err := timestamp.CreateErrorResponse(timestamp.Waiting, timestamp.UnknownFailureInfo)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Verifier().Reply(newRequest(t), answer)
		var s *rfc3161.StatusError
		if !errors.As(err, &s) || !s.Temporary() {
			t.Errorf("got %v", err)
		}
	})
}

// TestOpenSSL: openssl verifies our tokens by their request and by their data, we verify openssl's.
func TestOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("openssl is needed: ", err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), openssl, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s\n%s", args, out)
		}
		return err
	}
	a, r := newAuthority(t), newRequest(t)
	answer, err := a.Reply(r.DER)
	if err != nil {
		t.Fatal(err)
	}
	root, data := write("root.pem", a.RootPEM()), write("data", document)
	query, reply := write("q.tsq", r.DER), write("r.tsr", answer)
	for _, args := range [][]string{
		{"ts", "-verify", "-in", reply, "-data", data, "-CAfile", root},
		{"ts", "-verify", "-in", reply, "-queryfile", query, "-CAfile", root},
	} {
		if err := run(args...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	if run("ts", "-verify", "-in", reply, "-data", write("other", []byte("x")), "-CAfile", root) == nil { // the control
		t.Error("openssl accepts other data")
	}

	write("tsa.cnf", []byte(opensslConfig))
	write("serial", []byte("1000\n"))
	for _, args := range [][]string{
		{"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
			"-subj", "/CN=Root", "-config", "tsa.cnf", "-extensions", "ca_ext", "-keyout", "ca.key", "-out", "ca.crt"},
		{"req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=Authority",
			"-config", "tsa.cnf", "-keyout", "tsa.key", "-out", "tsa.csr"},
		{"x509", "-req", "-in", "tsa.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
			"-extfile", "tsa.cnf", "-extensions", "tsa_ext", "-out", "tsa.crt"},
		{"ts", "-reply", "-config", "tsa.cnf", "-queryfile", query, "-out", "o.tsr"},
	} {
		if err := run(args...); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
	}
	theirs, err := os.ReadFile(filepath.Join(dir, "o.tsr"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	got, err := (&rfc3161.Verifier{Roots: roots}).Reply(r, theirs)
	if err != nil || len(got.Chain) != 2 || !bytes.Contains(got.ChainPEM(), bytes.TrimSpace(ca)) {
		t.Errorf("the token of openssl: %+v, %v", got, err)
	}
}

const opensslConfig = `
[req]
distinguished_name = dn
prompt = no
[dn]
CN = x
[ca_ext]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[tsa_ext]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
authorityKeyIdentifier = keyid
[tsa]
default_tsa = one
[one]
serial = ./serial
signer_cert = ./tsa.crt
signer_key = ./tsa.key
certs = ./ca.crt
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256,sha384,sha512
accuracy = secs:1
ess_cert_id_alg = sha256
`

// FuzzReply: no answer crashes the verifier, and none but a good one is accepted.
func FuzzReply(f *testing.F) {
	a, err := authority.New("Test authority", time.Now())
	if err != nil {
		f.Fatal(err)
	}
	r, err := rfc3161.NewRequest(crypto.SHA512, digest(), nil)
	if err != nil {
		f.Fatal(err)
	}
	good, err := a.Reply(r.DER)
	if err != nil {
		f.Fatal(err)
	}
	rejected, err := timestamp.CreateErrorResponse(timestamp.Rejection, timestamp.BadAlgorithm)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(rejected)
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := a.Verifier().Reply(r, answer)
		if err == nil && (!bytes.Equal(got.Digest, r.Digest) || got.Time.IsZero()) {
			t.Errorf("accepted %x", answer)
		}
	})
}
