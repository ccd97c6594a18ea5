package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/internal/nearest"
)

// Annotations of commands.
const (
	groupKey   = "group"   // a group: called without a command it prints its help
	sectionKey = "section" // of the help of the program; none: it does not list the command
	shortKey   = "short"   // the short form of a command of a group: a command without a group that does the same
	longKey    = "long"    // the command of a group that a short form stands for

	daily, more, server, groups = "daily", "more", "server", "groups"
)

// Group makes a group of commands: stagepost NAME COMMAND.
func Group(name, short, long, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	mark(cmd, groupKey, name)
	cmd.AddCommand(commands...)
	return cmd
}

// InGroup makes a group for commands that come to one that another part describes.
func InGroup(name string, commands ...*cobra.Command) *cobra.Command {
	return Group(name, "", "", "", commands...)
}

// Short makes cmd the short form of the command with the same name in a group.
func Short(group string, cmd *cobra.Command) *cobra.Command {
	mark(cmd, longKey, group+" "+cmd.Name())
	return cmd
}

func mark(cmd *cobra.Command, key, value string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[key] = value
}

// addGroups adds groups to the program, or their commands to the groups that it has.
func addGroups(root *cobra.Command, all []*cobra.Command) {
	for _, group := range all {
		at := slices.IndexFunc(root.Commands(), func(have *cobra.Command) bool { return have.Name() == group.Name() })
		if at < 0 {
			mark(group, sectionKey, groups)
			root.AddCommand(group)
			continue
		}
		have := root.Commands()[at]
		have.Short, have.Long, have.Example = cmp.Or(have.Short, group.Short), cmp.Or(have.Long, group.Long),
			cmp.Or(have.Example, group.Example)
		for _, cmd := range group.Commands() {
			group.RemoveCommand(cmd)
			have.AddCommand(cmd)
		}
	}
}

// linkShort notes in each command that has a short form what that is.
func linkShort(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		long := cmd.Annotations[longKey]
		if long == "" {
			continue
		}
		if of, _, err := root.Find(strings.Fields(long)); err == nil && of != root {
			mark(of, shortKey, cmd.CommandPath())
			mark(cmd, longKey, of.CommandPath())
		}
	}
}

// completion describes the commands that cobra adds.
func completion(root *cobra.Command) {
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil || cmd == root {
		return
	}
	cmd.Short = "Print the completion script of a shell"
	mark(cmd, groupKey, cmd.Name())
	mark(cmd, sectionKey, server)
	cmd.Example = "  stagepost completion bash --help"
	for _, shell := range cmd.Commands() {
		shell.Short = "Print the completion script of " + shell.Name()
		shell.Example = "  stagepost completion " + shell.Name() + " > stagepost-completion"
	}
}

// UseLine gives how a command is called.
func UseLine(cmd *cobra.Command) string {
	if cmd.Annotations[groupKey] != "" {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}

// LongForm gives the command of a group that a command is the short form of, or nothing.
func LongForm(cmd *cobra.Command) string { return cmd.Annotations[longKey] }

// fullPath gives the words of a command with its group, without the name of the program.
func fullPath(cmd *cobra.Command) []string {
	return strings.Fields(cmp.Or(LongForm(cmd), cmd.CommandPath()))[1:]
}

// usageTemplate is that of cobra, without the options of every command and with the other form of a command.
const usageTemplate = `Usage:
  {{if index .Annotations "group"}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{end}}{{with index .Annotations "short"}}

Short form: {{.}}{{end}}{{with index .Annotations "long"}}

Short for: {{.}}{{end}}{{if .Aliases}}

Also called: {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{with index .Annotations "short"}} (short: {{.}}){{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Options:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}

Options of every command: see stagepost help{{if .HasAvailableSubCommands}}; {{.CommandPath}} COMMAND --help has more about a command{{end}}
`

// help prints the help of a command, broken for a terminal.
func (c *Call) help(cmd *cobra.Command, _ []string) {
	if cmd == cmd.Root() {
		fmt.Fprint(c.Out, overview(cmd, cmp.Or(c.Out.Width, 80)))
		return
	}
	text := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n\n" + cmd.UsageString()
	if c.Out.Terminal {
		text = wrapHelp(text, c.Out.Width)
	}
	fmt.Fprint(c.Out, text)
}

// overview is the help of the program, for one screen.
func overview(root *cobra.Command, width int) string {
	sections := map[string][]*cobra.Command{}
	for _, cmd := range root.Commands() {
		section := cmd.Annotations[sectionKey]
		sections[section] = append(sections[section], cmd)
	}
	var b strings.Builder
	list := func(title string, commands []*cobra.Command) {
		b.WriteString("\n" + title + ":\n")
		for _, cmd := range commands {
			text := fmt.Sprintf("  %-10s  %s", cmd.Name(), cmd.Short)
			b.WriteString(strings.Join(wrap(text, width, 14), "\n") + "\n")
		}
	}
	fmt.Fprintf(&b, "%s\nUsage: %s COMMAND [ARGUMENT...]\n", root.Short, root.Name())
	list("Every day", sections[daily])
	var names []string
	for _, cmd := range sections[more] {
		names = append(names, cmd.Name())
	}
	b.WriteString(strings.Join(wrap("  and: "+strings.Join(names, ", "), width, 7), "\n") + "\n")
	list("Groups of commands", sections[groups])
	list("This program", sections[server])
	b.WriteString("\nOptions of every command:\n")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		short := "    "
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		kind, doc := pflag.UnquoteUsage(f)
		if i := strings.IndexAny(doc, ",;:"); i > 0 {
			doc = doc[:i] // docs/cli.md has the rest
		}
		fmt.Fprintf(&b, "  %s%-20s  %s\n", short, "--"+f.Name+" "+kind, doc)
	})
	fmt.Fprintf(&b, "%s COMMAND --help explains a command or a group, with examples.\n", root.Name())
	return b.String()
}

