// Package reference writes the pages of docs/ that are made from the program: commands, settings and API.
package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/problem"
)

// Pages gives the generated pages by file name.
func Pages(root *cobra.Command, s *host.Settings) map[string]string {
	return map[string]string{"cli.md": cliPage(root), "config.md": configPage(s), "api.md": apiPage(s)}
}

const made = "<!-- Made by `go generate ./cmd/stagepost`; do not edit. -->\n\n"

// cliPage describes every command.
func cliPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The command line\n\n%s%s\n\n", made, prose(root.Long))
	b.WriteString("| exit code | meaning |\n|---|---|\n")
	for _, row := range [][2]string{
		{"0", "done"},
		{"1", "anything else: no server, output that cannot be written, a fault found by admin fsck, admin verify " +
			"or lint"},
		{"2", "wrong usage, or an invalid value"},
		{"3", "not found, or deleted"},
		{"4", "refused by the lifecycle or a rule; or it changed meanwhile"},
		{"5", "the job that was waited for failed, or stored files, time stamps or an export of histories have faults"},
		{"6", "`--timeout` was up"},
		{"other", "`stagepost run` ends with the script's exit code; its own codes, 121 to 125 and 128 and a " +
			"signal's number, stand there"},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	b.WriteString("\nEvery refusal names the legal events (`can:`) and what to do next (`hint:`) on standard error; " +
		"with `-o json` it is the API's problem\nobject with the exit code in it.\n\n## Options of every command\n\n")
	options(&b, root.PersistentFlags())
	walk(&b, root)
	return b.String()
}

func walk(b *strings.Builder, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", sub.CommandPath(), sub.Short)
		if long := cli.LongForm(sub); long != "" {
			fmt.Fprintf(b, "It is short for `%s`.\n", long)
			continue
		}
		fmt.Fprintf(b, "\n```\n%s\n```\n", cli.UseLine(sub))
		if sub.Long != "" {
			fmt.Fprintf(b, "\n%s\n", prose(sub.Long))
		}
		if sub.Example != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", sub.Example)
		}
		if sub.LocalNonPersistentFlags().HasAvailableFlags() && sub.Name() != "config" {
			b.WriteString("\n")
			options(b, sub.LocalNonPersistentFlags())
		}
		walk(b, sub)
	}
}

func options(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| option | meaning |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if f.Value.Type() != "bool" {
			name += " " + f.Value.Type()
		}
		doc := f.Usage
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" {
			doc += " (default `" + d + "`)"
		}
		fmt.Fprintf(b, "| %s | %s |\n", name, cell(doc))
	})
}

// prose turns the lines that are indented into code.
func prose(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != code {
			b.WriteString("```\n")
			code = indented
		}
		b.WriteString(line + "\n")
	}
	if code {
		b.WriteString("```\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// configPage describes every setting.
func configPage(s *host.Settings) string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + made +
		`A value comes from the flag, else the environment, else the configuration file, else the default. ` +
		"`stagepost admin config --origin`" + `
shows the value in effect and where it came from. The file is the one that ` + "`--config` or `STAGEPOST_CONFIG`" +
		` names, else ` + "`stagepost.yaml`" + ` in
the current directory, else in the data directory; a name with a dot may be written as a branch. A name that is not in this table is an error.

` + "```yaml\ndata: /srv/stagepost\nlisten: 127.0.0.1:7433\nslots: 32\nretain:\n  every: 6h\n```" + `

| setting | flag | environment | default | meaning |
|---|---|---|---|---|
`)
	for _, one := range s.All() {
		def := "`" + one.Default + "`"
		switch {
		case one.Name == "data":
			def = "`$XDG_DATA_HOME/stagepost`, else `~/.local/share/stagepost`"
		case one.Default == "":
			def = ""
		}
		fmt.Fprintf(&b, "| `%s` | `--%s` | `%s` | %s | %s |\n", one.Name, one.Flag(), one.Env(), def, cell(one.Doc))
	}
	b.WriteString("\nSettings other than `data`, `server` and `output` are flags of `stagepost serve`.\n")
	return b.String()
}

// apiPage describes every operation, from the description that servers give.
func apiPage(s *host.Settings) string {
	var b strings.Builder
	d := server.Describe(s.Routes())
	fmt.Fprintf(&b, "# The HTTP API\n\n%s%s\n\n", made, d.Info.Description)
	b.WriteString("A server gives this description at `/api/v1/openapi.json` (OpenAPI 3.1), and as a page at " +
		"`/api/v1/docs`.\n\n")
	b.WriteString("| kind of problem | status | meaning |\n|---|---|---|\n")
	for _, k := range []job.ErrorKind{job.Invalid, job.NotFound, job.Conflict, job.Refused, job.Stale, job.Gone,
		job.Unavailable, job.Internal} {
		status, title := problem.Status(k)
		fmt.Fprintf(&b, "| %s | %d | %s |\n", k, status, title)
	}
	for _, o := range problem.Others {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", o.Kind, o.Status, o.Meaning)
	}
	b.WriteString(openapi.OutlineOf(d).Markdown())
	return b.String()
}

// cell keeps a text from breaking a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
