// Package authority is a small time-stamp authority for tests and demonstrations: its root is trusted by no one else.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/stagepost/stagepost/format/rfc3161"
)

// Policy is the policy of the authority's tokens when a request names none.
var Policy = asn1.ObjectIdentifier{1, 2, 3, 4, 1}

// Authority answers time-stamp requests.
type Authority struct {
	Root  *x509.Certificate
	Clock func() time.Time // of the tokens; nil: the clock of the system

	signer *x509.Certificate
	key    crypto.Signer
}

// Option changes the certificate of the signer.
type Option func(*x509.Certificate)

// New makes an authority with a root of its own. Its certificates are valid from a day before the time until ten years
// after it, unless an option changes the signer's.
func New(name string, at time.Time, options ...Option) (*Authority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " root"},
		NotBefore: at.Add(-24 * time.Hour), NotAfter: at.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if root, err = issue(root, root, rootKey.Public(), rootKey); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return nil, err
	}
	signer := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment,
		ExtraExtensions: []pkix.Extension{{ // encoded here, because ExtKeyUsage is never critical
			Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage,
		}},
	}
	for _, change := range options {
		change(signer)
	}
	if signer, err = issue(signer, root, key.Public(), rootKey); err != nil {
		return nil, err
	}
	return &Authority{Root: root, signer: signer, key: key}, nil
}

func issue(c, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// RootPEM gives the root in PEM, what `openssl ts -verify -CAfile` reads.
func (a *Authority) RootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificate, Bytes: a.Root.Raw})
}

// Marshal gives the authority with its keys in PEM, for [Parse].
func (a *Authority) Marshal() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: privateKey, Bytes: key})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: certificate, Bytes: a.signer.Raw})...)
	return append(text, a.RootPEM()...), nil
}

// Types of blocks in PEM.
const (
	certificate = "CERTIFICATE"
	privateKey  = "PRIVATE KEY"
)

// Parse reads an authority that [Authority.Marshal] wrote.
func Parse(text []byte) (*Authority, error) {
	a := &Authority{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == privateKey {
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, err
			}
			a.key, _ = key.(crypto.Signer)
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if a.signer == nil {
			a.signer = cert
		}
		a.Root = cert
	}
	if a.key == nil || a.Root == nil || a.Root == a.signer {
		return nil, errors.New("an authority has a private key, the certificate of its signer, and a root certificate")
	}
	return a, nil
}

// Verifier gives a verifier that trusts the authority.
func (a *Authority) Verifier() *rfc3161.Verifier {
	roots := x509.NewCertPool()
	roots.AddCert(a.Root)
	return &rfc3161.Verifier{Roots: roots}
}

// Reply answers a request in DER. Each change is made to the token before it is signed.
func (a *Authority) Reply(query []byte, changes ...func(*timestamp.Timestamp)) ([]byte, error) {
	r, err := timestamp.ParseRequest(query)
	if err != nil {
		return timestamp.CreateErrorResponse(timestamp.Rejection, timestamp.BadDataFormat)
	}
	now := time.Now
	if a.Clock != nil {
		now = a.Clock
	}
	t := &timestamp.Timestamp{
		HashAlgorithm: r.HashAlgorithm, HashedMessage: r.HashedMessage, Nonce: r.Nonce, Policy: r.TSAPolicyOID,
		Time: now().UTC(), Accuracy: time.Second, AddTSACertificate: r.Certificates,
	}
	if t.Policy == nil {
		t.Policy = Policy
	}
	for _, change := range changes {
		change(t)
	}
	return t.CreateResponseWithOpts(a.signer, a.key, crypto.SHA256)
}

// ServeHTTP answers a request over HTTP (RFC 3161 section 3.4).
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != rfc3161.QueryType {
		http.Error(w, "post a time-stamp request as "+rfc3161.QueryType, http.StatusUnsupportedMediaType)
		return
	}
	query, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := a.Reply(query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", rfc3161.ReplyType)
	_, _ = w.Write(answer)
}
