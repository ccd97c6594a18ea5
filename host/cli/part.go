// Package hostcli has the commands about a server and its data directory.
package hostcli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite"
)

// commands are the commands of one call.
type commands struct {
	*cli.Call
	host *host.Settings
}

// New makes a call of the command line of a program: the commands of the kernel, of servers, and of the modules.
func New(in io.Reader, out, errs io.Writer, s *host.Settings) *cli.Call {
	parts := []func(*cli.Call) cli.Part{jobs.Part, Part(s)}
	for _, m := range s.Modules {
		parts = append(parts, m.Commands...)
	}
	return cli.New(in, cli.NewPrinter(out), cli.NewPrinter(errs), s.Common, s.Lives(), parts...)
}

// Part adds the commands about a server and its data directory.
func Part(s *host.Settings) func(*cli.Call) cli.Part {
	return func(call *cli.Call) cli.Part {
		c := &commands{call, s}
		return cli.Part{
			Groups: []*cobra.Command{cli.Group("admin", "Administer a server and its data directory",
				"Administers a server and its data directory.",
				"  stagepost admin health\n  stagepost admin backup --data /srv/stagepost\n"+
					"  stagepost admin drain --note 'storage moves'",
				c.token(), c.user(), c.authority(), c.health(), c.clock(), c.fsck(), c.verify(), c.export(),
				c.checkpoint(),
				c.accept(), c.backup(), c.restore(), c.config()), c.fixity()},
			Server: []*cobra.Command{c.serve(), c.work(), c.version()},
			More:   []*cobra.Command{c.verifyExport(), c.migrate()},
			Hidden: []*cobra.Command{c.docs()},
			Code:   code,
			Hint: func(err error, _ int) string {
				var used *sqlite.InUse
				switch {
				case errors.As(err, new(damaged)), errors.As(err, new(damagedCopies)):
					return "no good copy was found: restore the files from a backup or bring back a storage " +
						"location; stagepost fixity run checks them again"
				case !errors.As(err, &used):
					return ""
				case used.Process["address"] != "" && used.Process["pid"] != "":
					return fmt.Sprintf("use that server (--data %s), stop it (kill %s on %s), or name another "+
						"directory with --data DIR", used.Dir, used.Process["pid"], used.Process["host"])
				}
				return "stop the process that it names, or name another data directory with --data DIR"
			},
			Missing: func(path []string, e *job.Error) string {
				switch words := strings.Join(path, " ") + " "; {
				case strings.HasPrefix(words, "admin token ") && errors.Is(e, fs.ErrNotExist):
					return "name the file of tokens; stagepost admin token new makes one"
				case strings.HasPrefix(words, "admin user ") && errors.Is(e, fs.ErrNotExist):
					return "name the file of users; stagepost admin user new makes one"
				case strings.HasPrefix(words, "admin ca ") && errors.Is(e, fs.ErrNotExist):
					return "name the directory of an authority; stagepost admin ca init makes one"
				case strings.HasPrefix(words, "admin ca "):
					return fmt.Sprintf("stagepost admin ca list %s shows the members", c.Called.Flags().Arg(1))
				case strings.HasPrefix(words, "admin user "):
					return fmt.Sprintf("stagepost admin user list %s shows the users", c.Called.Flags().Arg(1))
				case strings.HasPrefix(words, "admin token "): // digits of a hash are no number of a job
					return fmt.Sprintf("stagepost admin token list %s shows what there is", c.Called.Flags().Arg(0))
				case strings.HasPrefix(words, "fixity "):
					return "stagepost fixity status shows the applications and storage locations"
				case words == "admin restore ":
					return knownBackups(c.Called.Flags().Arg(0))
				}
				return ""
			},
		}
	}
}
