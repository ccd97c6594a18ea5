package profile

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/tree"
)

// Lint returns warnings: what is allowed and probably not intended. dir is the data directory to which storage
// locations are relative.
func Lint(s *Set, dir string) Mistakes {
	l := linter{dir: dir, spelled: map[string]spelling{}, owners: map[string]*Profile{}}
	for _, id := range s.IDs() {
		if p := s.of(id); p != nil {
			l.owner(p)
			l.places(p)
			l.hosts(p)
			l.found = append(l.found, p.unreadable()...)
		}
	}
	return l.found.sorted()
}

type linter struct {
	dir     string
	found   Mistakes
	spelled map[string]spelling // by the resolved directory
	owners  map[string]*Profile // by collection
}

// spelling is the first spelling of a storage location.
type spelling struct {
	text string
	by   *Profile
}

func (l *linter) warn(p *Profile, key, format string, args ...any) {
	l.found = append(l.found, p.mistake(key, format, args...))
}

// mistake is one about a key of the profile.
func (p *Profile) mistake(key, format string, args ...any) *Mistake {
	at, ok := p.given[key]
	if !ok {
		at = tree.Position{Line: 1, Column: 1}
	}
	return &Mistake{File: p.file, Line: at.Line, Column: at.Column, Key: key, Text: fmt.Sprintf(format, args...)}
}

// owner finds a collection whose local ids belong to two owners: the same local id then names two objects.
func (l *linter) owner(p *Profile) {
	first := l.owners[p.Collection]
	if first == nil {
		l.owners[p.Collection] = p
		return
	}
	if first.Owner != p.Owner {
		l.warn(p, "owner", "collection %s has owner %s here and %s in profile %s: the same local id would name two "+
			"objects", p.Collection, p.Owner, first.Owner, first.ID)
	}
}

func (l *linter) places(p *Profile) {
	for i, text := range p.Storage {
		dir := text
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(l.dir, dir)
		}
		key := at("storage", i)
		if err := reachable(dir); err != nil {
			l.warn(p, key, "the storage location %s cannot be reached: %s", text, err)
		}
		real := resolved(dir)
		first, ok := l.spelled[real]
		if !ok {
			l.spelled[real] = spelling{text, p}
			continue
		}
		if first.text != text {
			l.warn(p, key, "the storage location %s is the one that profile %s calls %s: holds and tags take them "+
				"for two", text, first.by.ID, first.text)
		}
	}
}

// reachable requires a directory that can be listed, or whose parent exists.
func reachable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("it is no directory")
	case err == nil:
		d, err := os.Open(dir)
		if err != nil {
			return cause(err)
		}
		return d.Close()
	case !os.IsNotExist(err):
		return cause(err)
	}
	above, err := os.Stat(filepath.Dir(dir))
	switch {
	case err != nil:
		return fmt.Errorf("%s does not exist", filepath.Dir(dir))
	case !above.IsDir():
		return fmt.Errorf("%s is no directory", filepath.Dir(dir))
	}
	return nil
}

// cause drops the path of a path error.
func cause(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}

// resolved returns the canonical name of a directory: absolute, without symbolic links as far as it exists.
func resolved(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	rest := ""
	for at := dir; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return dir
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// hosts finds what is called without TLS outside the networks that the profile allows.
func (l *linter) hosts(p *Profile) {
	for _, r := range p.receivers() {
		key := r.key + ".url"
		u, err := url.Parse(r.url)
		if err != nil {
			continue
		}
		if key != "minter.url" && p.shut(u.Hostname()) {
			l.warn(p, key, "it is at a special address: it is called only where allow_networks names a network with it")
		}
		if u.Scheme != "http" {
			continue
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && p.near(a) ||
			strings.EqualFold(u.Hostname(), "localhost") {
			continue
		}
		l.warn(p, key, "it is called by http: others on the network can read it and answer for it")
	}
}

// shut reports whether the host of a receiver is written as a special address that the profile does not allow.
func (p *Profile) shut(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return len(p.networks) == 0
	}
	a, err := netip.ParseAddr(host)
	special := err == nil && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast())
	return special && !slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// near reports whether an address lies in a network of the operator's own.
func (p *Profile) near(a netip.Addr) bool {
	for _, n := range p.networks {
		if n.Contains(a) {
			return true
		}
	}
	return a.IsLoopback()
}
