package profile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Set is the profiles of a server, by id. It never changes; [Live] replaces one by another. The zero Set, and a nil
// one, have the built-in profile only.
type Set struct {
	byID map[string]*Profile
	sum  [sha256.Size]byte            // of all files, names and bytes
	text map[string][sha256.Size]byte // of the file of each profile, by id
}

// New makes a set. It fills in what the profiles leave out.
func New(profiles ...Profile) (*Set, error) {
	s := &Set{byID: map[string]*Profile{}}
	var mistakes []error
	for _, p := range profiles {
		for _, f := range p.complete() {
			mistakes = append(mistakes, fmt.Errorf("profile %s: %s: %s", p.ID, f.key, f.text))
		}
		if s.byID[p.ID] != nil {
			mistakes = append(mistakes, fmt.Errorf("profile %s: there are two of this id", p.ID))
		}
		s.byID[p.ID] = &p
	}
	return s, errors.Join(mistakes...)
}

// Load reads every .yaml and .yml file of a directory, but hidden ones. The error is [Mistakes], all of them, where
// files could be read. A directory that does not exist holds no profiles.
func Load(dir string) (*Set, error) {
	files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	return load(files, nil)
}

// file is a profile file as it was read.
type file struct {
	name string
	text []byte
}

func readDir(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	var all []file
	for _, e := range entries {
		if e.IsDir() || !isProfile(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && e.Type().IsRegular() {
			continue // it was removed during the read
		}
		if err != nil {
			return nil, fmt.Errorf("profiles: %w", err)
		}
		all = append(all, file{name, text})
	}
	return all, nil
}

// Files lists the profile files of a directory.
func Files(dir string) ([]string, error) {
	files, err := readDir(dir)
	names := make([]string, len(files))
	for i := range files {
		names[i] = files[i].name
	}
	return names, err
}

// isProfile reports whether a file name is that of a profile; editors keep hidden files beside the one that they write.
func isProfile(name string) bool {
	ext := filepath.Ext(name)
	return (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(name, ".")
}

// digest identifies the content of files.
func digest(files []file) [sha256.Size]byte {
	h := sha256.New()
	for _, f := range files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(h, "%q %x\n", f.name, sum)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// load makes a set of files. Profiles with an unchanged file are those of the previous set.
func load(files []file, before *Set) (*Set, error) {
	s := &Set{byID: map[string]*Profile{}, text: map[string][sha256.Size]byte{}, sum: digest(files)}
	var mistakes Mistakes
	for _, f := range files {
		p, err := parse(f.name, f.text)
		var wrong Mistakes
		switch {
		case errors.As(err, &wrong):
			mistakes = append(mistakes, wrong...)
		case s.byID[p.ID] != nil:
			at := p.given["id"]
			mistakes = append(mistakes, &Mistake{
				File: f.name, Line: at.Line,
				Column: at.Column, Key: "id", Text: fmt.Sprintf("profile %s is also in %s", p.ID, s.byID[p.ID].file),
			})
		default:
			s.byID[p.ID], s.text[p.ID] = p, sha256.Sum256(f.text)
			if old := before.of(p.ID); old != nil && old.file == f.name && before.text[p.ID] == s.text[p.ID] {
				s.byID[p.ID] = old
			}
		}
	}
	if len(mistakes) > 0 {
		return nil, mistakes.sorted()
	}
	return s, nil
}

// of gives the profile of a file, or nil.
func (s *Set) of(id string) *Profile {
	if s == nil {
		return nil
	}
	return s.byID[id]
}

// Get gives the profile of an id; "" is the built-in one.
func (s *Set) Get(id string) (*Profile, bool) {
	if id == "" {
		id = Default
	}
	if s != nil && s.byID[id] != nil {
		return s.byID[id], true
	}
	if id == Default {
		return builtin(), true
	}
	return nil, false
}

// IDs lists the profiles, sorted.
func (s *Set) IDs() []string {
	ids := []string{Default}
	if s != nil {
		for id := range s.byID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// CheckFiles reads the files one by one, whatever their names, and gives all that is wrong with them, alone and
// together.
func CheckFiles(names ...string) (*Set, error) {
	var files []file
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("profiles: %w", err)
		}
		files = append(files, file{name, text})
	}
	return load(files, nil)
}

var builtin = sync.OnceValue(func() *Profile {
	p := &Profile{ID: Default, Description: "what a submission gets that names no profile"}
	if f := p.complete(); len(f) > 0 {
		panic(f) // the built-in profile is a constant of the program
	}
	return p
})