// checkHelp makes an unknown command a usage error of the command help. Cobra prints the help of the program.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Run = nil
	help.RunE = func(_ *cobra.Command, words []string) error {
		cmd, rest, err := root.Find(words)
		if err == nil && cmd.HasSubCommands() && len(rest) > 0 {
			err = fmt.Errorf("unknown command %q for %q", rest[0], cmd.CommandPath())
			if meant := meantBy(cmd, rest[0]); meant != "" {
				err = fmt.Errorf("%w; did you mean %s?", err, meant)
			}
		}
		if err != nil {
			return Usage(err)
		}
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
}

// takesID reports whether the first argument of a command is the id of a job.
func takesID(cmd *cobra.Command) bool {
	return strings.HasPrefix(cmd.Use, cmd.Name()+" ID")
}

// wrapArgs makes wrong numbers of arguments and unknown commands usage errors, everywhere.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil && takesID(cmd) && len(args) > 0 && args[0] == "":
				return Usagef("the id must not be empty; usage: %s", cmd.UseLine())
			case err == nil:
				return nil
			case !cmd.HasSubCommands():
				return Usagef("wrong number of arguments; usage: %s", cmd.UseLine())
			}
			if meant := meantBy(cmd, args[0]); meant != "" {
				return Usagef("%w; did you mean %s?", err, meant)
			}
			return Usage(err)
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// meantBy gives the commands that a word was probably meant for: those of that name in other groups, else the nearest.
func meantBy(cmd *cobra.Command, word string) string {
	var same, names []string
	var find func(*cobra.Command)
	find = func(from *cobra.Command) {
		for _, sub := range from.Commands() {
			if sub.IsAvailableCommand() && LongForm(sub) == "" {
				if sub.Name() == word {
					same = append(same, sub.CommandPath())
				}
				find(sub)
			}
		}
	}
	if find(cmd.Root()); len(same) > 0 {
		return strings.Join(same, " or ")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if best := nearest.Word(word, names); best != "" {
		return cmd.CommandPath() + " " + best
	}
	return ""
}

// flagError is the usage error of wrong flags: of an unknown command before them, whose flags are unknown too, or of
// the flag. For an unknown one it names the nearest.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		if wrong := cmd.ValidateArgs(args); wrong != nil {
			return wrong
		}
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Usagef("--%s: %w", wrong.GetFlag().Name, valueError(wrong))
	}
	word, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return Usage(err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if best := nearest.Word(word, names); best != "" {
		return Usagef("%w; did you mean --%s?", err, best)
	}
	return Usage(err)
}

// valueError states what a flag takes. The errors of package strconv name a function of Go.
func valueError(wrong *pflag.InvalidValueError) error {
	cause := wrong.Unwrap()
	number, ok := errors.AsType[*strconv.NumError](cause)
	switch {
	case !ok && strings.Contains(cause.Error(), strconv.Quote(wrong.GetValue())):
		return cause
	case !ok:
		return fmt.Errorf("%q: %w", wrong.GetValue(), cause)
	case errors.Is(number, strconv.ErrRange):
		return fmt.Errorf("%q is too large", wrong.GetValue())
	case wrong.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("%q is not true or false", wrong.GetValue())
	case strings.HasPrefix(wrong.GetFlag().Value.Type(), "float"):
		return fmt.Errorf("%q is not a number", wrong.GetValue())
	}
	return fmt.Errorf("%q is not a whole number", wrong.GetValue())
}
