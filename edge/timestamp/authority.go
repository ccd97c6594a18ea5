// Package timestamp requests time stamps (RFC 3161) of authorities over HTTP and checks the answers completely.
package timestamp

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/internal/retryafter"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// Settings describe a time-stamp authority. Name, URL and Roots are required.
type Settings struct {
	Name  string
	URL   string   // http or https
	Roots []string // files with the certificates (PEM) of the roots that are trusted, and of intermediates
	// Policy is the object identifier that tokens must have; empty: the authority's default.
	Policy string
	Hash   string // sha256, sha384 or sha512; defaults to sha512
	// User and PasswordFile are for basic authentication, TokenFile for a bearer token. A file is read at each request.
	User         string
	PasswordFile string
	TokenFile    string
	Timeout      time.Duration // of a request; defaults to 30 s
}

// Authority is a time-stamp authority.
type Authority struct {
	s        Settings
	hash     crypto.Hash
	policy   asn1.ObjectIdentifier
	verifier rfc3161.Verifier
	roots    []*x509.Certificate
}

// Hashes are the digest algorithms by their names; the empty name is the default.
var Hashes = map[string]crypto.Hash{
	"": crypto.SHA512, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512,
}

// NewAuthority reads the certificates of an authority and checks its settings.
func NewAuthority(s Settings) (*Authority, error) {
	fail := func(err error) error { return fmt.Errorf("time-stamp authority %q: %w", s.Name, err) }
	a := &Authority{s: s, hash: Hashes[s.Hash]}
	a.s.Timeout = cmp.Or(s.Timeout, 30*time.Second)
	u, err := url.Parse(s.URL)
	switch {
	case s.Name == "":
		return nil, fail(errors.New("it needs a name"))
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, fail(errors.New("its URL must begin with http:// or https://, and have no password"))
	case a.hash == 0:
		return nil, fail(fmt.Errorf("the digest algorithm %q is not sha256, sha384 or sha512", s.Hash))
	case (s.User == "") != (s.PasswordFile == "") || s.User != "" && s.TokenFile != "":
		return nil, fail(errors.New("set a user with a password file, or a token file, or none of them"))
	}
	if a.policy, err = parseOID(s.Policy); err != nil {
		return nil, fail(err)
	}
	if err := a.trust(s.Roots); err != nil {
		return nil, fail(err)
	}
	return a, nil
}

func parseOID(text string) (oid asn1.ObjectIdentifier, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("the policy %q is not an object identifier such as 1.2.3", text)
		}
		oid = append(oid, int(n))
	}
	if len(oid) < 2 {
		return nil, fmt.Errorf("the policy %q is not an object identifier such as 1.2.3", text)
	}
	return oid, nil
}

// trust reads the certificates of the settings.
func (a *Authority) trust(files []string) error {
	v, roots, err := read(files)
	if err == nil && len(roots) == 0 {
		err = errors.New("no root certificate is configured: no token of it could be verified")
	}
	if err == nil {
		a.verifier, a.roots = *v, roots
	}
	return err
}

// Trust makes a verifier that trusts the root certificates (PEM) of files. Each file has at least one certificate.
func Trust(files []string) (*rfc3161.Verifier, error) {
	v, _, err := read(files)
	return v, err
}

// read reads certificates: those that are their own issuers are roots, the others intermediates.
func read(files []string) (v *rfc3161.Verifier, roots []*x509.Certificate, err error) {
	v = &rfc3161.Verifier{Roots: x509.NewCertPool()}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		n := 0
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			if n++; bytes.Equal(c.RawIssuer, c.RawSubject) {
				v.Roots.AddCert(c)
				roots = append(roots, c)
			} else {
				v.Intermediates = append(v.Intermediates, c)
			}
		}
		if n == 0 {
			return nil, nil, fmt.Errorf("%s: it has no certificate in PEM", name)
		}
	}
	return v, roots, nil
}

// Error is a failed request to an authority.
type Error struct {
	Authority string
	Err       error
	Transient bool          // a later attempt can succeed
	After     time.Duration // the authority asks to wait so long; zero: it does not
}

