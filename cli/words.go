package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/quantity"
)

// Note prints a remark on standard error.
func (c *Call) Note(format string, args ...any) { c.Err.Line(format, args...) }

func Plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Page prints on a terminal the address of a page of the server, if there is one.
func (c *Call) Page(path string) {
	if path == "" || c.Local != "" || c.Out.Mode != ModeTable || !c.Out.Terminal {
		return
	}
	if base, err := c.Settings.findServer(); err == nil && strings.HasPrefix(base, "http") {
		c.Out.Line("page: %s%s", strings.TrimSuffix(base, "/"), path)
	}
}

// Whoami gives the name that stands in the history.
func Whoami(given string) string {
	if given != "" {
		return given
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "cli"
}

// Span writes a number of seconds: with one unit on a terminal, as it is in a pipe.
func (c *Call) Span(seconds int64) string {
	if c.Out.Mode == ModeTable {
		return ago(time.Duration(seconds) * time.Second)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Bytes writes a size: with a unit on a terminal, exact in a pipe.
func (c *Call) Bytes(n int64) string {
	if c.Out.Mode != ModeTable {
		return strconv.FormatInt(n, 10)
	}
	return quantity.Size(n)
}

// Free refuses to write over a file.
func Free(out string) error {
	if out == "" || out == "-" {
		return nil
	}
	if _, err := os.Lstat(out); err == nil {
		return Usagef("%s is there already", out)
	}
	return nil
}

// Message writes one line of JSON.
func (c *Call) Message(v any) error { return c.Out.message(v) }

// ShownOf is the last line of a table that does not have all rows.
func ShownOf(n int) string {
	return strconv.Itoa(n) + " shown, and more exist: --all shows all, --limit N up to 1000"
}

// Served reports whether a server answers at the address in the data directory, also one that cannot work.
func (c *Call) Served(ctx context.Context) bool {
	api, err := c.API()
	if err != nil {
		return false
	}
	h, err := api.Health(ctx)
	return err == nil || h.Status != "" || client.ProblemOf(err) != nil // one that cannot work answers, too
}
