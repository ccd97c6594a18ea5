package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// secretPrefix begins a secret of Standard Webhooks: such a text is no name of a file.
const secretPrefix = "whsec_"

// mostSecrets bounds the secrets of a file: all of them sign.
const mostSecrets = 8

// inline are the keys of secrets that a file has to hold, each with the key that names the file.
var inline = map[string]string{"secret": "secret_file", "secrets": "secret_file", "password": "password_file"}

// inlineText is the message about a secret that stands in the profile.
func inlineText(key string) (string, bool) {
	file, ok := inline[key[strings.LastIndexByte(key, '.')+1:]]
	return "a profile holds no secrets: write it to a file with the mode 600, and name the file as " + file, ok
}

// Keys returns the secrets that sign calls, as the file has them now; none without a file. A line that is no secret of
// Standard Webhooks is itself the key.
func (c *Callback) Keys() ([]webhook.Secret, error) { return readKeys(c.SecretFile, true) }

// Keys returns the secrets that sign notifications, as the file has them now.
func (w *Webhook) Keys() ([]webhook.Secret, error) { return readKeys(w.SecretFile, false) }

// Address returns the URL with the password that its file has now.
func (c *Callback) Address() (string, error) { return withPassword(c.URL, c.PasswordFile) }

// Address returns the URL with the password that its file has now.
func (w *Webhook) Address() (string, error) { return withPassword(w.URL, w.PasswordFile) }

// Address returns the URL with the password that its file has now.
func (m Minter) Address() (string, error) { return withPassword(m.URL, m.PasswordFile) }

// readKeys reads the secrets of a file, one on each line. With raw, any other text is a key too.
func readKeys(name string, raw bool) (all []webhook.Secret, err error) {
	if name == "" {
		return nil, nil
	}
	text, err := secretfile.ReadMounted(name)
	if err != nil {
		return nil, unwrapped(err)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, err := webhook.ParseSecret(line)
		if err != nil && raw {
			key, err = webhook.RawSecret(line), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		if all = append(all, key); len(all) > mostSecrets {
			return nil, fmt.Errorf("%s: more than %d secrets", name, mostSecrets)
		}
	}
	return all, nil
}

// withPassword gives a URL, whose user is given, the password of a file. No error contains the URL.
func withPassword(text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return "", errors.New("the URL has no user for the password")
	}
	password, err := secretfile.ReadMounted(file)
	if err != nil {
		return "", unwrapped(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}

// unwrapped gives an error of a file without the name of the call.
func unwrapped(err error) error {
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return fmt.Errorf("%s: %w", file.Path, file.Err)
	}
	return err
}

// receiver is the URL of something that is called, with the files of its secrets.
type receiver struct {
	key                  string // of the mapping
	url                  string
	secretFile, password *string
}

// receivers lists what the profile calls.
func (p *Profile) receivers() []receiver {
	all := []receiver{{"minter", p.Minter.URL, nil, &p.Minter.PasswordFile}}
	if c := p.Callback; c != nil {
		all = append(all, receiver{"callback", c.URL, &c.SecretFile, &c.PasswordFile})
	}
	for i := range p.Webhooks {
		w := &p.Webhooks[i]
		all = append(all, receiver{at("webhooks", i), w.URL, &w.SecretFile, &w.PasswordFile})
	}
	return all
}

// completeSecrets resolves names of files, which are relative to the directory of the profile, and refuses passwords
// in URLs.
func (p *Profile) completeSecrets(f *faults) {
	for _, r := range p.receivers() {
		for _, name := range []*string{r.secretFile, r.password} {
			if name == nil || *name == "" {
				continue
			}
			if strings.HasPrefix(filepath.Base(*name), secretPrefix) {
				text, _ := inlineText("secret")
				f.add(r.key, "%s", text)
				*name = "***" // no message quotes it
			}
			if p.file != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(filepath.Dir(p.file), *name)
			}
		}
		u, err := url.Parse(r.url)
		if err != nil {
			continue // it was reported
		}
		if _, inURL := u.User.Password(); inURL {
			text, _ := inlineText("password")
			f.add(r.key+".url", "%s", text)
		} else if *r.password != "" && u.User == nil {
			f.add(r.key+".password_file", "the url has no user: https://USER@%s", u.Host)
		}
	}
}

// SecretFiles lists the files with the secrets of all profiles.
func (s *Set) SecretFiles() (names []string) {
	for _, id := range s.IDs() {
		p, _ := s.Get(id)
		for _, r := range p.receivers() {
			for _, name := range []*string{r.secretFile, r.password} {
				if name != nil && *name != "" {
					names = append(names, *name)
				}
			}
		}
	}
	return names
}

// CheckSecrets requires that the secrets of all profiles can be read now. It is for a server: who reads profiles
// elsewhere may have none. The error is [Mistakes].
func (s *Set) CheckSecrets() error {
	var all Mistakes
	for _, id := range s.IDs() {
		p, _ := s.Get(id)
		all = append(all, p.unreadable()...)
	}
	if len(all) == 0 {
		return nil
	}
	return all.sorted()
}

// unreadable reports the files of secrets that cannot be used.
func (p *Profile) unreadable() (all Mistakes) {
	for _, r := range p.receivers() {
		if r.secretFile != nil {
			if _, err := readKeys(*r.secretFile, r.key == "callback"); err != nil {
				all = append(all, p.mistake(r.key+".secret_file", "%s", err))
			}
		}
		if _, err := withPassword(r.url, *r.password); err != nil {
			all = append(all, p.mistake(r.key+".password_file", "%s", err))
		}
	}
	return all
}
