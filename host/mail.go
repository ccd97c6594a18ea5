package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/module"
)

// MailDir is the directory in the data directory into which mails are written, unless there is a mail server.
const MailDir = "mail"

// mailSettings are those of the mails of all modules.
type mailSettings struct {
	MailFrom     string `name:"mail.from" for:"serve" doc:"sender of mails; defaults to stagepost@ and mail.host"`
	MailSMTP     string `name:"mail.smtp" for:"serve" doc:"mail server, host:port; defaults to none: mails are .eml files in the data directory"`
	MailTLS      string `name:"mail.tls" for:"serve" choices:"starttls tls none" default:"starttls" doc:"encryption of the connection to mail.smtp: starttls, tls or none"`
	MailUser     string `name:"mail.user" for:"serve" doc:"login at mail.smtp; defaults to none"`
	MailPassword string `name:"mail.password_file" for:"serve" doc:"file with the password of mail.user, which only its owner may write; the server warns if every user can read it"`
	MailHost     string `name:"mail.host" for:"serve" default:"localhost" doc:"name of this machine in the ids of mails"`
	MailLink     string `name:"mail.link" for:"serve" doc:"URL of this server for the links in mails; defaults to none: mails have no links"`
}

// mail gives how the modules of a server on a data directory send mail. Its errors name the setting.
func (s *mailSettings) mail(data string, log *slog.Logger) (m module.Mail, err error) {
	m = module.Mail{
		From: cmp.Or(s.MailFrom, "stagepost@"+s.MailHost), Host: s.MailHost,
		Sender: mailFiles(filepath.Join(data, MailDir)),
	}
	if m.Link, err = mail.CheckLink(s.MailLink); err != nil {
		return m, cli.Usagef("mail.link: %w", err)
	}
	if err := mail.CheckAddress(m.From); err != nil {
		return m, cli.Usagef("mail.from, mail.host: %w", err)
	}
	if s.MailSMTP != "" {
		m.Sender, err = s.smtp(log)
	}
	return m, err
}

// smtp gives a sender over the mail server.
func (s *mailSettings) smtp(log *slog.Logger) (mail.Sender, error) {
	o := mail.Options{Addr: s.MailSMTP, TLS: mail.TLSMode(s.MailTLS), User: s.MailUser, Hello: s.MailHost, Log: log}
	if s.MailPassword != "" {
		text, err := secretfile.ReadMounted(s.MailPassword)
		if err != nil {
			return nil, cli.Usagef("mail.password_file: %w", err)
		}
		o.Password = mail.Secret(text)
	}
	if (o.User == "") != (o.Password == "") {
		return nil, cli.Usagef("mail.user and mail.password_file go together")
	}
	sender, err := mail.SMTP(o)
	if err != nil {
		return nil, cli.Usagef("mail.smtp, mail.tls, mail.host: %w", err)
	}
	return sender, nil
}

// mailWarnings are those about the file with the password.
func (s *mailSettings) mailWarnings() []string {
	if s.MailPassword == "" {
		return nil
	}
	return secretfile.Exposed(s.MailPassword)
}

// mailFiles writes mails into a directory, which it makes for the first one.
type mailFiles string

// Send is part of [mail.Sender].
func (dir mailFiles) Send(ctx context.Context, m mail.Message) error {
	if err := durable.MkdirAll(string(dir), 0o700); err != nil {
		return &mail.Error{Temp: true, Err: fmt.Errorf("directory of mails: %w", err)}
	}
	return mail.Dir(string(dir)).Send(ctx, m)
}
