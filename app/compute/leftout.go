package compute

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/edge/collect"
)

// LeftOut is what a payload left that is not in its results, or not as it was. It is bounded, whatever the payload did.
type LeftOut struct {
	Skipped int `json:"skipped,omitempty"`
	// how many by [collect.Reason]: link, fifo, socket, device, size, ...
	Reasons map[string]int `json:"skipped_reasons,omitempty"`
	Names   []LeftFile     `json:"skipped_files,omitempty"` // the first of them
	Renamed int            `json:"renamed,omitempty"`       // all there, under other names than they had
}

// LeftFile is one of what was left out or renamed.
type LeftFile = api.ComputeLeftFile

// Bounds of a [LeftOut].
const (
	mostLeft     = 20  // files that are named
	mostLeftText = 300 // bytes of a name, or of a sentence
	mostReasons  = 20
)

// Add counts one more: it is what [collect.Options] have for that.
func (l *LeftOut) Add(why collect.Reason, name, sentence string) {
	if why == collect.NewName {
		l.Renamed++
	} else {
		if l.Reasons == nil {
			l.Reasons = map[string]int{}
		}
		l.Skipped++
		l.Reasons[string(why)]++
	}
	if len(l.Names) < mostLeft {
		l.Names = append(l.Names, LeftFile{Name: clip(name), Why: clip(sentence)})
	}
}

func clip(text string) string { return cut(text, mostLeftText) }

// bounded is the part of a report that is kept: its size is up to the executor.
func (l *LeftOut) bounded() LeftOut {
	b := LeftOut{Skipped: max(0, l.Skipped), Renamed: max(0, l.Renamed)}
	for _, f := range l.Names[:min(len(l.Names), mostLeft)] {
		b.Names = append(b.Names, LeftFile{Name: clip(f.Name), Why: clip(f.Why)})
	}
	for i, why := range slices.Sorted(maps.Keys(l.Reasons)) {
		if i == 0 {
			b.Reasons = map[string]int{}
		}
		if i < mostReasons && l.Reasons[why] > 0 {
			b.Reasons[clip(why)] = l.Reasons[why]
		}
	}
	return b
}

// leftWords name what was left out: one, and several.
var leftWords = map[collect.Reason][2]string{
	collect.LinkOut: {"link that leads out", "links that lead out"}, collect.FIFO: {"pipe", "pipes"},
	collect.Socket: {"socket", "sockets"}, collect.Device: {"device", "devices"},
	collect.LongName:   {"file with too long a path", "files with too long a path"},
	collect.TooLarge:   {"file that is too large", "files that are too large"},
	collect.TooMany:    {"file beyond the number that may be", "files beyond the number that may be"},
	collect.TooDeep:    {"directory too deep", "directories too deep"},
	collect.Mounted:    {"entry on another file system", "entries on other file systems"},
	collect.Unreadable: {"file that cannot be read", "files that cannot be read"},
	collect.Changed:    {"file that changed or vanished", "files that changed or vanished"},
	collect.InPart:     {"file in part", "files in part"},
}

// Sentence is for people; "" if everything is there as it was.
func (l *LeftOut) Sentence() string {
	var texts, names []string
	if l.Skipped > 0 {
		reasons := slices.SortedFunc(maps.Keys(l.Reasons), func(a, b string) int {
			return cmp.Or(cmp.Compare(l.Reasons[b], l.Reasons[a]), cmp.Compare(a, b))
		})
		var parts []string
		for _, why := range reasons {
			n, word := l.Reasons[why], leftWords[collect.Reason(why)]
			switch {
			case word[0] == "":
				parts = append(parts, fmt.Sprintf("%d for %q", n, why))
			case n == 1:
				parts = append(parts, "1 "+word[0])
			default:
				parts = append(parts, fmt.Sprintf("%d %s", n, word[1]))
			}
		}
		texts = append(texts, fmt.Sprintf("left out of its results: %s",
			cmp.Or(strings.Join(parts, ", "), fmt.Sprint(l.Skipped))))
	}
	if l.Renamed > 0 {
		texts = append(texts, fmt.Sprintf("stored under other names: %d", l.Renamed))
	}
	shown := 3
	if l.Skipped+l.Renamed == shown+1 { // dots would be no shorter than the last name
		shown++
	}
	for _, f := range l.Names[:min(len(l.Names), shown)] {
		names = append(names, f.Name)
	}
	if len(texts) == 0 || len(names) == 0 {
		return strings.Join(texts, "; ")
	}
	if l.Skipped+l.Renamed > len(names) {
		names = append(names, "...")
	}
	return strings.Join(texts, "; ") + " (" + strings.Join(names, ", ") + ")"
}

// note adds what was left out to the sentence that a job ends with.
func (r *Results) note(sentence string) string {
	if r == nil {
		return sentence
	}
	left := r.LeftOut.Sentence()
	if sentence == "" || left == "" {
		return sentence + left
	}
	return sentence + "; " + left
}
