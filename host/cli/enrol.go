package hostcli

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client/credential"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// enrol is the command by which a worker or an agent gets its certificate.
func (c *commands) enrol() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enrol TOKENFILE",
		Short: "Exchange an enrolment token for the certificate of this worker or agent",
		Long: `Makes a key, and exchanges the enrolment token of a file (- for standard input) at the server of --server for a certificate of it. Both are kept
in the directory of --certificate; the key leaves it never. The token is valid once (stagepost admin ca enrol), and is sent
only to a server with a certificate of the authority that made it.

stagepost work and stagepost compute agent use the directory (--certificate) and renew the certificate before it
expires. One that has expired, since its machine was off for too long, is replaced by another enrolment.`,
		Example: "  stagepost work enrol --server https://jobs.example.org --certificate /etc/lab-1 lab-1.enrolment\n" +
			"  stagepost work --server https://jobs.example.org --certificate /etc/lab-1 --kinds lab.check",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			dir, base := c.Settings.Identity, c.Settings.Server
			if dir == "" || base == "" {
				return cli.Usagef("name the server with --server URL and a directory with --certificate DIR")
			}
			text, err := c.enrolment(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			name, expires, err := credential.Enrol(ctx, base, text, dir)
			if err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(map[string]any{"name": name, "expires": expires, "directory": dir})
			}
			c.Out.Line("%s", "enrolled "+name+" until "+c.Out.When(expires)+", certificate in "+dir)
			return nil
		},
	}
	c.CertificateFlag(cmd)
	return cmd
}

// enrolment reads an enrolment token.
func (c *commands) enrolment(file string) (string, error) {
	if file != "-" {
		return secretfile.ReadMounted(file)
	}
	text, err := bufio.NewReader(io.LimitReader(c.In, 4096)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(text), err
}
