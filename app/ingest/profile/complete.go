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

// fault is a mistake about a key; where that stands is found later.
type fault struct{ key, text string }

// faults collects all mistakes of a profile.
type faults []fault

func (f *faults) add(key, format string, args ...any) {
	*f = append(*f, fault{key, fmt.Sprintf(format, args...)})
}

var (
	idText   = pattern("id")
	hookText = pattern("webhooks.0.name")
)

// pattern returns the pattern of a key by its tags.
func pattern(key string) *regexp.Regexp {
	f, _, _ := lookup(key)
	return regexp.MustCompile(f.pattern)
}

// complete fills in defaults and gives what is wrong beyond the schema. It quotes no secret.
func (p *Profile) complete() faults {
	var f faults
	if !idText.MatchString(p.ID) {
		f.add("id", "%q is no id: letters, digits, dot, hyphen and underscore, at most 64", p.ID)
	}
	if p.Collection == "" {
		p.Collection = p.ID
	}
	if p.Owner == "" {
		p.Owner = p.Collection
	}
	if _, given := p.given["submitters"]; given && len(p.Submitters) == 0 {
		f.add("submitters", "an empty list allows no submitter: name the owners of tokens, or write \"*\" for all")
	}
	setDefaults(p)
	p.networks = nil
	for i, text := range p.Networks {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			f.add(at("allow_networks", i), "%q is no network such as 10.1.0.0/16", text)
			continue
		}
		p.networks = append(p.networks, n.Masked())
	}
	if p.Priority != nil && (*p.Priority < 0 || *p.Priority > 99) {
		f.add("priority", "%d is not within 0..99", *p.Priority)
	}
	if !slices.Contains([]Names{NamesPortable, NamesAsGiven}, p.Names) {
		f.add("names", "%q is none of portable, as-given", string(p.Names))
	}
	if !slices.Contains([]Suppress{SuppressNone, SuppressPartial, SuppressFull}, p.Suppress) {
		f.add("suppress", "%q is none of none, partial, full", string(p.Suppress))
	}
	if !slices.Contains([]Form{FormStagepost, FormMerritt}, p.Reports) {
		f.add("reports", "%q is none of stagepost, merritt", string(p.Reports))
	}
	p.completeMinter(&f)
	p.completeAddresses(&f)
	if p.Callback != nil {
		f.webURL("callback.url", p.Callback.URL)
		if p.Callback.Resolver != "" {
			f.webURL("callback.resolver", p.Callback.Resolver)
		}
		if !slices.Contains([]Form{FormStagepost, FormMerritt}, p.Callback.Form) {
			f.add("callback.form", "%q is none of stagepost, merritt", string(p.Callback.Form))
		}
	}
	p.completeWebhooks(&f)
	p.completeSecrets(&f)
	p.completePlaces(&f)
	p.completeLimits(&f)
	return f
}

// at gives the key of an item of a list.
func at(key string, i int) string { return fmt.Sprintf("%s.%d", key, i) }

func (p *Profile) completeMinter(f *faults) {
	m := &p.Minter
	p.completeEZID(f)
	switch {
	case m.URL != "" && m.Template != "":
		f.add("minter", "it has a template and a url; one of them mints")
		return
	case m.URL != "":
		f.webURL("minter.url", m.URL)
		return
	case m.Template == "":
		m.Template = DefaultTemplate
	}
	t, err := noid.Parse(strings.TrimPrefix(strings.TrimPrefix(m.Template, "ark:"), "/"))
	if err != nil {
		f.add("minter.template", "%s", err)
		return
	}
	if first, err := t.Mint(0); err != nil || !noid.Pattern.MatchString("ark:/"+first) {
		f.add("minter.template", "%q makes no ARKs: a NAAN of five digits, a slash and a name", m.Template)
		return
	}
	m.noid = t
}

// completeEZID checks what belongs to EZID.
func (p *Profile) completeEZID(f *faults) {
	m := &p.Minter
	if !slices.Contains([]MinterForm{MinterStagepost, MinterEZID}, m.Form) {
		f.add("minter.form", "%q is none of stagepost, ezid", string(m.Form))
	}
	if !slices.Contains([]string{"public", "reserved"}, m.Status) {
		f.add("minter.status", "%q is none of public, reserved", m.Status)
	}
	if m.Target != "" {
		f.webURL("minter.target", m.Target)
	}
	if m.Form == MinterEZID {
		if u, err := url.Parse(m.URL); err != nil || !strings.Contains(u.Path, "/shoulder/ark:/") {
			f.add("minter.url",
				"it is no address of a shoulder such as https://USER@ezid.cdlib.org/shoulder/ark:/99999/fk4")
		}
		return
	}
	for key, text := range map[string]string{"minter.target": m.Target, "minter.coowner": m.Coowner} {
		if text != "" {
			f.add(key, "it is for the form ezid")
		}
	}
}

func (p *Profile) completeWebhooks(f *faults) {
	seen := map[string]int{}
	for i := range p.Webhooks {
		w := &p.Webhooks[i]
		key := at("webhooks", i)
		host := f.webURL(key+".url", w.URL)
		if w.Name == "" {
			w.Name = hostName(host)
		}
		if n, twice := seen[w.Name]; twice && w.Name != "" {
			f.add(key, "it is called %s, as webhook %d is: give each a name", w.Name, n)
		}
		seen[w.Name] = i
		if host != "" && !hookText.MatchString(w.Name) {
			f.add(key+".name", "%q is no name: small letters, digits and hyphens, at most 64", w.Name)
		}
		if w.SecretFile == "" {
			f.add(key+".secret_file", "there is none: receivers could not verify the caller")
		}
		for k, event := range w.Events {
			if !slices.Contains(Events(), event) {
				f.add(at(key+".events", k), "%q is none of %s", event, strings.Join(Events(), ", "))
			}
		}
	}
}

// hostName makes the name of a hook from its host: "hooks.example.org:8443" is hooks-example-org-8443.
func hostName(host string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(host))
	name = strings.Trim(name, "-")
	return name[:min(len(name), 64)]
}

func (p *Profile) completePlaces(f *faults) {
	seen := map[string]bool{}
	for i, dir := range p.Storage {
		if dir == "" {
			f.add(at("storage", i), "a storage location has no name")
			continue
		}
		dir = filepath.Clean(dir)
		if seen[dir] {
			f.add(at("storage", i), "the storage location %s is named twice", dir)
		}
		seen[dir], p.Storage[i] = true, dir
	}
}

func (p *Profile) completeLimits(f *faults) {
	l := &p.Limits
	for key, n := range map[string]int64{"limits.files": int64(l.Files), "limits.bytes": l.Bytes,
		"limits.manifest": l.Manifest} {
		if n < 0 {
			f.add(key, "a limit is not negative")
		}
	}
	if l.Manifest == 0 {
		l.Manifest = DefaultManifest
		if p.Strict {
			l.Manifest = DefaultStrictManifest
		}
	}
}

// webURL requires an http or https URL and returns its host. The text is not quoted: it may hold a password or a token.
func (f *faults) webURL(key, text string) (host string) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		f.add(key, "it is no http or https URL")
		return ""
	}
	return u.Host
}
