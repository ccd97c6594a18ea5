package host

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server/authority"
)

// TestTransportSecurityAndRates: with a local authority the server answers by TLS with Strict-Transport-Security, also
// errors, and refuses requests beyond rate.address with 429 and Retry-After. The control is a server without TLS and
// without a rate.
func TestTransportSecurityAndRates(t *testing.T) {
	for name, secure := range map[string]bool{"secure": true, "control": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := NewSettings()
			s.Data, s.Listen, s.Store = dir, "127.0.0.1:0", "mem"
			c := &http.Client{}
			if secure {
				s.CADir, s.RateAddress = filepath.Join(dir, authorityDir), 1
				if err := authority.Init(s.CADir, time.Now()); err != nil {
					t.Fatal(err)
				}
				cert, err := authority.ReadCertificate(s.CADir)
				if err != nil {
					t.Fatal(err)
				}
				roots := x509.NewCertPool()
				roots.AddCert(cert)
				c.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
			}
			r, err := Start(t.Context(), s, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				c.CloseIdleConnections()
				if err := r.Stop(); err != nil {
					t.Error(err)
				}
			}()
			statuses := map[int]int{}
			for i := range 100 {
				path := []string{"/healthz", "/api/v1/jobs", "/none"}[i%3]
				answer, err := c.Get(r.URL + path)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				statuses[answer.StatusCode]++
				if got := answer.Header.Get("Strict-Transport-Security"); (got != "") != secure {
					t.Fatalf("%s, %d: Strict-Transport-Security is %q", path, answer.StatusCode, got)
				}
				if answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") == "" {
					t.Fatalf("%s: there is no Retry-After", path)
				}
			}
			if got := statuses[http.StatusTooManyRequests] > 0; got != secure || statuses[http.StatusNotFound] == 0 {
				t.Errorf("the statuses were %v", statuses)
			}
		})
	}
}
