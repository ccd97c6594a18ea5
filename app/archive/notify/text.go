package notify

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of what other systems wrote, in runes.
const (
	mostTitle  = 120
	mostReason = 2000
)

// word is that of the end, for the subject.
func (e *End) word() string {
	switch e.Outcome {
	case lifecycle.OK:
		return "complete"
	case lifecycle.Failed:
		return "failed"
	case lifecycle.TimedOut:
		return "timed out"
	case lifecycle.Cancelled:
		return "cancelled"
	}
	return "deleted"
}

// title is the name of the course as far as it is known.
func (e *End) title() string {
	return cmp.Or(plain(e.Name, mostTitle), "course "+plain(e.Course, mostTitle))
}

// subject is one line. What other systems wrote has no character in it that ends a header or changes its direction.
func (e *End) subject() string {
	return fmt.Sprintf("Archive %s: %s (job %d)", e.word(), e.title(), e.Number)
}

// text is the body: what happened, the facts, and the commands that show and verify it.
func (e *End) text(link string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", e.happened())
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-11s %s\n", name+":", value)
		}
	}
	row("Job", fmt.Sprintf("%d (%s)", e.Number, e.Job))
	row("Course", fmt.Sprintf("%s (id %s of %s)", e.title(), plain(e.Course, mostTitle), plain(e.Source, mostTitle)))
	row(map[bool]string{true: "Deleted", false: "Ended"}[e.Outcome == lifecycle.None], stamp(e.At))
	if e.Outcome != lifecycle.OK {
		row("Reason", cmp.Or(plain(e.Message, mostReason), plain(e.Cause, mostTitle)))
	}
	if e.Outcome == lifecycle.OK {
		row("Activities", fmt.Sprintf("%d archived, %d left out", e.Archived, e.Skipped))
		if e.Warnings > 0 {
			row("Warnings", fmt.Sprint(e.Warnings))
		}
		row("Package", fmt.Sprintf("%s (%d bytes)", plain(e.Package, mostTitle), e.Bytes))
		row("Kept", kept(e.Retain))
		if !e.Signed.IsZero() {
			row("Time stamp", stamp(e.Signed))
		}
	}
	for _, one := range e.commands() {
		fmt.Fprintf(&b, "\n%s:\n", one.what)
		for _, command := range one.lines {
			if link != "" && !one.offline {
				command += " --server " + link
			}
			fmt.Fprintf(&b, "    %s\n", command)
		}
	}
	return b.String()
}

// happened is the first sentence.
func (e *End) happened() string {
	switch {
	case e.Outcome == lifecycle.OK:
		return "The archive is complete: it is stored, and the copies that its settings require were verified."
	case e.Outcome == lifecycle.None && e.Stored:
		return "The archive is deleted. Its copies are removed from the storage locations; the record of the " +
			"deletion remains."
	case e.Outcome == lifecycle.None:
		return "The job is deleted. There was no archive of it."
	}
	return "The archive of the course " + map[lifecycle.Outcome]string{
		lifecycle.Failed: "failed", lifecycle.TimedOut: "was not complete at the deadline of its job",
		lifecycle.Cancelled: "was cancelled",
	}[e.Outcome] + ". Nothing of it is kept: copies that were stored are removed."
}

// todo are commands with what they are for.
type todo struct {
	what    string
	lines   []string
	offline bool // they need no server
}

func (e *End) commands() []todo {
	id := string(e.Job)
	switch {
	case e.Outcome == lifecycle.OK:
		what, verify := "To verify what was fetched, without a server", "stagepost archive verify "+id
		if !e.Signed.IsZero() {
			what += "; ROOT.pem is the root certificate of the time-stamp authority"
			verify += " --ca ROOT.pem"
		}
		return []todo{
			{what: "To see its activities, copies and time stamps", lines: []string{"stagepost archive show " + id}},
			{what: "To fetch it", lines: []string{"stagepost archive retrieve " + id + " --out " + id}},
			{what: what, offline: true, lines: []string{verify}},
		}
	case e.Outcome == lifecycle.None && e.Stored:
		return []todo{{what: "To see the record of the deletion", lines: []string{"stagepost archive show " + id}}}
	}
	return []todo{{what: "To see what happened", lines: []string{
		"stagepost show " + id, "stagepost history " + id, "stagepost logs " + id,
	}}}
}

func kept(until time.Time) string {
	if until.IsZero() {
		return "indefinitely"
	}
	return "until " + stamp(until)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// plain gives a text as one line of at most so many runes, without characters that no person sees.
func plain(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), r == 0x2028, r == 0x2029:
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if all := []rune(text); len(all) > most {
		return string(all[:most-1]) + "…"
	}
	return text
}
