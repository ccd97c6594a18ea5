// Package credential keeps the certificate by which a worker or an agent authenticates to a server (mutual TLS 1.3):
// [Enrol] gets it for an enrolment token, [Open] uses it, and [Credential.Run] renews it before it expires.
//
// A directory has it: authority.pem, the certificate of the server's authority, and credential.pem, the certificate
// with its key, which never leaves the machine.
package credential

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
)

// Files of the directory.
const (
	authorityName  = "authority.pem"
	credentialName = "credential.pem"
)

const patience = 30 * time.Second // with a request about certificates

// ErrPin reports that a server has no certificate of the authority that the enrolment token names.
var ErrPin = errors.New("the server has no certificate of the authority that made the enrolment token")

// Enrol exchanges an enrolment token at the server of a base URL (https) for a certificate, and keeps it in a
// directory, which is made if it is missing. The token is sent only to a server with a certificate of the authority
// whose pin the token has. It returns the name of the member and when its certificate expires.
func Enrol(ctx context.Context, base, token, dir string) (name string, expires time.Time, err error) {
	_, text, _ := strings.Cut(token, ".")
	pin, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(pin) != sha256.Size {
		return "", expires, job.Errorf(job.Invalid, "enrol", "",
			"that is no enrolment token (stagepost admin ca enrol)")
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", expires, job.Errorf(job.Invalid, "enrol", "", "%.200q is not the address of a server with TLS "+
			"(https://HOST:PORT)", base)
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return "", expires, err
	}
	t := transport(&tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // verified below, by the pin
		VerifyConnection: func(s tls.ConnectionState) error { return pinned(s, pin) }})
	defer t.CloseIdleConnections()
	key, request, err := newKey()
	if err != nil {
		return "", expires, err
	}
	answer, err := ask(ctx, t, base, "/api/v1/enrolment", api.Enrolment{Token: token, Request: request})
	if err != nil {
		return "", expires, err
	}
	if err := durable.Replace(filepath.Join(dir, authorityName), []byte(answer.Authority)); err != nil {
		return "", expires, err
	}
	return answer.Name, answer.Expires, keep(dir, key, answer.Certificate)
}

// pinned verifies the certificate of a server against the authority of a pin.
func pinned(s tls.ConnectionState, pin []byte) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, c := range s.PeerCertificates[1:] {
		if sum := sha256.Sum256(c.Raw); bytes.Equal(sum[:], pin) {
			roots.AddCert(c)
			found = true
		} else {
			between.AddCert(c)
		}
	}
	if !found {
		return ErrPin
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between,
		DNSName: s.ServerName})
	return err
}

// newKey makes a key, and the request for its certificate, both as PEM.
func newKey() (key, request string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	return text("PRIVATE KEY", der), text("CERTIFICATE REQUEST", asked), err
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// keep writes a certificate with its key: both or none of them is replaced.
func keep(dir, key, certificate string) error {
	if _, err := tls.X509KeyPair([]byte(certificate), []byte(key)); err != nil {
		return fmt.Errorf("the certificate that the server issued: %w", err)
	}
	return durable.Replace(filepath.Join(dir, credentialName), []byte(key+certificate))
}

// ask sends a request about certificates.
func ask(ctx context.Context, t http.RoundTripper, base, path string, body any) (api.Certificate, error) {
	var answer api.Certificate
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+path, bytes.NewReader(sent))
	if err != nil {
		return answer, err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := t.RoundTrip(r)
	if job.KindOf(err) == job.Refused {
		return answer, err
	}
	if err != nil {
		return answer, &job.Error{Op: "enrol", Kind: job.Unavailable, Err: err}
	}
	defer got.Body.Close()
	read, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
	if err != nil {
		return answer, &job.Error{Op: "enrol", Kind: job.Unavailable, Err: err}
	}
	if got.StatusCode == http.StatusOK {
		return answer, json.Unmarshal(read, &answer)
	}
	var p api.Problem
	if json.Unmarshal(read, &p) != nil || p.Kind == "" {
		return answer, job.Errorf(job.Unavailable, "enrol", "", "%s answered %s", base, got.Status)
	}
	if got.StatusCode == http.StatusUnauthorized &&
		strings.Contains(got.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		at, _ := http.ParseTime(got.Header.Get("Date")) // zero without one
		return answer, &judgement{p.Error(), at}
	}
	return answer, job.Errorf(p.Kind, "enrol", "", "%s", p.Error())
}

// judgement is the answer of a server that has read the certificate of a request and does not accept it. Other refusals
// may pass.
type judgement struct {
	why string
	at  time.Time // by the clock of the server
}

func (j *judgement) Error() string { return j.why }

// Credential is the certificate of a directory. It is safe for concurrent use.
type Credential struct {
	dir   string
	now   func() time.Time
	roots *x509.CertPool

	mu        sync.Mutex // guards the rest
	pair      *tls.Certificate
	transport *http.Transport // of connections with pair
}

// Open reads the credential of a directory. now is the clock.
func Open(dir string, now func() time.Time) (*Credential, error) {
	c := &Credential{dir: dir, now: now}
	var err error
	if c.roots, err = Roots(filepath.Join(dir, authorityName)); err != nil {
		return nil, err
	}
	return c, c.load()
}

// Roots reads a file with certificates of authorities (PEM).
func Roots(name string) (*x509.CertPool, error) {
	text, err := secretfile.ReadMounted(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("%s has no certificate (PEM)", name)
	}
	return pool, nil
}

// load reads the certificate. New connections use it from now on.
func (c *Credential) load() error {
	name := filepath.Join(c.dir, credentialName)
	text, err := secretfile.Read(name)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transport != nil {
		c.transport.CloseIdleConnections() // no request uses it again: those under way end with the old certificate
	}
	c.pair = &pair
	c.transport = transport(c.config())
	return nil
}

// TLS returns the configuration of connections to the server. Each takes the certificate of its time.
func (c *Credential) TLS() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config()
}

