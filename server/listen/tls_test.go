package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertificate writes a certificate for 127.0.0.1 with a serial number.
func writeCertificate(t *testing.T, cert, key string, serial int64) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestCertificate: a connection gets the certificate of the files as they are now, the previous one while they are
// broken, and nothing below TLS 1.3.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key, 1)
	now := time.Now()
	c, err := OpenCertificate(cert, key, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = c.Secure(l)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	serial := func(most uint16) int64 {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: most})
		if err != nil {
			return 0
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(0); got != 1 {
		t.Errorf("got certificate %d, want 1", got)
	}
	if got := serial(tls.VersionTLS12); got != 0 {
		t.Error("TLS 1.2 was accepted")
	}
	writeCertificate(t, cert, key, 2)
	now = now.Add(rereadEvery)
	if got := serial(0); got != 2 {
		t.Errorf("after a change: got certificate %d, want 2", got)
	}
	if err := os.WriteFile(cert, []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	now = now.Add(rereadEvery)
	if got := serial(0); got != 2 {
		t.Errorf("while the file is broken: got certificate %d, want 2", got)
	}
	if err := os.Chmod(key, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCertificate(cert, key, slog.New(slog.DiscardHandler), time.Now); err == nil {
		t.Error("a key that others may write was accepted")
	}
}
