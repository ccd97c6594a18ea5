package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Set is the profiles of a server, by id. The zero Set, and a nil one, have the built-in profile only.
type Set struct {
	byID map[string]*Profile
}

// New makes a set. It fills in what the profiles leave out.
func New(profiles ...Profile) (*Set, error) {
	s := &Set{byID: map[string]*Profile{}}
	var mistakes []error
	for _, p := range profiles {
		if key, err := p.complete(); err != nil {
			mistakes = append(mistakes, fmt.Errorf("profile %s: %s: %w", p.ID, key, err))
			continue
		}
		if s.byID[p.ID] != nil {
			mistakes = append(mistakes, fmt.Errorf("profile %s: there are two of this id", p.ID))
		}
		s.byID[p.ID] = &p
	}
	return s, errors.Join(mistakes...)
}

// Load reads every .yaml and .yml file of a directory. The error names all mistakes, each with file and line. A directory that does not
// exist holds no profiles.
func Load(dir string) (*Set, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return New()
	}
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	s := &Set{byID: map[string]*Profile{}}
	files := map[string]string{}
	var mistakes []error
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || (ext != ".yaml" && ext != ".yml") {
			continue
		}
		file := filepath.Join(dir, e.Name())
		p, err := read(file)
		switch {
		case err != nil:
			mistakes = append(mistakes, err)
		case files[p.ID] != "":
			mistakes = append(mistakes, fmt.Errorf("%s: profile %s is also in %s", file, p.ID, files[p.ID]))
		default:
			s.byID[p.ID], files[p.ID] = p, file
		}
	}
	return s, errors.Join(mistakes...)
}

func read(file string) (*Profile, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return p, nil
}

// Parse reads one profile. Errors begin with the line, "3:1: ...".
func Parse(text []byte) (*Profile, error) {
	var p Profile
	err := decode(text, &p)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("1:1: the file is empty")
	}
	if err != nil {
		return nil, place(err)
	}
	if key, err := p.complete(); err != nil {
		return nil, fmt.Errorf("%d:1: %s: %w", lineOf(text, key), key, err)
	}
	return &p, nil
}

// decode reads YAML strictly. The library panics on some malformed files (a tag in place of a list); that is a mistake in the file.
func decode(text []byte, p *Profile) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the file cannot be read as YAML")
		}
	}()
	return yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(p)
}

// place brings the position of a YAML error to its front and drops the excerpt, which may show a secret.
func place(err error) error {
	var at yaml.Error
	if errors.As(err, &at) {
		if token := at.GetToken(); token != nil {
			return fmt.Errorf("%d:%d: %s", token.Position.Line, token.Position.Column, at.GetMessage())
		}
		return fmt.Errorf("1:1: %s", at.GetMessage())
	}
	return fmt.Errorf("1:1: %w", err)
}

// lineOf finds the line on which a key stands ("callback.url": the key url below callback), 1 if it was left out.
func lineOf(text []byte, key string) int {
	parts := strings.Split(key, ".")
	n := 0
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), parts[n]+":") || strings.HasPrefix(strings.TrimSpace(line), "{"+parts[n]+":") {
			if n++; n == len(parts) {
				return i + 1
			}
		}
	}
	return 1
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

func builtin() *Profile {
	p := &Profile{ID: Default, Description: "what a submission gets that names no profile"}
	if _, err := p.complete(); err != nil {
		panic(err) // the built-in profile is a constant of the program
	}
	return p
}
