package hostcli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

func (c *commands) token() *cobra.Command {
	return cli.Group("token", "Make, list and revoke the tokens that may use a server",
		`A server that is started with --tokens FILE answers only to those who send a token of that file. The file has a line for each token, with its SHA-256
and never the token itself: hash, role, owner, expiry or -, comment. A server reads it again within a second after it was changed.

Roles: a depositor sees and makes its own jobs; an operator sees and moves all, but reads no files of others and deletes nothing of
others; a worker claims jobs of the kinds and states that its token names (--work) and reports on them, or is an agent; an auditor
reads what an operator reads; an admin may do everything. --group limits a depositor or an operator to jobs of these groups (collections).

Other commands send the token in STAGEPOST_TOKEN, or in the file of the setting token_file. Programs send it as a header:
Authorization: Bearer stp_...`,
		"  stagepost admin token new --owner ann --role operator /srv/stagepost/tokens > ann.token\n"+
			"  stagepost admin token list /srv/stagepost/tokens",
		c.newToken(), c.listTokens(), c.revokeToken())
}

// showToken returns a line of the file as it is printed.
func showToken(e token.Entry) api.Token { return e.Shown(nil, time.Now()) }

func (c *commands) newToken() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use:   "new --owner NAME --role ROLE FILE",
		Short: "Make a token and add it to a file",
		Long: `Makes a token, adds its hash to the file, and prints the token. The token is printed once and stored nowhere. The file is made, readable by its owner
alone, if it is missing.`,
		Example: "  stagepost admin token new --owner ann --role depositor --expires 90d /srv/stagepost/tokens\n" +
			"  stagepost admin token new --owner node-1 --role worker --services default \\\n" +
			"    /srv/stagepost/tokens > node-1.token",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			e, err := f.entry()
			if err == nil {
				err = checkNew(args[0], &e)
			}
			if err != nil {
				return err
			}
			secret, err := token.New(rand.Reader)
			if err != nil {
				return err
			}
			e.Hash = secret.Hash()
			if err := c.Reasoned(f.note); err != nil {
				return err
			}
			if err := token.Add(args[0], e); err != nil {
				return tokenError(err)
			}
			if err := remark(args[0], "new", &e, f.note); err != nil {
				return err
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(struct {
					Text string `json:"token"`
					api.Token
				}{secret.Reveal(), showToken(e)})
			}
			c.Out.Line("%s", secret.Reveal())
			return nil
		},
	}
	f.bind(cmd)
	c.Complete(cmd, "role", roleNames()...)
	return cmd
}

// tokenFlags are the flags that describe a new token.
type tokenFlags struct {
	owner, role, expires, comment, note string
	work, groups, services              []string
}

func (f *tokenFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.owner, "owner", "",
		"whose token it is: the owner of jobs, the actor in histories, the name of a worker")
	cmd.Flags().StringVar(&f.role, "role", "", "depositor, operator, worker, auditor or admin")
	cmd.Flags().StringVar(&f.expires, "expires", "", "how long it is valid, such as 90d; defaults to unlimited")
	cmd.Flags().StringSliceVar(&f.work, "work", nil,
		"what a worker may claim: KIND/STATE or KIND, may be repeated; without it a worker may claim nothing")
	cmd.Flags().StringSliceVar(&f.services, "services", nil,
		"services whose jobs a worker may run as an agent, or *, may be repeated; without it the worker is no agent")
	cmd.Flags().StringSliceVar(&f.groups, "group", nil,
		"a group (collection) to which a depositor or operator is limited, may be repeated; defaults to all")
	cmd.Flags().StringVar(&f.comment, "comment", "", "what it is for")
	cmd.Flags().StringVarP(&f.note, "note", "m", "",
		"why; stands in the file as a comment, with your name and the time")
}

// entry returns the line of the file for the token, without its hash.
func (f *tokenFlags) entry() (token.Entry, error) {
	e := token.Entry{Owner: f.owner, Comment: f.comment,
		Work:   identity.Work(strings.Join(f.work, ",")).With(f.services...),
		Groups: identity.Groups(strings.Join(f.groups, ","))}
	var err error
	if f.owner == "" {
		return e, cli.Usagef("name the owner of the token: --owner NAME")
	}
	if e.Role, err = identity.RoleOf(f.role); err != nil {
		return e, cli.Usage(err)
	}
	if f.expires != "" && f.expires != "unlimited" {
		d, err := quantity.ParseDuration(f.expires)
		if err != nil || d <= 0 {
			return e, cli.Usagef("--expires: %q: it must be a duration such as 90d, or unlimited", f.expires)
		}
		e.Expires = time.Now().Add(d).UTC().Truncate(time.Second)
	}
	if err := e.Validate(); err != nil {
		return e, cli.Usage(err)
	}
	return e, nil
}

