package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a notification.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is the greatest difference between the time of an attempt and the receiver's clock.
const Tolerance = 5 * time.Minute

const version = "v1,"

// Bounds of untrusted input to Verify.
const (
	maxID         = 256
	maxSignatures = 16
)

// Sign returns the value of webhook-signature: one signature for each secret, in order.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		all[i] = version + base64.StdEncoding.EncodeToString(s.sum(id, strconv.FormatInt(at.Unix(), 10), body))
	}
	return strings.Join(all, " ")
}

// SetHeader sets the three headers of a notification. Without a secret there is no signature.
func SetHeader(h http.Header, id string, at time.Time, body []byte, secrets ...Secret) {
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if len(secrets) > 0 {
		h.Set(HeaderSignature, Sign(id, at, body, secrets...))
	}
}

func (s Secret) sum(id, at string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	_, _ = fmt.Fprintf(mac, "%s.%s.", id, at) // a hash returns no error
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// The refusals of Verify.
var (
	ErrHeaders   = errors.New("webhook: id, timestamp or signature is missing or malformed")
	ErrTimestamp = errors.New("webhook: the timestamp is too far from now")
	ErrSignature = errors.New("webhook: no signature matches")
)

// Verify checks that a notification was signed with one of the secrets, at most [Tolerance] from now, and returns its
// id. Signatures are compared in constant time; those of other versions are ignored. Errors: [ErrHeaders],
// [ErrTimestamp], [ErrSignature].
func Verify(h http.Header, body []byte, now time.Time, secrets ...Secret) (id string, err error) {
	id, at, signatures := h.Get(HeaderID), h.Get(HeaderTimestamp), strings.Fields(h.Get(HeaderSignature))
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" || len(id) > maxID || len(signatures) == 0 || len(signatures) > maxSignatures {
		return "", ErrHeaders
	}
	if skew := now.Sub(time.Unix(seconds, 0)); skew > Tolerance || skew < -Tolerance {
		return "", ErrTimestamp
	}
	matches := false
	for _, secret := range secrets {
		if len(secret.key) == 0 { // the zero Secret is public
			continue
		}
		want := secret.sum(id, at, body)
		for _, one := range signatures {
			encoded, ok := strings.CutPrefix(one, version)
			got, err := base64.StdEncoding.DecodeString(encoded)
			if ok && err == nil && hmac.Equal(got, want) {
				matches = true
			}
		}
	}
	if !matches {
		return "", ErrSignature
	}
	return id, nil
}