// Error names the authority and the cause.
func (e *Error) Error() string { return "time-stamp authority " + e.Authority + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a later attempt can succeed.
func (e *Error) Temporary() bool { return e.Transient }

// MostReply is the largest answer in bytes.
const MostReply = 1 << 20

// ErrReply is an answer that is not a time-stamp reply.
var ErrReply = errors.New("the answer is not a time-stamp reply")

// Name gives the name of the settings.
func (a *Authority) Name() string { return a.s.Name }

// URL gives where requests are sent.
func (a *Authority) URL() string { return a.s.URL }

// Hash gives the algorithm of the digests that are stamped.
func (a *Authority) Hash() crypto.Hash { return a.hash }

// Roots gives the trusted root certificates.
func (a *Authority) Roots() []*x509.Certificate { return a.roots }

// Verifier gives the verifier of tokens of this authority. It is not changed.
func (a *Authority) Verifier() *rfc3161.Verifier { return &a.verifier }

// Client gives a copy of an HTTP client that follows no redirects, which would send secrets elsewhere; nil: a new one.
func Client(c *http.Client) *http.Client {
	client := http.Client{}
	if c != nil {
		client = *c
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// Stamp requests a token for a digest (of the algorithm Hash) and checks it completely. It gives the request, the
// answer in DER and its token. The error is an [*Error]. client follows no redirects (see [Client]).
func (a *Authority) Stamp(ctx context.Context, client *http.Client, digest []byte) (
	req *rfc3161.Request, reply []byte, t *rfc3161.Token, err error,
) {
	if req, err = a.Request(digest); err != nil {
		return nil, nil, nil, a.failed(err)
	}
	reply, t, err = a.Send(ctx, client, req)
	return req, reply, t, err
}

// Request makes a request for a digest (of the algorithm Hash).
func (a *Authority) Request(digest []byte) (*rfc3161.Request, error) {
	return rfc3161.NewRequest(a.hash, digest, a.policy)
}

// Takes reports whether a request is one that Request makes, apart from its digest and its nonce.
func (a *Authority) Takes(req *rfc3161.Request) bool {
	return req.Hash == a.hash && req.Nonce != nil && req.Policy.Equal(a.policy)
}

// Send sends a request, and checks the token completely. The error is an [*Error].
func (a *Authority) Send(ctx context.Context, client *http.Client, req *rfc3161.Request) (
	reply []byte, t *rfc3161.Token, err error,
) {
	if reply, err = a.post(ctx, client, req.DER); err == nil {
		if t, err = a.verifier.Reply(req, reply); err == nil {
			return reply, t, nil
		}
	}
	return nil, nil, a.failed(err)
}

// failed is an error as an [*Error].
func (a *Authority) failed(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		var status *rfc3161.StatusError
		e = &Error{Authority: a.s.Name, Err: err, Transient: errors.As(err, &status) && status.Temporary()}
	}
	return e
}

// post sends a request over HTTP (RFC 3161 section 3.4).
func (a *Authority) post(ctx context.Context, client *http.Client, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.s.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.s.URL, bytes.NewReader(query))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", rfc3161.QueryType)
	r.Header.Set("Accept", rfc3161.ReplyType)
	if err := a.authenticate(r); err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		var certificate *tls.CertificateVerificationError
		return nil, &Error{Authority: a.s.Name, Err: err, Transient: !errors.As(err, &certificate)}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, a.refused(answer)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); err != nil || kind != rfc3161.ReplyType {
		return nil, fmt.Errorf("%w: its content type is %q", ErrReply, answer.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, MostReply+1))
	switch {
	case err != nil:
		return nil, &Error{Authority: a.s.Name, Err: err, Transient: true}
	case len(body) > MostReply:
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrReply, MostReply)
	}
	return body, nil
}

func (a *Authority) authenticate(r *http.Request) error {
	switch {
	case a.s.User != "":
		password, err := secretfile.Read(a.s.PasswordFile)
		if err != nil {
			return err
		}
		r.SetBasicAuth(a.s.User, password)
	case a.s.TokenFile != "":
		token, err := secretfile.Read(a.s.TokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// refused classifies an HTTP status.
func (a *Authority) refused(answer *http.Response) error {
	e := &Error{Authority: a.s.Name, Err: fmt.Errorf("it answered with HTTP status %s", answer.Status)}
	switch code := answer.StatusCode; {
	case code >= 300 && code < 400:
		e.Err = fmt.Errorf("%w: it redirects to %q, which is not followed: set that URL if it is right", e.Err,
			answer.Header.Get("Location"))
	case retryafter.Passes(code):
		e.Transient = true
		e.After = retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())
	}
	return e
}