// checkNew refuses an owner or groups that a new person may not have, unless another token of the file has them: an
// owner who exists gets more tokens.
func checkNew(file string, e *token.Entry) error {
	all, err := token.Read(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tokenError(err)
	}
	err = nil
	if !slices.ContainsFunc(all, func(have token.Entry) bool { return have.Owner == e.Owner }) {
		err = identity.CheckNewName(e.Owner)
	}
	if !slices.ContainsFunc(all, func(have token.Entry) bool { return have.Groups == e.Groups }) {
		err = cmp.Or(err, identity.CheckNewGroups(e.Groups))
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}

// roleNames lists the roles for completion.
func roleNames() (names []string) {
	for _, r := range identity.Roles() {
		names = append(names, string(r))
	}
	return names
}

func (c *commands) listTokens() *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Example: "  stagepost admin token list /srv/stagepost/tokens",
		Short:   "List the tokens of a file, and every wrong line of it",
		Long: "Lists the tokens of a file, and every wrong line of it. USED is when the server of the data " +
			"directory (--data) accepted\nthe token last, to the minute.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			entries, err := token.Read(args[0])
			if err != nil {
				return tokenError(err)
			}
			used, err := token.ReadUses(filepath.Join(cmp.Or(c.host.Shared, c.Settings.Data), token.UsesName))
			if err != nil {
				return err
			}
			slices.SortStableFunc(entries, func(a, b token.Entry) int { return cmp.Compare(a.Owner, b.Owner) })
			all := []api.Token{}
			var rows [][]string
			for _, e := range entries {
				one := e.Shown(used, time.Now())
				all = append(all, one)
				until, last := "-", "-"
				if !one.Used.IsZero() {
					last = c.Out.When(one.Used)
				}
				if !one.Expires.IsZero() {
					until = c.Out.When(one.Expires)
				}
				if one.Expired {
					until += " (expired)"
				}
				rows = append(rows, []string{one.Hash[:16], identity.WriteScope(e.Role, e.Groups, e.Work), one.Owner,
					until, last, one.Comment})
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			return c.Out.Table([]string{"HASH", "ROLE", "OWNER", "EXPIRES", "USED", "COMMENT"}, rows)
		},
	}
}

func (c *commands) revokeToken() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "revoke FILE HASHPREFIX",
		Short: "Remove a token from a file",
		Long: "Removes the token whose hash begins with the digits from the file. At least 8 digits are needed; " +
			"token list shows them.\nServers refuse the token after a second.",
		Example: "  stagepost admin token revoke /srv/stagepost/tokens 3f2a91c07b6e4d12",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.Reasoned(note); err != nil {
				return err
			}
			e, err := token.Revoke(args[0], args[1], time.Now(), changedBy(note))
			if err != nil {
				return tokenError(err)
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(showToken(e))
			}
			c.Out.Line("%s", fmt.Sprintf("revoked %s: %s %s", e.Hash.String()[:16], e.Role, e.Owner))
			return nil
		},
	}
	cmd.Flags().StringVarP(&note, "note", "m", "", "why; stands in the file as a comment, with your name and the time")
	return cmd
}

// changedBy names the person who changes a file, and why.
func changedBy(note string) string {
	who := cli.Whoami("")
	if note == "" {
		return who
	}
	return who + ": " + note
}

// remark enters who changed a file of tokens, and why, in the file itself: no server needs to be there. A server
// enters it in the audit log from there.
func remark(file, what string, e *token.Entry, note string) error {
	if err := token.Remark(file, e.Remark(time.Now(), what, changedBy(note))); err != nil {
		return fmt.Errorf("the file is changed, without the note: %w", err)
	}
	return nil
}

// tokenError gives what went wrong with a file of tokens its exit code.
func tokenError(err error) error {
	if errors.Is(err, token.ErrUnknown) || errors.Is(err, fs.ErrNotExist) {
		return &job.Error{Op: "token", Kind: job.NotFound, Err: err}
	}
	return &job.Error{Op: "token", Kind: job.Invalid, Err: err}
}
