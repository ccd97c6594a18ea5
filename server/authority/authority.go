package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/internal/sharedfile"
)

// Files of the directory.
const (
	CertificateName = "ca.pem"
	keyName         = "ca.key"
	membersName     = "members"
)

// Times of certificates.
const (
	authorityFor = 10 * 365 * 24 * time.Hour
	serverFor    = 30 * 24 * time.Hour
	serverAnew   = 10 * 24 * time.Hour // before its end, the server gets another certificate
	memberFor    = 24 * time.Hour      // the default of Options.Lifetime
	skew         = time.Hour           // by which clocks of clients may be behind
	endsSoon     = 90 * 24 * time.Hour // before its end, the authority warns
)

const certificateType, keyType = "CERTIFICATE", "PRIVATE KEY" // of PEM blocks

// Options of an authority. Dir is required.
type Options struct {
	Dir      string
	Hosts    []string         // names and addresses of the server, beside those of the loopback
	Lifetime time.Duration    // of the certificates of workers and agents; defaults to 24 h
	Now      func() time.Time // defaults to time.Now
}

// Authority issues certificates. It is the [identity.Source] of those of workers and agents, and safe for concurrent
// use.
type Authority struct {
	o       Options
	cert    *x509.Certificate
	key     crypto.Signer
	members *sharedfile.Watched[list]

	mu     sync.Mutex // guards server
	server *tls.Certificate
}

// Init makes the key and the certificate of an authority in a directory, which is made if it is missing. It refuses a
// directory that has a key: certificates of that authority would count no longer.
func Init(dir string, now time.Time) error {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := sharedfile.Read(filepath.Join(dir, keyName))
	switch {
	case err == nil:
		return fmt.Errorf("%w in %s", fs.ErrExist, dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: fmt.Sprintf("Stagepost authority %08x", serial.Uint64()>>32)},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(authorityFor), IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name, kind string
		content    []byte
	}{{membersName, "", []byte("{}\n")}, {CertificateName, certificateType, der}, {keyName, keyType, private}} {
		text := file.content
		if file.kind != "" {
			text = pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.content})
		}
		if err := durable.Replace(filepath.Join(dir, file.name), text); err != nil {
			return err
		}
	}
	return nil
}

// Open opens the authority of a directory.
func Open(o Options) (*Authority, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Lifetime <= 0 {
		o.Lifetime = memberFor
	}
	a := &Authority{o: o}
	var err error
	if a.cert, err = ReadCertificate(o.Dir); err != nil {
		return nil, err
	}
	text, err := secretfile.Read(filepath.Join(o.Dir, keyName))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(encode(a.cert), []byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(o.Dir, keyName), err)
	}
	a.key = pair.PrivateKey.(crypto.Signer) // every key of X509KeyPair is one
	a.members, err = sharedfile.Watch(filepath.Join(o.Dir, membersName), func() time.Time { return a.o.Now() }, parse)
	return a, err
}

// ReadCertificate reads the certificate of the authority of a directory.
func ReadCertificate(dir string) (*x509.Certificate, error) {
	name := filepath.Join(dir, CertificateName)
	text, err := sharedfile.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make the authority: stagepost admin ca init %s", err, dir)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != certificateType {
		return nil, fmt.Errorf("%s has no certificate (PEM)", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err == nil && !cert.IsCA {
		err = errors.New("the certificate is not that of an authority")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cert, nil
}

// Pin returns the SHA-256 of the certificate of an authority, as enrolment tokens have it.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Warnings returns what is about to end.
func (a *Authority) Warnings() []string {
	if left := a.cert.NotAfter.Sub(a.o.Now()); left < endsSoon {
		return []string{fmt.Sprintf("the authority of %s ends on %s: make another one (stagepost admin ca init) and "+
			"enrol the workers again", a.o.Dir, a.cert.NotAfter.UTC().Format(time.DateOnly))}
	}
	return nil
}

// issue signs a certificate for a key. It ends with the authority at the latest.
func (a *Authority) issue(template *x509.Certificate, public crypto.PublicKey) (der []byte, err error) {
	if template.SerialNumber, err = newSerial(); err != nil {
		return nil, err
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.BasicConstraintsValid, template.KeyUsage = true, x509.KeyUsageDigitalSignature
	return x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
}

// serverCertificate returns the certificate of the server, which is made anew before it ends. Its key is in memory
// alone.
func (a *Authority) serverCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.o.Now()
	if a.server != nil && a.server.Leaf.NotAfter.Sub(now) > serverAnew {
		return a.server, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Stagepost server"}, NotBefore: now.Add(-skew), NotAfter: now.Add(serverFor),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range a.o.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := a.issue(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.server = &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	return a.server, nil
}

// Secure returns a listener that speaks TLS 1.3 with a certificate of the authority. Clients may have one of their own:
// what the authority did not issue for clients, or what has expired, ends the connection.
func (a *Authority) Secure(l net.Listener) net.Listener {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: a.serverCertificate,
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, NextProtos: []string{"h2", "http/1.1"},
		Time: a.o.Now, SessionTicketsDisabled: true})
}

// encode writes a certificate as PEM.
func encode(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: cert.Raw})
}

// newSerial returns a random serial number of 127 bits.
func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}
