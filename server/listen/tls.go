package listen

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/secretfile"
)

// rereadEvery is the shortest time between two checks whether a certificate has changed.
const rereadEvery = time.Second

// Certificate is a certificate with its key in files, which are read again when they change. While they cannot be read,
// the certificate that was read last is used, and the log has the reason. It is safe for concurrent use.
type Certificate struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu     sync.Mutex // guards the rest
	last   *tls.Certificate
	stamp  string // of the files as they were read last
	looked time.Time
}

// OpenCertificate reads a certificate with its chain (PEM) and its key. Others than its owner must not read the key.
func OpenCertificate(cert, key string, log *slog.Logger, now func() time.Time) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, now: now, looked: now()}
	stamp, err := c.stampNow()
	if err != nil {
		return nil, err
	}
	c.stamp = stamp
	c.last, err = c.read()
	return c, err
}

// stampNow returns what changes with the files.
func (c *Certificate) stampNow() (string, error) {
	stamp := ""
	for _, name := range []string{c.cert, c.key} {
		stat, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprint(stat.ModTime().UnixNano(), stat.Size(), " ")
	}
	return stamp, nil
}

func (c *Certificate) read() (*tls.Certificate, error) {
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return nil, err
	}
	key, err := secretfile.ReadMounted(c.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, []byte(key))
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	return &pair, nil
}

// get returns the certificate for a connection.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked) < rereadEvery {
		return c.last, nil
	}
	c.looked = now
	stamp, err := c.stampNow()
	if err == nil && stamp == c.stamp {
		return c.last, nil
	}
	var pair *tls.Certificate
	if err == nil {
		c.stamp = stamp
		pair, err = c.read()
	}
	if err != nil {
		c.log.Error("the certificate cannot be read again: the previous one is used", "error", err)
		return c.last, nil
	}
	c.log.Info("the certificate was read again", "file", c.cert)
	c.last = pair
	return pair, nil
}

// Secure returns a listener that speaks TLS 1.3 with the certificate.
func (c *Certificate) Secure(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.get,
		NextProtos: []string{"h2", "http/1.1"}})
}
