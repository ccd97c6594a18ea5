// Package profile holds what an operator decides for a collection: who owns it, what may be fetched for it, where its objects are kept,
// how they are named and who is told. A profile is a YAML file; a depositor names it with each submission.
package profile

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/noid"
)

// Default is the id of the built-in profile.
const Default = "default"

// Profile is one file of the profile directory. Fields that are left out take the value of the built-in profile.
type Profile struct {
	ID           string    `yaml:"id"`
	Description  string    `yaml:"description"`
	Owner        string    `yaml:"owner"`          // local ids are unique within an owner
	Collection   string    `yaml:"collection"`     // what a hold on the collection names. Defaults to the id
	Notification []string  `yaml:"notification"`   // addresses of the reports, besides the depositor's own
	Networks     []string  `yaml:"allow_networks"` // special networks, as CIDR, that may be fetched from. Defaults to none
	Minter       Minter    `yaml:"minter"`
	Storage      []string  `yaml:"storage"` // OCFL storage roots, relative to the data directory. Defaults to storage
	Callback     *Callback `yaml:"callback"`
	Priority     *int      `yaml:"priority"` // of its jobs, 0 to 99. Defaults to the size of the batch
	Suppress     Suppress  `yaml:"suppress"`
	Strict       bool      `yaml:"strict"` // manifests as the validator of the California Digital Library wants them
	Limits       Limits    `yaml:"limits"`

	networks []netip.Prefix
}

// Minter makes the identifiers of new objects: our own from a NOID template, or a service.
type Minter struct {
	Template string `yaml:"template"` // "ark:/99999/fk4.reedeedk". Not together with URL
	URL      string `yaml:"url"`      // asked by POST, with the job as Idempotency-Key

	noid *noid.Template
}

// Callback is told when an object is stored.
type Callback struct {
	URL      string `yaml:"url"`
	Secret   Secret `yaml:"secret"`   // signs each call
	Required bool   `yaml:"required"` // a callback that is refused fails the job. Defaults to a warning
}

// Secret prints as three stars.
type Secret string

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret.
func (Secret) GoString() string { return "***" }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Suppress says which mails are not sent.
type Suppress string

// Degrees of silence.
const (
	SuppressNone    Suppress = "none"
	SuppressPartial Suppress = "partial" // no mail that a submission was queued
	SuppressFull    Suppress = "full"    // no mail
)

// Limits bound one object. Zero takes the default.
type Limits struct {
	Files    int   `yaml:"files"`    // of an object. Defaults to 100,000
	Bytes    int64 `yaml:"bytes"`    // of an object. Defaults to 1 TiB
	Manifest int64 `yaml:"manifest"` // of a manifest, in bytes. Defaults to 1 GiB, in strict profiles to 5,000,000 as in Merritt
}

// Defaults of Limits.
const (
	DefaultFiles          = 100_000
	DefaultBytes          = 1 << 40
	DefaultManifest       = 1 << 30
	DefaultStrictManifest = 5_000_000
	DefaultTemplate       = "ark:/99999/fk4.reedeedk"
)

// AllowNetworks gives the networks as prefixes.
func (p *Profile) AllowNetworks() []netip.Prefix { return slices.Clone(p.networks) }

// Group is what holds and limits call the profile's jobs.
func (p *Profile) Group() string { return p.Collection }

var idText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// complete fills in defaults and gives the first mistake, as the key it is about and a sentence.
func (p *Profile) complete() (key string, err error) {
	if !idText.MatchString(p.ID) {
		return "id", fmt.Errorf("%q is no id: letters, digits, dot, hyphen and underscore, at most 64", p.ID)
	}
	if p.Collection == "" {
		p.Collection = p.ID
	}
	if p.Owner == "" {
		p.Owner = p.Collection
	}
	p.networks = nil
	for _, text := range p.Networks {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return "allow_networks", fmt.Errorf("%q is no network such as 10.1.0.0/16", text)
		}
		p.networks = append(p.networks, n.Masked())
	}
	if p.Priority != nil && (*p.Priority < 0 || *p.Priority > 99) {
		return "priority", fmt.Errorf("%d is not within 0..99", *p.Priority)
	}
	switch p.Suppress {
	case "":
		p.Suppress = SuppressNone
	case SuppressNone, SuppressPartial, SuppressFull:
	default:
		return "suppress", fmt.Errorf("%q is none of none, partial, full", p.Suppress)
	}
	if key, err := p.completeMinter(); err != nil {
		return key, err
	}
	if p.Callback != nil {
		if err := webURL(p.Callback.URL); err != nil {
			return "callback.url", err
		}
	}
	return p.completePlaces()
}

func (p *Profile) completeMinter() (string, error) {
	switch {
	case p.Minter.URL != "" && p.Minter.Template != "":
		return "minter", fmt.Errorf("it has a template and a url; one of them mints")
	case p.Minter.URL != "":
		if err := webURL(p.Minter.URL); err != nil {
			return "minter.url", err
		}
	case p.Minter.Template == "":
		p.Minter.Template = DefaultTemplate
	}
	if p.Minter.URL != "" {
		return "", nil
	}
	t, err := noid.Parse(strings.TrimPrefix(strings.TrimPrefix(p.Minter.Template, "ark:"), "/"))
	if err != nil {
		return "minter.template", err
	}
	if first, err := t.Mint(0); err != nil || !noid.Pattern.MatchString("ark:/"+first) {
		return "minter.template", fmt.Errorf("%q makes no ARKs: a NAAN of five digits, a slash and a name", p.Minter.Template)
	}
	p.Minter.noid = t
	return "", nil
}

// NOID gives the template, or nil when a service mints.
func (m Minter) NOID() *noid.Template { return m.noid }

func (p *Profile) completePlaces() (string, error) {
	if len(p.Storage) == 0 {
		p.Storage = []string{"storage"}
	}
	for i, dir := range p.Storage {
		if dir == "" {
			return "storage", fmt.Errorf("a storage place has no name")
		}
		p.Storage[i] = filepath.Clean(dir)
	}
	if sorted := slices.Sorted(slices.Values(p.Storage)); len(slices.Compact(sorted)) != len(p.Storage) {
		return "storage", fmt.Errorf("a storage place is named twice")
	}
	l := &p.Limits
	if l.Files < 0 || l.Bytes < 0 || l.Manifest < 0 {
		return "limits", fmt.Errorf("a limit is negative")
	}
	if l.Files == 0 {
		l.Files = DefaultFiles
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Manifest == 0 {
		l.Manifest = DefaultManifest
		if p.Strict {
			l.Manifest = DefaultStrictManifest
		}
	}
	return "", nil
}

func webURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%q is no http or https URL", text)
	}
	return nil
}
