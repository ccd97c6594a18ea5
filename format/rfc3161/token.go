package rfc3161

import (
	"bytes"
	"crypto"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
)

// What a check of a token finds. The errors of [Verifier] wrap one of these, or are a [*StatusError].
var (
	ErrFormat      = errors.New("not a time-stamp token")
	ErrDigest      = errors.New("the token is for another digest")
	ErrNonce       = errors.New("the token has another nonce than the request")
	ErrPolicy      = errors.New("the token has another policy than the request")
	ErrCertificate = errors.New("the token does not contain the certificate of its signer")
	ErrSignature   = errors.New("the signature of the token is wrong")
	ErrUsage       = errors.New("the certificate is not one of a time-stamp authority")
	ErrChain       = errors.New("the certificate of the authority is not trusted at the time of the token")
)

// StatusError is an answer without a token (RFC 3161 section 2.4.2).
type StatusError struct {
	Status  timestamp.Status
	Failure timestamp.FailureInfo // UnknownFailureInfo: the authority names none
	Text    []string              // of the authority
}

// Error gives the status, the failure and the authority's text.
func (e *StatusError) Error() string {
	s := "the time-stamp authority answered with status " + fmt.Sprint(int(e.Status)) + " (" + e.Status.String() + ")"
	if e.Failure != timestamp.UnknownFailureInfo {
		s += ": " + e.Failure.String()
	}
	if len(e.Text) > 0 {
		s += ": " + strings.Join(e.Text, "; ")
	}
	return s
}

// Temporary reports whether a later request can succeed: the authority asks to wait, or has a failure of its own.
func (e *StatusError) Temporary() bool {
	return e.Status == timestamp.Waiting ||
		e.Failure == timestamp.SystemFailure || e.Failure == timestamp.TimeNotAvailable
}

// Token is a time-stamp token that was checked.
type Token struct {
	DER      []byte // ContentInfo (RFC 5652), what `openssl ts -token_in` reads
	Time     time.Time
	Accuracy time.Duration // zero: not stated
	Serial   *big.Int
	Policy   asn1.ObjectIdentifier
	Hash     crypto.Hash
	Digest   []byte
	Chain    []*x509.Certificate // from the signer to a root
}

// Expires gives the time at which the first certificate of the chain expires. A token is renewed before.
func (t *Token) Expires() time.Time {
	first := t.Chain[0].NotAfter
	for _, c := range t.Chain[1:] {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// ChainPEM gives the certificates of the chain in PEM, the signer's first.
func (t *Token) ChainPEM() []byte {
	var out bytes.Buffer
	for _, c := range t.Chain {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a Buffer does not fail
	}
	return out.Bytes()
}

// Verifier checks answers and tokens.
type Verifier struct {
	Roots         *x509.CertPool
	Intermediates []*x509.Certificate // besides those that a token contains
}

type status struct {
	Status  int
	Text    []asn1.RawValue `asn1:"optional"`
	Failure asn1.BitString  `asn1:"optional"`
}

type reply struct {
	Status status
	Token  asn1.RawValue `asn1:"optional"`
}

// Reply checks the answer of an authority to a request (TimeStampResp) and gives its token. An answer without a token
// is a [*StatusError].
func (v *Verifier) Reply(req *Request, der []byte) (*Token, error) {
	var r reply
	switch rest, err := asn1.Unmarshal(der, &r); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	case len(rest) > 0:
		return nil, fmt.Errorf("%w: %d bytes follow the answer", ErrFormat, len(rest))
	}
	if s := timestamp.Status(r.Status.Status); s != timestamp.Granted && s != timestamp.GrantedWithMods {
		return nil, statusError(r.Status)
	}
	t, nonce, err := v.check(r.Token.FullBytes, req.Hash, req.Digest)
	switch {
	case err != nil:
		return nil, err
	case req.Nonce != nil && (nonce == nil || nonce.Cmp(req.Nonce) != 0):
		return nil, ErrNonce
	case req.Policy != nil && !t.Policy.Equal(req.Policy):
		return nil, fmt.Errorf("%w: %s, not %s", ErrPolicy, t.Policy, req.Policy)
	}
	return t, nil
}

// Token checks a token for a digest.
func (v *Verifier) Token(der []byte, h crypto.Hash, digest []byte) (*Token, error) {
	t, _, err := v.check(der, h, digest)
	return t, err
}

// TokenOf gives the token of an answer without a check of it.
func TokenOf(der []byte) ([]byte, error) {
	var r reply
	if _, err := asn1.Unmarshal(der, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(r.Token.FullBytes) == 0 {
		return nil, statusError(r.Status)
	}
	return r.Token.FullBytes, nil
}

func statusError(s status) error {
	e := &StatusError{Status: timestamp.Status(s.Status), Failure: timestamp.UnknownFailureInfo}
	for i := range s.Failure.BitLength {
		if s.Failure.At(i) == 1 {
			e.Failure = timestamp.FailureInfo(i)
			break
		}
	}
	for _, t := range s.Text {
		e.Text = append(e.Text, strings.ToValidUTF8(string(t.Bytes), "?"))
	}
	return e
}

var (
	oidTSTInfo       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}
	oidSigningCert   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 12}
	oidSigningCertV2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47}
	oidExtKeyUsage   = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidSHA256        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	oidSHA384        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}
	oidSHA512        = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}
)

