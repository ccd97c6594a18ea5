package credential

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestRest: a certificate is renewed after two thirds of its time. With a clock that is so far ahead that it is due at
// once, it is not renewed continuously.
func TestRest(t *testing.T) {
	issued := time.Unix(1_000_000, 0)
	for ahead, want := range map[time.Duration]time.Duration{0: 2 * time.Hour, 40 * time.Hour: time.Hour} {
		c := &Credential{now: func() time.Time { return issued.Add(ahead) },
			pair: &tls.Certificate{Leaf: &x509.Certificate{NotBefore: issued, NotAfter: issued.Add(3 * time.Hour)}}}
		if got := c.rest(); got != want {
			t.Errorf("%s ahead: got %s, want %s", ahead, got, want)
		}
	}
}
