package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// note tells the user something beside the answer.
func (c *cli) note(format string, args ...any) { fmt.Fprintf(c.err, format+"\n", args...) }

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// whoami gives the name that stands in the history.
func whoami(given string) string {
	if given != "" {
		return given
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "cli"
}

// span writes a number of seconds: with one unit on a terminal, as it is in a pipe.
func (c *cli) span(seconds int64) string {
	if c.out.mode == modeTable {
		return ago(time.Duration(seconds) * time.Second)
	}
	return fmt.Sprintf("%ds", seconds)
}

// size writes a number of bytes for people.
func size(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	x, units := float64(n), "KMGTPE"
	i := -1
	for x >= step && i < len(units)-1 {
		x /= step
		i++
	}
	return fmt.Sprintf("%.1f %ciB", x, units[i])
}

// bytes writes a size: with a unit on a terminal, exact in a pipe.
func (c *cli) bytes(n int64) string {
	if c.out.mode != modeTable {
		return strconv.FormatInt(n, 10)
	}
	return size(n)
}

// free refuses to write over a file.
func free(out string) error {
	if out == "" || out == "-" {
		return nil
	}
	if _, err := os.Lstat(out); err == nil {
		return usagef("%s is there already", out)
	}
	return nil
}

// message writes one line of JSON.
func (c *cli) message(v any) error { return c.out.message(v) }

// wantsAll reports whether a list is printed as a whole although nobody asked for all: a program reads it, and no
// limit was given.
func (c *cli) wantsAll(cmd *cobra.Command) bool {
	return c.out.mode != modeTable && !cmd.Flags().Changed("limit")
}

// shownOf is the last line of a table that does not have all rows.
func shownOf(n int) string {
	return strconv.Itoa(n) + " shown, and more exist: --all shows all, --limit N up to 1000"
}
