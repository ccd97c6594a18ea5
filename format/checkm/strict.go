package checkm

import (
	"hash/maphash"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// strict is the state of a Reader in strict mode.
type strict struct {
	stage    stage
	seen     [stageCount]bool
	prefixes map[string]bool
	names    map[[2]uint64]int // hash of a file name to its line
	seeds    [2]maphash.Seed   // two make 128 bits: no false duplicates
}

// stage is a position in the order of headers.
type stage uint8

const (
	start stage = iota
	declaration
	profileHeader
	prefixHeader
	fieldsHeader
	stageCount
)

var stageNames = [stageCount]string{"", "#%checkm_0.7", "#%profile", "#%prefix", "#%fields"}

func newStrict() *strict {
	return &strict{
		prefixes: map[string]bool{},
		names:    map[[2]uint64]int{},
		seeds:    [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

// strictHeader checks the order and the content of the headers.
func (r *Reader) strictHeader(line string) error {
	s := r.strict
	keyword := line
	if i := strings.IndexAny(line, " \t|"); i >= 0 {
		keyword = line[:i]
	}
	at := start
	switch keyword {
	case "#%checkm_0.7":
		at = declaration
	case "#%profile":
		at = profileHeader
	case "#%prefix":
		at = prefixHeader
	case "#%fields", "#%columns":
		at = fieldsHeader
	default:
		r.warn(r.fault(line, 0, "#%checkm_0.7, #%profile, #%prefix or #%fields", quote(line)))
		return nil
	}
	if at < s.stage || (at == s.stage && at != prefixHeader) {
		return r.fault(line, 0, "no "+keyword+" after "+stageNames[s.stage], quote(line))
	}
	s.stage, s.seen[at] = at, true
	switch at {
	case profileHeader:
		return r.strictProfile(line)
	case prefixHeader:
		return r.strictPrefix(line)
	case fieldsHeader:
		return r.strictFields(line)
	}
	return nil
}

// strictProfile refuses the older URLs of a profile, and warns of a line without a bar.
func (r *Reader) strictProfile(line string) error {
	url, ok, err := r.profileURL(line)
	if err != nil || !ok {
		return err
	}
	if p, ok := Lookup(url.text); ok && url.text != p.URL() {
		return r.fault(line, url.at, quote(p.URL()), quote(url.text))
	}
	if !strings.Contains(line[:url.at], "|") {
		r.warn(r.fault(line, url.at, "| before the URL of a profile", quote(url.text)))
	}
	return nil
}

var prefixForm = regexp.MustCompile(`^#%prefix \| ([^\s:|]+):(?: \| ([^\s|<>]+)|<([^\s|<>]+)>)$`)

// strictPrefix accepts both forms: "nfo: | namespace" and "nfo:<namespace>". Faults of a prefix give a warning only.
func (r *Reader) strictPrefix(line string) error {
	m := prefixForm.FindStringSubmatch(line)
	if m == nil {
		r.warn(r.fault(line, 0, "#%prefix | name: | namespace", quote(line)))
		return nil
	}
	prefix, namespace := m[1], m[2]+m[3]
	if r.profile == nil {
		return nil
	}
	for _, known := range r.profile.prefixes {
		if known[0] != prefix {
			continue
		}
		r.strict.prefixes[prefix] = true
		if known[1] != namespace {
			r.warn(r.fault(line, strings.Index(line, namespace), "the namespace "+known[1], quote(namespace)))
		}
	}
	return nil
}

// strictFields requires the columns of the profile in their order; case and prefix of a name do not matter.
func (r *Reader) strictFields(line string) error {
	if r.profile == nil {
		return nil
	}
	var parts [columnCount + 1]field
	n := split(line, parts[:]) - 1
	for i, c := range r.profile.columns {
		f := field{at: len(line)}
		if i < n {
			f = parts[i+1]
		}
		name := f.text
		if colon := strings.IndexByte(name, ':'); colon >= 0 {
			name = name[colon+1:]
		}
		if !strings.EqualFold(name, c.String()) {
			return r.fault(line, f.at, "the field "+r.profile.fields[i], quote(f.text))
		}
	}
	if n > len(r.profile.columns) {
		return r.fault(line, parts[len(r.profile.columns)+1].at, countOf(len(r.profile.columns), "field"),
			strconv.Itoa(n))
	}
	return nil
}

// strictHeaderEnd warns of missing headers.
func (r *Reader) strictHeaderEnd() {
	if r.strict == nil || r.profile == nil {
		return
	}
	for at := declaration; at < stageCount; at++ {
		if !r.strict.seen[at] && at != prefixHeader {
			r.warn(r.fault("", 0, stageNames[at]+" in the header", "none"))
		}
	}
	for _, p := range r.profile.prefixes {
		if !r.strict.prefixes[p[0]] {
			r.warn(r.fault("", 0, "#%prefix for "+p[0]+": in the header", "none"))
		}
	}
}

// strictEnd requires the usual form of the closing line.
func (r *Reader) strictEnd(line string) error {
	if r.strict == nil {
		return nil
	}
	if !r.rows {
		r.strictHeaderEnd()
	}
	if strings.TrimRight(line, " \t") != "#%eof" {
		return r.fault(line, 0, "#%eof", quote(line))
	}
	return nil
}

var ark = regexp.MustCompile(`^ark:/\d+/[a-z][a-z0-9]+$`)

// strictRow checks a row that the default mode accepts. n is the number of fields of the line.
func (r *Reader) strictRow(row *Row, line string, n int) error {
	if n > len(r.profile.columns) {
		return r.fault(line, r.fields[len(r.profile.columns)].at, "at most "+countOf(len(r.profile.columns), "field"),
			strconv.Itoa(n))
	}
	if i := strings.IndexRune(line, '\uFFFD'); i >= 0 {
		return r.fault(line, i, "text", "the replacement character U+FFFD")
	}
	for i, c := range r.profile.columns {
		value := decode(r.fields[i].text)
		if expected := r.strictField(row, c, value); expected != "" {
			return r.fault(line, r.fields[i].at, expected, quoteURL(value))
		}
	}
	return r.strictUnique(row, line)
}

// strictField returns what was expected of an invalid field, "" for a valid one.
func (r *Reader) strictField(row *Row, c Column, value string) string {
	d := row.Digest
	switch {
	case c == FileURL:
		return strictURL(row.URL)
	case value == "":
		return ""
	}
	switch c {
	case HashAlgorithm:
		switch {
		case !strings.EqualFold(value, "md5") && !strings.EqualFold(value,
			"sha-256"): // as the web validator spells them
			return "md5 or sha-256"
		case d.IsZero():
			return "an algorithm with a value"
		}
	case HashValue:
		switch {
		case d.IsZero():
			return "a value with an algorithm"
		case len(value) != d.Algorithm.HexLen() || !isHex(value):
			return countOf(d.Algorithm.HexLen(), "lower-case hexadecimal digit") + " of " + string(d.Algorithm)
		}
	case FileSize:
		if !isDigit(value[0]) {
			return "a file size without sign"
		}
	case FileName:
		return r.strictName(value)
	case PrimaryIdentifier:
		if !ark.MatchString(value) {
			return "an ark such as ark:/99999/fk4000000a"
		}
	}
	return ""
}

// strictURL requires http or https and a full host name.
func strictURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "" || err != nil || strings.ContainsAny(s, " \t"):
		return "a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "an http or https URL"
	case !hostName.MatchString(u.Hostname()):
		return "a URL with a full host name"
	}
	return ""
}

var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+\.)+[A-Za-z]{2,}$`)

func (r *Reader) strictName(name string) string {
	low := strings.ToLower(name)
	manifest := strings.HasSuffix(low, ".checkm")
	switch {
	case r.profile == BatchManifests && !manifest:
		return "the name of a manifest (.checkm)"
	case r.profile == BatchContainers && !isContainer(low):
		return "the name of a container (.tar, .zip, .tar.gz, .bz2)"
	case r.profile == BatchFiles && manifest:
		return "the name of a file, not of a manifest (.checkm)"
	case strings.Contains(name, `\`):
		return `a file name without "\"`
	case path.Clean(name) != name:
		return "the file name " + quote(path.Clean(name))
	}
	return ""
}

func isContainer(name string) bool {
	for _, suffix := range [...]string{".tar", ".zip", ".tar.gz", ".bz2"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// strictUnique refuses a file name that occurs in an earlier row.
func (r *Reader) strictUnique(row *Row, line string) error {
	s := r.strict
	key := [2]uint64{maphash.String(s.seeds[0], row.FileName), maphash.String(s.seeds[1], row.FileName)}
	if before, found := s.names[key]; found {
		at := 0
		for i, c := range r.profile.columns {
			if c == FileName && r.fields[i].text != "" {
				at = r.fields[i].at
			}
		}
		return r.fault(line, at, "a file name that is not in line "+strconv.Itoa(before), quote(row.FileName))
	}
	s.names[key] = row.Line
	return nil
}

func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