// config is TLS. The caller has locked mu.
func (c *Credential) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: c.roots, Time: c.now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.pair, nil
		}}
}

func transport(config *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.TLSClientConfig = 256, config
	return t
}

// RoundTrip sends a request over a connection with the certificate. An error of kind Refused reports that the server
// does not accept the certificate: it must be enrolled again.
func (c *Credential) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.current().RoundTrip(r)
	if err != nil && r.Context().Err() == nil {
		err = c.explain(err)
	}
	return answer, err
}

// explain returns an error of a connection, or the end of the certificate if that is its cause. With TLS 1.3 it may be
// any error after the dial: the server closes the connection when it has read the certificate.
func (c *Credential) explain(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	_, foreign := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case ok && op.Op == "dial", foreign:
		return err // the server may be away, or it is its certificate that is not accepted here
	case c.expired():
		return job.Errorf(job.Refused, certificateOp, "", "the certificate in %s expired %s: %s", c.dir,
			c.Expires().UTC().Format(time.RFC3339), again)
	case ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "expired certificate"):
		return c.otherClock()
	case ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"):
		return job.Errorf(job.Refused, certificateOp, "", "the server refuses the certificate in %s (%w): %s", c.dir,
			op.Err, again)
	}
	return err
}

// otherClock is the refusal of a certificate that has expired, or is not valid yet, by the clock of the server alone.
func (c *Credential) otherClock() error {
	return job.Errorf(job.Unavailable, certificateOp, "", "by the clock of the server the certificate in %s is not "+
		"valid now, by that of this machine it is until %s: correct the clock that is wrong", c.dir,
		c.Expires().UTC().Format(time.RFC3339))
}

// certificateOp is the operation of errors about the certificate. One of kind Refused is final.
const certificateOp = "certificate"

// final reports whether an error means that the certificate counts no more.
func final(err error) bool {
	e, ok := errors.AsType[*job.Error](err)
	return ok && e.Kind == job.Refused && e.Op == certificateOp
}

// again is what gives a certificate that is valid.
const again = "enrol this machine again (stagepost admin ca enrol at the server, stagepost work enrol here)"

func (c *Credential) expired() bool { return !c.now().Before(c.Expires()) }

// CloseIdleConnections closes connections that no request uses.
func (c *Credential) CloseIdleConnections() { c.current().CloseIdleConnections() }

func (c *Credential) current() *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transport
}

// Expires returns when the certificate expires.
func (c *Credential) Expires() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.Leaf.NotAfter
}

// due returns when the certificate is to be renewed: after two thirds of its time.
func (c *Credential) due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := c.pair.Leaf
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// Renew gets another certificate, of a new key, over a connection with the present one.
func (c *Credential) Renew(ctx context.Context, base string) error {
	key, request, err := newKey()
	if err != nil {
		return err
	}
	answer, err := ask(ctx, c, base, "/api/v1/enrolment/renewal", api.CertificateRequest{Request: request})
	if j, ok := errors.AsType[*judgement](err); ok {
		if !c.expired() && !j.at.Before(c.Expires()) {
			return c.otherClock()
		}
		return job.Errorf(job.Refused, certificateOp, "", "%w", j)
	}
	if err != nil {
		return err
	}
	if err := keep(c.dir, key, answer.Certificate); err != nil {
		return err
	}
	return c.load()
}

// Pauses between attempts to renew.
const (
	leastPause = time.Second
	mostPause  = 5 * time.Minute
)

// rest returns how long a certificate that was just issued is not renewed. It is due after two thirds of its time, but
// at the earliest after one third, so that a clock that is wrong does not renew it continuously.
func (c *Credential) rest() time.Duration {
	c.mu.Lock()
	leaf := c.pair.Leaf
	c.mu.Unlock()
	return max(c.due().Sub(c.now()), leaf.NotAfter.Sub(leaf.NotBefore)/3)
}

// Run renews the certificate before it expires, until ctx ends, or until the certificate counts no more: it has
// expired, or the server does not accept it. Attempts that fail for another reason are repeated and logged, such as a
// refusal that may pass.
func (c *Credential) Run(ctx context.Context, base string, log *slog.Logger) {
	wait, pause := c.due().Sub(c.now()), time.Duration(0)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := c.Renew(ctx, base)
		switch {
		case err == nil:
			wait, pause = c.rest(), 0
			log.Info("the certificate was renewed", "expires", c.Expires())
		case final(err) && ctx.Err() == nil:
			log.Error("the certificate is not valid any more: "+again+", then start this program again", "directory",
				c.dir, "expires", c.Expires(), "error", err)
			return
		default:
			pause = min(cmp.Or(2*pause, leastPause), mostPause)
			wait = pause
			log.Warn("the certificate cannot be renewed", "expires", c.Expires(), "error", err)
		}
	}
}
