// Package rfc3161 makes time-stamp requests and checks the answers to them (RFC 3161, RFC 5816).
//
// A time-stamp token proves that a digest existed at a time: an authority signs both. The package checks a token
// completely before it gives it to the caller: the status, the digest, the nonce, the signature, the certificate of the
// signer with its key usage, and its chain at the time of the token.
package rfc3161

import (
	"crypto"
	"crypto/rand"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"github.com/digitorus/timestamp"
)

// Media types of requests and answers over HTTP (RFC 3161 section 3.4).
const (
	QueryType = "application/timestamp-query"
	ReplyType = "application/timestamp-reply"
)

// Request is a time-stamp request.
type Request struct {
	DER    []byte // TimeStampReq
	Hash   crypto.Hash
	Digest []byte
	Nonce  *big.Int              // nil in a request of another program only
	Policy asn1.ObjectIdentifier // nil: the authority's default
}

// NewRequest makes a request for a SHA-256, SHA-384 or SHA-512 digest. It asks for the certificate of the authority and
// has a random, positive nonce.
func NewRequest(h crypto.Hash, digest []byte, policy asn1.ObjectIdentifier) (*Request, error) {
	if err := checkDigest(h, digest); err != nil {
		return nil, err
	}
	nonce, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, err
	}
	nonce.Add(nonce, big.NewInt(1)) // zero is what some authorities put for "none"
	r := timestamp.Request{
		HashAlgorithm: h, HashedMessage: digest, Certificates: true, TSAPolicyOID: policy, Nonce: nonce,
	}
	der, err := r.Marshal()
	if err != nil {
		return nil, fmt.Errorf("time-stamp request: %w", err)
	}
	return &Request{DER: der, Hash: h, Digest: digest, Nonce: nonce, Policy: policy}, nil
}

// ParseRequest reads a request, for example one that was stored before its answer came.
func ParseRequest(der []byte) (*Request, error) {
	r, err := timestamp.ParseRequest(der)
	if err != nil {
		return nil, fmt.Errorf("time-stamp request: %w", err)
	}
	if err := checkDigest(r.HashAlgorithm, r.HashedMessage); err != nil {
		return nil, err
	}
	return &Request{
		DER: der, Hash: r.HashAlgorithm, Digest: r.HashedMessage, Nonce: r.Nonce, Policy: r.TSAPolicyOID,
	}, nil
}

func checkDigest(h crypto.Hash, digest []byte) error {
	switch h {
	case crypto.SHA256, crypto.SHA384, crypto.SHA512:
	default:
		return errors.New("time-stamp request: the digest algorithm is not SHA-256, SHA-384 or SHA-512")
	}
	if len(digest) != h.Size() {
		return fmt.Errorf("time-stamp request: a %s digest has %d bytes, not %d", h, h.Size(), len(digest))
	}
	return nil
}
