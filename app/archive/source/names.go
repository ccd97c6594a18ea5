package source

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/text/cases"
)

// Names keeps the names of the files of one activity apart. Names that [SafeName] makes of different names can be
// equal ("a:b" and "a_b"); so can names on a file system that ignores case.
//
// The keys are names in folded case. The values are the keys of what the names belong to, or empty for a directory. A
// Names can be saved as JSON, and is not safe for concurrent use.
type Names map[string]string

// For returns the name under which the file with a key is kept: name itself, or name with a number before its extension
// if another key has it ("a_b-2.txt"). The same key and name give the same result. Which key gets a number depends on
// the order of the calls, so callers ask in the order of the plan. The key must not be empty.
func (n Names) For(key, name string) string {
	dir, base := path.Split(name)
	at := ""
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if part != "" {
			at = n.take("", path.Join(at, part))
		}
	}
	return n.take(key, path.Join(at, base))
}

// take gives a name to a key, with a number if necessary.
func (n Names) take(key, name string) string {
	ext := path.Ext(name)
	if strings.Contains(ext, " ") || len(ext) > 16 || ext == path.Base(name) {
		ext = "" // a dot within a sentence, or at the begin
	}
	for i, try := 2, name; ; i++ {
		folded := cases.Fold().String(try)
		if owner, taken := n[folded]; !taken || owner == key {
			n[folded] = key
			return try
		}
		try = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), i, ext)
	}
}