func (v *Verifier) check(der []byte, h crypto.Hash, digest []byte) (_ *Token, _ *big.Int, err error) {
	defer func() {
		if r := recover(); r != nil { // the library that reads CMS panics on some malformed input
			err = fmt.Errorf("%w: %v", ErrFormat, r)
		}
	}()
	signed, err := pkcs7.Parse(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(signed.Signers) != 1 {
		return nil, nil, fmt.Errorf("%w: %d signers", ErrFormat, len(signed.Signers))
	}
	signer := signed.GetOnlySigner()
	if signer == nil {
		return nil, nil, ErrCertificate
	}
	var signedAt time.Time // a claim of the signer besides the time of the token
	if err := signed.UnmarshalSignedAttribute(pkcs7.OIDAttributeSigningTime, &signedAt); err == nil &&
		(signedAt.Before(signer.NotBefore) || signedAt.After(signer.NotAfter)) {
		from, until := signer.NotBefore.UTC().Format(time.RFC3339), signer.NotAfter.UTC().Format(time.RFC3339)
		return nil, nil, fmt.Errorf("%w: it is valid from %s until %s", ErrChain, from, until)
	}
	if err := signed.Verify(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	var content asn1.ObjectIdentifier
	err = signed.UnmarshalSignedAttribute(pkcs7.OIDAttributeContentType, &content)
	if err != nil || !content.Equal(oidTSTInfo) {
		return nil, nil, fmt.Errorf("%w: the signed content is not a TSTInfo", ErrFormat)
	}
	info, err := timestamp.Parse(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if info.HashAlgorithm != h || !bytes.Equal(info.HashedMessage, digest) {
		return nil, nil, ErrDigest
	}
	if err := checkUsage(signer); err != nil {
		return nil, nil, err
	}
	if err := checkIdentifier(signed, signer); err != nil {
		return nil, nil, err
	}
	chain, err := v.chain(signer, signed.Certificates, info.Time)
	if err != nil {
		return nil, nil, err
	}
	return &Token{
		DER: der, Time: info.Time.UTC(), Accuracy: info.Accuracy, Serial: info.SerialNumber, Policy: info.Policy,
		Hash: h, Digest: digest, Chain: chain,
	}, info.Nonce, nil
}

// checkUsage requires the extended key usage of authorities: critical, and no other (RFC 3161 section 2.3).
func checkUsage(c *x509.Certificate) error {
	if len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageTimeStamping || len(c.UnknownExtKeyUsage) > 0 {
		return fmt.Errorf("%w: its extended key usage is not timeStamping alone", ErrUsage)
	}
	critical := func(e pkix.Extension) bool { return e.Id.Equal(oidExtKeyUsage) && e.Critical }
	if !slices.ContainsFunc(c.Extensions, critical) {
		return fmt.Errorf("%w: its extended key usage is not critical", ErrUsage)
	}
	if c.KeyUsage != 0 && c.KeyUsage&(x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment) == 0 {
		return fmt.Errorf("%w: its key usage does not permit signatures", ErrUsage)
	}
	return nil
}

type essCertID struct {
	Hash   []byte
	Issuer asn1.RawValue `asn1:"optional"`
}

type essCertIDv2 struct {
	Algorithm pkix.AlgorithmIdentifier `asn1:"optional"` // absent: SHA-256
	Hash      []byte
	Issuer    asn1.RawValue `asn1:"optional"`
}

// checkIdentifier requires that the signed attributes name the certificate of the signer (RFC 5035, RFC 5816).
func checkIdentifier(signed *pkcs7.PKCS7, signer *x509.Certificate) error {
	var v2 struct {
		Certs    []essCertIDv2
		Policies asn1.RawValue `asn1:"optional"`
	}
	var v1 struct {
		Certs    []essCertID
		Policies asn1.RawValue `asn1:"optional"`
	}
	var named, got []byte
	switch {
	case signed.UnmarshalSignedAttribute(oidSigningCertV2, &v2) == nil && len(v2.Certs) > 0:
		h, ok := hashOf(v2.Certs[0].Algorithm.Algorithm)
		if !ok {
			return fmt.Errorf("%w: the identifier of the certificate has an unknown digest algorithm", ErrSignature)
		}
		d := h.New()
		d.Write(signer.Raw)
		named, got = v2.Certs[0].Hash, d.Sum(nil)
	case signed.UnmarshalSignedAttribute(oidSigningCert, &v1) == nil && len(v1.Certs) > 0:
		sum := sha1.Sum(signer.Raw) // RFC 2634 permits no other; it identifies, and does not sign
		named, got = v1.Certs[0].Hash, sum[:]
	default:
		return fmt.Errorf("%w: the signed attributes do not name the certificate", ErrSignature)
	}
	if !bytes.Equal(named, got) {
		return fmt.Errorf("%w: the signed attributes name another certificate", ErrSignature)
	}
	return nil
}

func hashOf(oid asn1.ObjectIdentifier) (crypto.Hash, bool) {
	switch {
	case len(oid) == 0, oid.Equal(oidSHA256):
		return crypto.SHA256, true
	case oid.Equal(oidSHA384):
		return crypto.SHA384, true
	case oid.Equal(oidSHA512):
		return crypto.SHA512, true
	}
	return 0, false
}

// chain verifies the certificate of the signer at the time of the token.
func (v *Verifier) chain(
	signer *x509.Certificate, sent []*x509.Certificate, at time.Time,
) ([]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range slices.Concat(sent, v.Intermediates) {
		between.AddCert(c)
	}
	roots := v.Roots
	if roots == nil {
		roots = x509.NewCertPool() // nil would mean those of the system
	}
	chains, err := signer.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChain, err)
	}
	return chains[0], nil
}
