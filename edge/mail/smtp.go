package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// TLSMode is the protection of the connection.
type TLSMode string

const (
	// StartTLS upgrades the connection (port 587 or 25) and fails if the server cannot. It is the default.
	StartTLS TLSMode = "starttls"
	// ImplicitTLS speaks TLS from the first byte (port 465).
	ImplicitTLS TLSMode = "tls"
	// NoTLS is for a relay on the same machine or a trusted network; it allows no password.
	NoTLS TLSMode = "none"
)

// Options define the mail server.
type Options struct {
	Addr     string        // host:port
	TLS      TLSMode       // Defaults to StartTLS.
	User     string        // Defaults to no login.
	Password Secret        // goes with User
	Timeout  time.Duration // for the connection, and again for the exchange. Defaults to 60 s.
	Hello    string        // name for HELO/EHLO. Defaults to the host's name.
	// RootCAs are the authorities for the server's certificate. Defaults to the system's.
	RootCAs *x509.CertPool
	// Log receives the receivers that the server refused while it accepted the message for others. Defaults to none.
	Log *slog.Logger
}

// Validate returns all mistakes of the options.
func (o *Options) Validate() error {
	var errs []error
	host, port, err := net.SplitHostPort(o.Addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		errs = append(errs, fmt.Errorf("smtp address %q: must be host:port", o.Addr))
	}
	switch o.TLS {
	case "", StartTLS, ImplicitTLS:
	case NoTLS:
		if o.User != "" || o.Password != "" {
			errs = append(errs, errors.New("smtp: a password is not sent without TLS (can: starttls, tls)"))
		}
	default:
		errs = append(errs, fmt.Errorf("smtp TLS mode %q: must be starttls, tls or none", o.TLS))
	}
	if (o.User == "") != (o.Password == "") {
		errs = append(errs, errors.New("smtp: user and password go together"))
	}
	if err := line(o.Hello, 253); err != nil {
		errs = append(errs, fmt.Errorf("smtp hello: %w", err))
	}
	return errors.Join(errs...)
}

// SMTP returns a sender that opens one connection for each message. Receivers that the server refuses permanently are
// omitted and logged, so that one invalid address of a profile does not keep the report from the depositor. If no
// receiver of Message.To is left, the message is refused. If the server asks for a later attempt for one receiver,
// the whole message is retried later. The error is that of Options.Validate.
func SMTP(o Options) (Sender, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.TLS == "" {
		o.TLS = StartTLS
	}
	if o.Timeout <= 0 {
		o.Timeout = 60 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, err
	}
	return &relay{options: o, tls: &tls.Config{ServerName: host, RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}}, nil
}

type relay struct {
	options Options
	tls     *tls.Config
}

func (s *relay) Send(ctx context.Context, m Message) error {
	if err := m.Validate(); err != nil {
		return &Error{Err: err}
	}
	msg, err := m.compose()
	if err != nil {
		return &Error{Err: err}
	}
	var conn net.Conn
	stop := func() bool { return true }
	client, err := s.client(func(dialCtx context.Context) (net.Conn, error) {
		var err error
		conn, err = s.dial(dialCtx)
		if err == nil {
			stop = context.AfterFunc(ctx, func() { conn.Close() }) // the library ignores the context after the dial
		}
		return conn, err
	})
	if err != nil {
		return &Error{Err: err}
	}
	defer func() {
		stop()
		if conn != nil {
			conn.Close()
		}
	}()
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return classify(ctx, err)
	}
	err = client.SendWithSMTPClient(session, msg)
	if refusesReceivers(err) {
		if msg, err = s.without(session, &m, err); msg != nil {
			err = client.SendWithSMTPClient(session, msg)
		}
	}
	if err != nil && (msg == nil || !msg.IsDelivered()) {
		return classify(ctx, err)
	}
	// The server has the message. Its answers to RSET and QUIT do not change that, and an error would cause a
	// duplicate.
	_ = client.CloseWithSMTPClient(session)
	return nil
}

func (s *relay) client(dial func(context.Context) (net.Conn, error)) (*gomail.Client, error) {
	o := s.options
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	policy := gomail.TLSMandatory
	if o.TLS != StartTLS {
		policy = gomail.NoTLS // none, or done by the dial
	}
	opts := []gomail.Option{
		gomail.WithPort(number),
		gomail.WithTimeout(o.Timeout), gomail.WithTLSConfig(s.tls), gomail.WithTLSPolicy(policy), gomail.WithoutNoop(),
		gomail.WithDialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }),
	}
	if o.Hello != "" {
		opts = append(opts, gomail.WithHELO(o.Hello))
	}
	if o.User != "" {
		opts = append(opts, gomail.WithUsername(o.User), gomail.WithPassword(string(o.Password)),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
	return gomail.NewClient(host, opts...)
}

func (s *relay) dial(ctx context.Context) (net.Conn, error) {
	if s.options.TLS == ImplicitTLS {
		return (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.options.Addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.options.Addr)
}
