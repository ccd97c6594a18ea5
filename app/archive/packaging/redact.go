package packaging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

const redacted = "***"

// secretWords are parts of the names of settings whose values are secrets, in lower case without - and _.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey",
	"credential", "authorization", "cookie", "sesskey"}

// secretParameter finds secrets in URLs: a password before the host, and parameters.
var secretParameter = regexp.MustCompile(
	`(?i)(://[^/?#\s:@]*:)[^/?#\s@]+(@)|([?&](?:ws)?(?:token|password|secret|api_?key|sesskey|signature)=)[^&#\s"]+`)

// secretName reports whether a setting of this name holds a secret. The name of a file with a secret is none.
func secretName(name string) bool {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if strings.HasSuffix(name, "file") {
		return false
	}
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// redactor replaces secrets in metadata.
type redactor struct{ known *strings.Replacer }

func newRedactor(secrets []string) redactor {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, redacted)
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// text replaces secrets in a text.
func (r redactor) text(s string) string {
	return secretParameter.ReplaceAllString(r.known.Replace(s), "${1}${3}"+redacted+"${2}")
}

// value returns a value as JSON values without secrets. Numbers keep their digits.
func (r redactor) value(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, err
	}
	return r.clean(plain), nil
}

func (r redactor) clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch {
			case !secretName(name):
				v[name] = r.clean(inner)
			case inner != nil && inner != "" && inner != false && inner != true:
				v[name] = redacted
			}
		}
	case []any:
		for i := range v {
			v[i] = r.clean(v[i])
		}
	case string:
		return r.text(v)
	}
	return v
}
