package hostcli

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/identity"
)

func (c *commands) authority() *cobra.Command {
	return cli.Group("ca", "Make the local certificate authority, and certificates of workers and agents",
		`The local certificate authority issues the certificate of a server that is started with --ca-dir DIR, and those by which workers and agents
authenticate (mutual TLS 1.3). DIR has its key: only the user of the server may read it.

A worker is enrolled once: enrol prints a token, which stagepost work enrol exchanges on the worker's machine for a certificate of a key that
is made there. The certificate names the worker, the kinds that it may claim and the services whose jobs it may run. It is valid for a day
(ca.lifetime) and renewed by the worker. What is revoked is refused with the next request.`,
		"  stagepost admin ca init /srv/stagepost/ca\n"+
			"  stagepost serve --data /srv/stagepost --ca-dir /srv/stagepost/ca --hosts jobs.example.org\n"+
			"  stagepost admin ca enrol lab-1 --work lab.check /srv/stagepost/ca > lab-1.enrolment",
		c.initAuthority(), c.enrolMember(), c.listMembers(), c.revokeMember())
}

func (c *commands) initAuthority() *cobra.Command {
	return &cobra.Command{
		Use:   "init DIR",
		Short: "Make an authority",
		Long: "Makes the key and the certificate of an authority, valid for ten years, in a directory.\n" +
			"Clients trust the certificate, DIR/" + authority.CertificateName + ", by --cacert. " +
			"A directory that has an authority is refused.",
		Example: "  stagepost admin ca init /srv/stagepost/ca",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := authority.Init(args[0], time.Now()); err != nil {
				return memberError(err)
			}
			file := filepath.Join(args[0], authority.CertificateName)
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]string{"certificate": file})
			}
			c.Out.Line("%s", "made "+file)
			return nil
		},
	}
}

func (c *commands) enrolMember() *cobra.Command {
	var work, services []string
	var expires, note string
	cmd := &cobra.Command{
		Use:   "enrol NAME DIR",
		Short: "Make an enrolment token for a worker or an agent",
		Long: `Makes a token that stagepost work enrol exchanges for a certificate, once and within --expires, and prints it. It is printed once and stored
nowhere. It has the fingerprint of the authority, so that it is sent to no other server.`,
		Example: "  stagepost admin ca enrol lab-1 --work lab.check /srv/stagepost/ca > lab-1.enrolment\n" +
			"  stagepost admin ca enrol node-7 --services python,r --expires 2h /srv/stagepost/ca > node-7.enrolment",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := quantity.ParseDuration(expires)
			if err != nil || d <= 0 {
				return cli.Usagef("--expires: %q: it must be a duration such as 24h", expires)
			}
			m := authority.Member{Name: args[0], Work: identity.Work(strings.Join(work, ",")),
				Services: identity.Services(strings.Join(services, ","))}
			if err := m.Validate(); err != nil {
				return cli.Usage(err)
			}
			if err := c.Reasoned(note); err != nil {
				return err
			}
			now := time.Now()
			text, err := authority.Enrol(args[1], m, authority.By{Actor: cli.Whoami(""), Note: note}, now, now.Add(d))
			if err != nil {
				return memberError(err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]string{"name": m.Name, "token": text})
			}
			c.Out.Line("%s", text)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&work, "work", nil, "what a worker may claim: KIND/STATE or KIND, may be repeated")
	cmd.Flags().StringSliceVar(&services, "services", nil,
		"services whose jobs an agent may run, may be repeated; * for all")
	cmd.Flags().StringVar(&expires, "expires", "24h", "how long the token is valid")
	memberNote(cmd, &note)
	return cmd
}

func (c *commands) listMembers() *cobra.Command {
	return &cobra.Command{
		Use:     "list DIR",
		Short:   "List certificates, and enrolment tokens that were not used",
		Example: "  stagepost admin ca list /srv/stagepost/ca",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := authority.Read(args[0], time.Now())
			if err != nil {
				return memberError(err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			var rows [][]string
			for i := range all.Certificates {
				one, state := &all.Certificates[i], "valid"
				if !one.Revoked.IsZero() {
					state = "revoked"
				}
				rows = append(rows, []string{one.Name, state, c.Out.When(one.Expires), one.Work, one.Services})
			}
			for i := range all.Enrolments {
				one := &all.Enrolments[i]
				rows = append(rows, []string{one.Name, "enrolment", c.Out.When(one.Expires), one.Work, one.Services})
			}
			return c.Out.Table([]string{"NAME", "STATE", "EXPIRES", "WORK", "SERVICES"}, rows)
		},
	}
}

// memberNote adds the flag of a reason.
func memberNote(cmd *cobra.Command, note *string) {
	cmd.Flags().StringVarP(note, "note", "m", "", "why; a server enters it in the audit log, with your name")
}

func (c *commands) revokeMember() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "revoke NAME DIR",
		Short: "Revoke the certificates and enrolment tokens of a member",
		Long: "Revokes the certificates and the enrolment tokens of a member. The next request with such a " +
			"certificate is refused, and open requests end within a second.",
		Example: "  stagepost admin ca revoke lab-1 /srv/stagepost/ca",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.Reasoned(note); err != nil {
				return err
			}
			n, err := authority.Revoke(args[1], args[0], authority.By{Actor: cli.Whoami(""), Note: note}, time.Now())
			if err != nil {
				return memberError(err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]any{"name": args[0], "certificates": n})
			}
			c.Out.Line("%s", "revoked "+args[0])
			return nil
		},
	}
	memberNote(cmd, &note)
	return cmd
}

// memberError gives what went wrong with an authority its exit code.
func memberError(err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return &job.Error{Op: "ca", Kind: job.Conflict, Err: err}
	case errors.Is(err, authority.ErrUnknown) || errors.Is(err, fs.ErrNotExist):
		return &job.Error{Op: "ca", Kind: job.NotFound, Err: err}
	}
	return &job.Error{Op: "ca", Kind: job.Invalid, Err: err}
}
