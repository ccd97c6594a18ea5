package tunnel

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
)

// maxAnswer bounds the headers of a server or proxy before the tunnel begins, in bytes.
const maxAnswer = 64 << 10

// newTransport returns the transport for the upgrade request.
func (l *Listener) newTransport() *http.Transport {
	one := new(http.Protocols)
	one.SetHTTP1(true) // HTTP/2 has no upgrade
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.o.TLS != nil {
		config = l.o.TLS.Clone()
	}
	return &http.Transport{
		Protocols: one, TLSClientConfig: config, DialContext: l.dial, Proxy: l.transportProxy,
		MaxResponseHeaderBytes: maxAnswer, DisableKeepAlives: true,
	}
}

// upgraded is the connection of an upgrade. The body has the bytes that followed the server's answer, then the
// connection.
type upgraded struct {
	net.Conn
	body io.Reader
}

func (c *upgraded) Read(b []byte) (int, error) { return c.body.Read(b) }

// upgrade opens a connection and requests its upgrade to a tunnel.
func (l *Listener) upgrade() (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.o.Handshake,
		fmt.Errorf("the server did not answer within %s", l.o.Handshake))
	defer cancel()
	var raw net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { raw = i.Conn }}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, l.target.String(), nil)
	if err != nil {
		return nil, err
	}
	if l.o.Header != nil {
		r.Header = l.o.Header.Clone()
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", upgradeName)
	answer, err := l.transport.RoundTrip(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, refusedCertificate(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, refusalOf(answer)
	}
	if !asksForUpgrade(answer.Header) {
		_ = answer.Body.Close()
		return nil, errors.New("the server upgrades the connection to another protocol")
	}
	return &upgraded{raw, answer.Body}, nil
}

// ownProxy returns the proxy of an http URL, which this package addresses itself: http.Transport would request a
// forwarded upgrade, which proxies do not support. After CONNECT a proxy does not inspect the traffic.
func (l *Listener) ownProxy() (*url.URL, error) {
	if l.target.Scheme != "http" {
		return nil, nil
	}
	proxy, err := l.o.Proxy(&http.Request{URL: l.target})
	if err != nil || proxy == nil || proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, err
	}
	return proxy, nil
}

// transportProxy returns all other proxies: http.Transport uses CONNECT for https, and SOCKS.
func (l *Listener) transportProxy(r *http.Request) (*url.URL, error) {
	if own, err := l.ownProxy(); own != nil || err != nil {
		return nil, err
	}
	return l.o.Proxy(r)
}

// dial connects to an address, through the proxy of an http URL if there is one.
func (l *Listener) dial(ctx context.Context, network, address string) (net.Conn, error) {
	proxy, err := l.ownProxy()
	if err != nil {
		return nil, err
	}
	if proxy == nil {
		return l.o.Dial(ctx, network, address)
	}
	port := cmp.Or(proxy.Port(), map[string]string{"http": "80", "https": "443"}[proxy.Scheme])
	c, err := l.o.Dial(ctx, network, net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	if proxy.Scheme == "https" {
		config := l.transport.TLSClientConfig.Clone()
		config.ServerName, config.NextProtos = proxy.Hostname(), nil
		c = tls.Client(c, config)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err = connectThrough(c, proxy, address)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	return c, nil
}

// connectThrough makes a proxy connect to an address (RFC 9110, section 9.3.6).
func connectThrough(c net.Conn, proxy *url.URL, address string) error {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		r.Header.Set("Proxy-Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := r.Write(c); err != nil {
		return err
	}
	// the server sends nothing before a request: no byte is lost in the buffer
	reader := bufio.NewReader(io.LimitReader(c, maxAnswer))
	answer, err := http.ReadResponse(reader, r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}
