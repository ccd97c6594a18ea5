package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server/listen"
)

// addresses are the open addresses of a server until it accepts connections.
type addresses struct {
	main    net.Listener
	metrics net.Listener // nil: the metrics have no address of their own
}

func (a addresses) close() (err error) {
	for _, l := range []net.Listener{a.main, a.metrics} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// listen frees space for a start on a full disk and opens the addresses. A store with files has locked the data
// directory before: a second server on it does not listen.
func (r *Server) listen(ctx context.Context, s *Settings) (err error) {
	if r.dropped, err = dropBallast(r.Data); r.dropped || err != nil {
		r.Log.Warn("the disk is full: the ballast is removed for the start", "file", filepath.Join(r.Data, ballast),
			"error", err)
	}
	if r.addresses.main, err = openAddress(ctx, s, "listen", s.Listen, r.Log); err != nil {
		return err
	}
	r.URL = module.URLOf(r.addresses.main.Addr())
	if s.TLSCert != "" || s.TLSKey != "" {
		certificate, err := listen.OpenCertificate(s.TLSCert, s.TLSKey, r.Log, time.Now)
		if err != nil {
			return cli.Usagef("tls.cert, tls.key_file: %w", err)
		}
		r.addresses.main = certificate.Secure(r.addresses.main)
		r.URL = "https" + strings.TrimPrefix(r.URL, "http")
	}
	if r.authority != nil {
		r.addresses.main = r.authority.Secure(r.addresses.main)
		r.URL = "https" + strings.TrimPrefix(r.URL, "http")
	}
	r.addresses.metrics, err = r.listenMetrics(ctx, s)
	return err
}

// leaveAddresses writes the files that name the server's addresses. A full disk is logged, not an error: the server
// works without.
func (r *Server) leaveAddresses(s *Settings) error {
	addresses := map[string]string{s.AddressFile(): r.URL}
	for _, endpoint := range r.endpoints {
		addresses[filepath.Join(r.Data, endpoint.Name+"-address")] = endpoint.URL()
	}
	for name, url := range addresses {
		switch err := WriteAddress(name, url); {
		case job.IsFull(err):
			r.Log.Warn("the address cannot be written: commands need --server", "file", name, "url", url, "error",
				r.space.Full(err))
		case err != nil:
			return err
		}
	}
	return nil
}

// openAddress opens the address of a setting: to all clients if they are authenticated, else to this machine.
func openAddress(ctx context.Context, s *Settings, setting, address string, log *slog.Logger) (net.Listener, error) {
	l, err := listenAt(ctx, setting, address, s.Connections, s.authenticates())
	if err != nil {
		return nil, err
	}
	if !listen.Loopback(address) && (setting != "listen" || s.TLSCert == "" && s.CADir == "") {
		log.Warn("tokens and data cross the network unencrypted to this address: set tls.cert and tls.key_file, "+
			"or ca.dir (listen only), put a proxy with TLS in front of it, or use a private network", "address",
			l.Addr().String())
	}
	return l, nil
}

// listenAt opens the address of a setting. Errors name the setting.
func listenAt(ctx context.Context, setting, address string, most int, authenticated bool) (net.Listener, error) {
	l, err := listen.Open(ctx, address, most, authenticated)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, cli.Usagef("%s: %s is in use by another program; name another port, or port 0 for a free one",
			setting, address)
	case err != nil:
		return nil, cli.Usagef("%s: %w", setting, err)
	}
	return l, nil
}

// WriteAddress leaves the address for the commands that know the data directory: whole or not at all.
func WriteAddress(name, url string) error { return durable.Replace(name, []byte(url+"\n")) }
