package flowcli

import (
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow/draw"
)

// flowTree writes a flow as a tree of at most so many lines, 0 for any, for a terminal of a width, 0 for any.
func (c *commands) flowTree(v *client.Flow, width, lines int, now time.Time) []string {
	o := outlineOf(v)
	if o == nil {
		return []string{fit(cli.Clean(v.Name+"  "+string(v.Job.State)+"  "+v.Job.Message), width)}
	}
	return draw.Tree(o, recordsOf(v), draw.TreeOptions{
		State: v.Job.State, Now: now, Width: width, MaxLines: lines, Color: c.Out.Terminal && colourful(),
		Unicode: speaksUTF8(),
	})
}

// fit cuts a line to a width with an ellipsis; width 0 is any.
func fit(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

// colourful reports whether the terminal is to have colours (no-color.org).
func colourful() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// speaksUTF8 reports whether the terminal shows more than ASCII, by the first of the locale's variables that is set.
func speaksUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
