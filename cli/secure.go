package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client/credential"
)

// CertificateFlag adds the flag that names the directory of a certificate to a command of workers or agents.
func (c *Call) CertificateFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Settings.Identity, "certificate", "",
		"directory with the certificate of this worker or agent (stagepost work enrol); defaults to none")
}

// Credential returns the certificate of the settings; nil if there is none.
func (c *Call) Credential() (*credential.Credential, error) {
	if c.credential != nil || c.Settings.Identity == "" {
		return c.credential, nil
	}
	var err error
	if c.credential, err = credential.Open(c.Settings.Identity, time.Now); err != nil {
		return nil, Usage(fmt.Errorf("certificate: %w", err))
	}
	return c.credential, nil
}

// RenewCredential renews the certificate of the settings until ctx ends, if there is one.
func (c *Call) RenewCredential(ctx context.Context, log *slog.Logger) error {
	own, err := c.Credential()
	if own == nil || err != nil {
		return err
	}
	base, err := c.Settings.findServer()
	if err != nil {
		return err
	}
	go own.Run(ctx, base, log)
	return nil
}

// TLS returns the configuration of connections to the server; nil: the default one.
func (c *Call) TLS() (*tls.Config, error) {
	if own, err := c.Credential(); own != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return own.TLS(), nil
	}
	if c.Settings.CAFile == "" {
		return nil, nil
	}
	roots, err := credential.Roots(c.Settings.CAFile)
	if err != nil {
		return nil, Usage(fmt.Errorf("cacert: %w", err))
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// transport returns what sends requests to the server; nil: the client's own.
func (c *Call) transport() (*http.Client, error) {
	own, err := c.Credential()
	if err != nil {
		return nil, err
	}
	if own != nil {
		return requester(own), nil
	}
	config, err := c.TLS()
	if config == nil || err != nil {
		return nil, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.TLSClientConfig = 256, config
	return requester(t), nil
}

// requester returns a client that follows no redirects.
func requester(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
