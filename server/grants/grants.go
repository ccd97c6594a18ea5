// Package grants enters in the audit log who was given access or lost it. Tokens, local users and enrolment tokens
// stand in files that commands and people edit, with or without a server: a server compares the files with what it has
// entered before.
package grants

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// Files are those that give access. An empty name stands for none.
type Files struct {
	Tokens    string
	Users     string
	Authority string // a directory
	Seen      string // what was entered before; it is made if it is missing
}

// Change is an entry of the audit log.
type Change struct {
	Event  lifecycle.Event // such as add-token
	Actor  string          // whom a comment of the file names, else "unknown"
	Object string
	Note   string // that of the comment
}

// grant is what one line of a file gives.
type grant struct {
	What   string `json:"what"`             // for people
	Digest string `json:"digest,omitempty"` // of the line, which may change in more than What

	actor, note string // of files that have them beside what they give
}

// settled is how long a file has to be unchanged: a comment follows its change.
const settled = time.Second

// Enter compares the files with what was entered before, and calls enter for each difference. What it refuses is
// entered by a later call, and so is a file that cannot be read or has just changed. Several processes may do this at
// once.
func (f *Files) Enter(now time.Time, enter func(Change) error) error {
	check := func(text []byte) error {
		_, err := parse(text)
		return err
	}
	var failed error
	err := sharedfile.Edit(f.Seen, check, func(text []byte) ([]byte, error) {
		seen, err := parse(text)
		if err != nil {
			return nil, err
		}
		for _, one := range f.kinds() {
			if one.file == "" || !steady(one.file, now) {
				continue
			}
			if err := one.compare(seen, enter); err != nil {
				failed = err
				break
			}
		}
		text, err = json.MarshalIndent(seen, "", "  ")
		return append(text, '\n'), err
	})
	return errors.Join(failed, err)
}

func parse(text []byte) (map[string]grant, error) {
	seen := map[string]grant{}
	if len(text) == 0 {
		return seen, nil
	}
	return seen, json.Unmarshal(text, &seen)
}

// steady reports whether a file has not changed for a while, or is missing.
func steady(name string, now time.Time) bool {
	info, err := os.Stat(name)
	return err != nil || (now.Sub(info.ModTime()) >= settled || info.ModTime().After(now))
}

// Steady reports whether all files have not changed for a while, so that [Files.Enter] has compared them.
func (f *Files) Steady(now time.Time) bool {
	return !slices.ContainsFunc(f.kinds(), func(k kind) bool { return k.file != "" && !steady(k.file, now) })
}

// Stamp returns what changes with the files, for callers that skip comparisons.
func (f *Files) Stamp() string {
	var stamp strings.Builder
	for _, one := range f.kinds() {
		if info, err := os.Stat(one.file); err == nil {
			stamp.WriteString(info.ModTime().String() + " ")
		}
	}
	return stamp.String()
}

// kind is one kind of grants.
type kind struct {
	name, file string
	read       func(name string) (map[string]grant, error)
	lasting    bool // a grant that is missing was taken away; others are used up or expire
}

func (f *Files) kinds() []kind {
	members := f.Authority
	if members != "" {
		members = authority.MembersFile(members)
	}
	return []kind{
		{"token", f.Tokens, readTokens, true}, {"user", f.Users, readUsers, true},
		{"enrolment", members, readEnrolments, false}, {"revocation", members, readRevocations, false},
	}
}

// compare enters the differences of one kind, in the order of their keys.
func (k *kind) compare(seen map[string]grant, enter func(Change) error) error {
	now, err := k.read(k.file)
	if err != nil {
		return nil // the log and /healthz have the reason
	}
	remarks := readRemarks(k.file)
	prefix := k.name + " "
	for _, key := range slices.Sorted(maps.Keys(now)) {
		before, known := seen[prefix+key]
		what, object := "add", prefix+key+": "+now[key].What
		switch {
		case known && before.What == now[key].What && before.Digest == now[key].Digest:
			continue
		case known:
			what, object = "change", prefix+key+": "+before.What+" to "+now[key].What
		}
		c := remarks.change(what+"-"+k.name, key, object)
		if actor := now[key].actor; actor != "" {
			c.Actor, c.Note = actor, now[key].note
		}
		if err := enter(c); err != nil {
			return err
		}
		seen[prefix+key] = now[key]
	}
	for _, text := range slices.Sorted(maps.Keys(seen)) {
		key, ours := strings.CutPrefix(text, prefix)
		if _, still := now[key]; !ours || still {
			continue
		}
		if k.lasting {
			if err := enter(remarks.change("remove-"+k.name, key, text+": "+seen[text].What)); err != nil {
				return err
			}
		}
		delete(seen, text)
	}
	return nil
}

// digest returns the SHA-256 of a text that must not be kept.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// until describes an expiry.
func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " until " + t.UTC().Format(time.RFC3339)
}

func readTokens(name string) (map[string]grant, error) {
	entries, err := token.Read(name)
	all := map[string]grant{}
	for _, e := range entries {
		all[e.Hash.String()[:16]] = grant{What: identity.WriteScope(e.Role, e.Groups, e.Work) + " " + e.Owner +
			until(e.Expires)}
	}
	return all, err
}

func readUsers(name string) (map[string]grant, error) {
	users, err := account.Read(name)
	all := map[string]grant{}
	for i := range users {
		u := &users[i]
		what := identity.WriteScope(u.Role, u.Groups, "")
		if u.Disabled {
			what += " disabled"
		}
		all[u.Name] = grant{What: what, Digest: digest(u.Stamp())}
	}
	return all, err
}

func readEnrolments(name string) (map[string]grant, error) {
	enrolments, _, err := authority.ReadMembers(name)
	all := map[string]grant{}
	for _, e := range enrolments {
		all[e.Hash[:16]] = grant{What: e.Name + " work=" + e.Work + " services=" + e.Services + until(e.Expires),
			actor: e.By, note: e.Note}
	}
	return all, err
}

func readRevocations(name string) (map[string]grant, error) {
	_, certificates, err := authority.ReadMembers(name)
	all := map[string]grant{}
	for _, c := range certificates {
		if !c.Revoked.IsZero() {
			all[c.Fingerprint[:16]] = grant{What: "certificate of " + c.Name, actor: c.RevokedBy,
				note: c.RevokedWhy}
		}
	}
	return all, err
}

// remarks are the last comments of a file about its keys: who changed something, and why.
type remarks map[string][2]string

// readRemarks reads comments of the form "# TIME WHAT KEY ... by WHO: NOTE", which commands write.
func readRemarks(name string) remarks {
	all := remarks{}
	text, err := sharedfile.Read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[0] != "#" {
			continue
		}
		if _, rest, ok := strings.Cut(strings.TrimSpace(line), " by "); ok {
			who, note, _ := strings.Cut(rest, ":")
			all[fields[3]] = [2]string{who, strings.TrimSpace(note)}
		}
	}
	return all
}

// change makes an entry.
func (all remarks) change(event, key, object string) Change {
	of := all[key]
	return Change{Event: lifecycle.Event(event), Actor: cmp.Or(of[0], "unknown"), Object: object, Note: of[1]}
}
