package hostcli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
)

func (c *commands) user() *cobra.Command {
	return cli.Group("user", "Make, list and change the local users of a server",
		`A server that is started with --users FILE lets the users of that file sign in with a browser. The file has a line for each user, with a hash of the
password (argon2id) and never the password itself. A server reads it again within a second after it was changed.

Passwords are read from the terminal, from --password-file, or from standard input (--password-file -), never from the command line.

Roles: depositor, operator, auditor and admin, as for tokens (stagepost admin token --help).`,
		"  stagepost admin user new ann --role operator /srv/stagepost/users\n"+
			"  stagepost admin user list /srv/stagepost/users",
		c.newUser(), c.listUsers(), c.passwordOfUser(), c.roleOfUser(), c.disableUser())
}

// shownUser is a line of the file as it is printed.
type shownUser struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	Groups   string `json:"groups,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	Shown    string `json:"shown,omitempty"`
}

func showUser(u *account.User) shownUser {
	return shownUser{u.Name, string(u.Role), string(u.Groups), u.Disabled, u.Display}
}

// answerUser prints a user that was changed.
func (c *commands) answerUser(what string, u *account.User) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(showUser(u))
	}
	c.Out.Line("%s", what+" "+u.Name+": "+identity.WriteScope(u.Role, u.Groups, ""))
	return nil
}

const passwordFileDoc = "file with the password; - for standard input; defaults to a prompt"

func (c *commands) newUser() *cobra.Command {
	var role, display, file, note string
	var groups []string
	cmd := &cobra.Command{
		Use:   "new NAME --role ROLE FILE",
		Short: "Make a user",
		Long:  "Makes a user with a password. The file is made, readable by its owner alone, if it is missing.",
		Example: "  stagepost admin user new ann --role depositor /srv/stagepost/users\n" +
			"  stagepost admin user new oscar --role operator --group maps --password-file p.txt /srv/stagepost/users",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			u := account.User{Name: args[0], Display: display, Groups: identity.Groups(strings.Join(groups, ","))}
			var err error
			if u.Role, err = identity.RoleOf(role); err != nil {
				return cli.Usage(err)
			}
			if err := c.Reasoned(note); err != nil {
				return err
			}
			if err := c.setPassword(&u, file); err != nil {
				return err
			}
			if err := account.Add(args[1], u); err != nil {
				return userError(err)
			}
			if err := remarkUser(args[1], "new", &u, note); err != nil {
				return err
			}
			return c.answerUser("made", &u)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "depositor, operator, auditor or admin")
	cmd.Flags().StringVar(&display, "shown", "", "the name to show; defaults to NAME")
	cmd.Flags().StringSliceVar(&groups, "group", nil,
		"a group (collection) to which a depositor or operator is limited, may be repeated; defaults to all")
	cmd.Flags().StringVar(&file, "password-file", "", passwordFileDoc)
	userNote(cmd, &note)
	c.Complete(cmd, "role", roleNames()...)
	return cmd
}

func (c *commands) listUsers() *cobra.Command {
	return &cobra.Command{
		Use:     "list FILE",
		Short:   "List the users of a file, and every wrong line of it",
		Example: "  stagepost admin user list /srv/stagepost/users",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			users, err := account.Read(args[0])
			if err != nil {
				return userError(err)
			}
			all := []shownUser{}
			var rows [][]string
			for i := range users {
				u := &users[i]
				all = append(all, showUser(u))
				state := "enabled"
				if u.Disabled {
					state = "disabled"
				}
				rows = append(rows, []string{u.Name, identity.WriteScope(u.Role, u.Groups, ""), state, u.Display})
			}
			if c.Out.Mode == cli.ModeJSON {
				return c.Out.JSON(all)
			}
			return c.Out.Table([]string{"NAME", "ROLE", "STATE", "SHOWN"}, rows)
		},
	}
}

// changed is a command that changes one user of a file.
func (c *commands) changed(cmd *cobra.Command, what string, note *string,
	change func(*account.User) error) *cobra.Command {
	cmd.Args = cobra.ExactArgs(2)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.Reasoned(*note); err != nil {
			return err
		}
		u, err := account.Change(args[1], args[0], change)
		if err != nil {
			return userError(err)
		}
		if err := remarkUser(args[1], what, &u, *note); err != nil {
			return err
		}
		return c.answerUser(what, &u)
	}
	userNote(cmd, note)
	return cmd
}

func (c *commands) passwordOfUser() *cobra.Command {
	var file, note string
	cmd := &cobra.Command{
		Use:     "password NAME FILE",
		Short:   "Change the password of a user",
		Long:    "Changes the password of a user. The sessions of the user end.",
		Example: "  stagepost admin user password ann /srv/stagepost/users",
	}
	cmd.Flags().StringVar(&file, "password-file", "", passwordFileDoc)
	return c.changed(cmd, "changed", &note, func(u *account.User) error { return c.setPassword(u, file) })
}

func (c *commands) roleOfUser() *cobra.Command {
	var role, note string
	var groups []string
	cmd := &cobra.Command{
		Use:     "role NAME --role ROLE FILE",
		Short:   "Change the role of a user",
		Long:    "Changes the role of a user and the groups to which it is limited, also in sessions that are open.",
		Example: "  stagepost admin user role ann --role operator --group maps /srv/stagepost/users",
	}
	cmd.Flags().StringVar(&role, "role", "", "depositor, operator, auditor or admin")
	cmd.Flags().StringSliceVar(&groups, "group", nil,
		"a group (collection) to which a depositor or operator is limited, may be repeated; defaults to all")
	c.Complete(cmd, "role", roleNames()...)
	return c.changed(cmd, "changed", &note, func(u *account.User) (err error) {
		before := u.Groups
		u.Groups = identity.Groups(strings.Join(groups, ","))
		if u.Role, err = identity.RoleOf(role); err == nil {
			err = u.Validate()
		}
		if err == nil && u.Groups != before {
			err = identity.CheckNewGroups(u.Groups)
		}
		return err
	})
}

func (c *commands) disableUser() *cobra.Command {
	var enable bool
	var note string
	cmd := &cobra.Command{
		Use:     "disable NAME FILE",
		Short:   "Disable a user, or enable it again",
		Long:    "Disables a user: its sessions end, and it cannot sign in. The line stays in the file.",
		Example: "  stagepost admin user disable ann /srv/stagepost/users",
	}
	cmd.Flags().BoolVar(&enable, "enable", false, "enable the user again")
	return c.changed(cmd, "changed", &note, func(u *account.User) error {
		u.Disabled = !enable
		return nil
	})
}

func userNote(cmd *cobra.Command, note *string) {
	cmd.Flags().StringVarP(note, "note", "m", "", "why; stands in the file as a comment, with your name and the time")
}

// setPassword reads a password from a file, from standard input or from the terminal.
func (c *commands) setPassword(u *account.User, file string) error {
	var text string
	var err error
	switch file {
	case "":
		text, err = c.askPassword()
	case "-":
		if text, err = bufio.NewReader(io.LimitReader(c.In, 4096)).ReadString('\n'); errors.Is(err, io.EOF) {
			err = nil
		}
		text = strings.TrimRight(text, "\r\n")
	default:
		text, err = secretfile.ReadMounted(file)
	}
	if err == nil {
		err = u.SetPassword(text)
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}

// askPassword reads a password twice from the terminal, without showing it.
func (c *commands) askPassword() (string, error) {
	f, ok := c.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", errors.New("there is no terminal to ask for the password: give --password-file FILE")
	}
	var texts [2]string
	for i, prompt := range []string{"password: ", "again: "} {
		if _, err := fmt.Fprint(c.Err, prompt); err != nil {
			return "", err
		}
		text, err := term.ReadPassword(int(f.Fd()))
		if _, errLine := fmt.Fprintln(c.Err); err != nil || errLine != nil {
			return "", errors.Join(err, errLine)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		return "", errors.New("the two passwords differ")
	}
	return texts[0], nil
}

// remarkUser enters why a file of users was changed in the file itself: no server needs to be there.
func remarkUser(file, what string, u *account.User, note string) error {
	text := fmt.Sprintf("%s %s %s %s by %s", time.Now().UTC().Format(time.RFC3339), what, u.Name, u.Role,
		changedBy(note))
	if err := account.Remark(file, text); err != nil {
		return fmt.Errorf("the file is changed, without the note: %w", err)
	}
	return nil
}

// userError gives what went wrong with a file of users its exit code.
func userError(err error) error {
	switch {
	case errors.Is(err, account.ErrUnknown) || errors.Is(err, fs.ErrNotExist):
		return &job.Error{Op: "user", Kind: job.NotFound, Err: err}
	case errors.Is(err, account.ErrExists):
		return &job.Error{Op: "user", Kind: job.Conflict, Err: err}
	}
	return &job.Error{Op: "user", Kind: job.Invalid, Err: err}
}
