package archiveconfig

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/format/yamlfile"
	"github.com/stagepost/stagepost/internal/goldentest"
)

var update = flag.Bool("update", false, "write docs/archive.schema.json instead of comparing it")

const published = "../../../docs/archive.schema.json"

// TestSchemaIsPublished compares the published schema with the structs; with -update it writes it. Every key has a
// sentence.
func TestSchemaIsPublished(t *testing.T) {
	goldentest.Compare(t, published, Schema(), *update, "go test ./app/archive/config -update")
	goldentest.Described(t, Schema())
}

// parse reads the text of a file in a directory that need not exist.
func parse(dir string, text []byte) (*Config, error) {
	c := &Config{dir: dir}
	var err error
	c.file, err = form.Read("", text, c)
	return c.checked(err)
}

const full = `organization: Example University
sources:
  campus:
    moodle:
      url: https://moodle.example.org
      token_file: token
      account: archiver
      password_file: password
      categories: [3, 7]
  exams:
    directory: {path: /srv/exams}
  web:
    web: {lists: lists, allow_networks: [10.0.0.0/8], max_file: 2GiB}
locations:
  near:
    directory: {path: near}
    parallel: 3
  bucket:
    s3: {endpoint: s3.example.org, bucket: 2026, access_key_file: a, secret_key_file: b, object_lock: compliance}
    tier: slow
  far:
    sftp: {address: "sftp.example.org:22", user: u, key_file: k, known_hosts: hosts, dir: /archive}
authorities:
  - name: dfn
    url: http://tsa.example.org
    roots: [root.pem]
    timeout: 5s
presets:
  default:
    settings: {keep: 10y, quorum: 2, locations: [near, bucket], attempts: 7, sign: true}
    locked: [keep, quorum]
  quick:
    settings:
      sign: false
      content: {file_name: "${username}"}
schedules:
  nightly:
    source: campus
    categories: ["3"]
    cron: 30 2 * * 1-5
    time_zone: Europe/Vienna
    preset: quick
receivers:
  exams:
    source: campus
    secret_file: sender
    most_delay: 7d
webhooks:
  lms:
    url: https://moodle.example.org/events
    secret_file: signing
    events: [archive_job_completed, task_failed]
`

// TestParse reads a file with each kind of source and location. Names of files are relative to its directory.
func TestParse(t *testing.T) {
	c, err := parse("/etc/stagepost", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "b", "k", "password", "sender", "signing", "token"}
	if got := c.SecretFiles(); !slices.EqualFunc(got, want,
		func(got, want string) bool { return got == "/etc/stagepost/"+want }) {
		t.Errorf("secrets: %v", got)
	}
	if got := c.Directories(); !slices.Equal(got, []string{"/etc/stagepost/near"}) {
		t.Errorf("directories: %v", got)
	}
	p, ok := c.Preset("default")
	if !ok || p.Settings.Quorum != "2" || p.Settings.Keep != "10y" ||
		!slices.Equal(p.Locked, []string{"keep", "quorum"}) {
		t.Errorf("default: %+v", p)
	}
	if c.Locations["bucket"].S3.Bucket != "2026" || c.Sources["web"].Web.MaxFile != 2<<30 ||
		c.Authorities[0].Timeout.Seconds() != 5 {
		t.Errorf("got %+v", c)
	}
	if _, err := p.Apply(archive.Settings{Keep: "1y"}); err == nil {
		t.Error("a locked setting was changed")
	}
	if _, ok := c.Preset("other"); ok {
		t.Error("there is no preset other")
	}
}

const small = `sources: {exams: {directory: {path: /srv/exams}}}
locations: {near: {directory: {path: /srv/near}}}
`

// TestMistakes: each mistake has its line, its key and a sentence with what can be done, and secrets are not shown.
// The control is that the files without the mistakes are valid.
func TestMistakes(t *testing.T) {
	const quiet = "presets: {default: {settings: {sign: false}}}\n"
	for _, text := range []string{full, small + quiet} {
		if _, err := parse("/", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(old, fresh string) string {
		if !strings.Contains(full, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(full, old, fresh, 1)
	}
	for _, c := range []struct{ text, want string }{
		{"", "1:1: locations: it is missing\n1:1: sources: it is missing"},
		{small, "1:1: presets.default.settings.sign: archives of the preset default get a time stamp, and there is no " +
			"authority: add one to authorities, or set presets.default.settings.sign to false"},
		{swap("token_file: token", "tokenfile: hush"), "4:5: sources.campus.moodle.token_file: it is missing\n6:7: sources.campus.moodle.tokenfile: there is no such key; is it " +
			"token_file?"},
		{swap("      token_file: token\n", ""), "4:5: sources.campus.moodle.token_file: it is missing"},
		{swap("organization", "organisation"), "1:1: organisation: there is no such key; is it organization?"},
		{swap("      account: archiver\n", ""), "4:5: sources.campus.moodle: account and password_file belong together"},
		{swap("    directory: {path: near}", "    directory: {path: near}\n    sftp: {address: a, user: u, key_file: k, "+
			"known_hosts: h, dir: d}"), "15:3: locations.near: exactly one of directory, s3 and sftp must be given"},
		{swap("key_file: k, ", ""), "22:5: locations.far.sftp: exactly one of key_file and password_file must be given"},
		{swap("tier: slow", "tier: tape"), `20:11: locations.bucket.tier: "tape": it is none of local, fast, slow`},
		{swap("parallel: 3", "parallel: 0"), "17:15: locations.near.parallel: it must not be below 1"},
		{swap("max_file: 2GiB", "max_file: much"), `13:65: sources.web.web.max_file: "much": it is not a size (64GiB, ` +
			"1.5TB, 1048576)"},
		{swap("10.0.0.0/8", "10.0.0"), `13:42: sources.web.web.allow_networks.0: "10.0.0" is no network such as ` +
			"10.20.0.0/16"},
		{swap("  near:", "  Near By:"), `15:3: locations.Near By: the name "Near By": use up to 63 characters of a-z, ` +
			"0-9, _ and -\n30:50: presets.default.settings.locations.0: there is no storage location \"near\""},
		{swap("[near, bucket]", "[near, buket]"), "30:56: presets.default.settings.locations.1: there is no storage " +
			"location \"buket\"; is it bucket?"},
		{swap("quorum: 2", "quorum: 4"), "30:35: presets.default.settings.quorum: it is 4, and there are 2 storage " +
			"locations"},
		{swap("attempts: 7", "package: bag+ocfl"), "30:74: presets.default.settings.package: it is bag+ocfl, and there " +
			"is no OCFL storage root: add one to objects"},
		{swap("keep: 10y", "keep: long"), `29:3: presets.default: keep is "long": want years such as 10y, a duration such as 90d, ` +
			"or unlimited"},
		{swap("${username}", "${user}"), "35:28: presets.quick.settings.content.file_name: "},
		{swap("locked: [keep", "locked: [kept"), `29:3: presets.default: it locks "kept", which is no setting`},
		{swap("attempts: 7", "attempts: many"), "30:75: presets.default.settings.attempts: it must be a whole number, " +
			"not a text"},
		{swap("30 2 * * 1-5", "30 2 * *"), `40:11: schedules.nightly.cron: "30 2 * *" is not a cron expression of five`},
		{swap("Europe/Vienna", "Vienna"), `41:16: schedules.nightly.time_zone: "Vienna" is not a time zone: use a name`},
		{swap("    time_zone: Europe/Vienna\n", ""), "37:3: schedules.nightly.time_zone: it is missing"},
		{swap("most_delay: 7d", "most_delay: long"), "47:17: receivers.exams.most_delay: "},
		{swap("https://moodle.example.org/events", "ftp://moodle.example.org"), "50:10: webhooks.lms.url: it is no address"},
		{swap("task_failed", "task_lost"), `52:37: webhooks.lms.events.1: there is no event "task_lost"`},
		{swap("    secret_file: sender\n", ""), "44:3: receivers.exams.secret_file: it is missing"},
		{swap("preset: quick", "preset: quik"), `42:13: schedules.nightly.preset: there is no preset "quik"; is it ` +
			"quick?"},
		{swap("source: campus", "source: exams"), "39:5: schedules.nightly.categories: the source exams has no " +
			"categories: only a Moodle has"},
		{swap("source: campus", "source: campu"), `38:13: schedules.nightly.source: there is no source "campu"; is it ` +
			"campus?"},
		{swap("preset: quick", "backoff: 0s"), "42:14: schedules.nightly.backoff: it must be between 1m and 30d"},
		{"sources: [a]\nlocations: {}\n", "1:1: sources: it must be keys with values, not a list"},
		{"sources: {a: {}}\nlocations: {}\n" + quiet, "1:11: sources.a: exactly one of moodle, directory and web must " +
			"be given\n2:1: locations: it must have at least one"},
		{"sources: 'a\n", "1:10: not YAML: the quote that begins here is not closed"},
	} {
		_, err := parse("/", []byte(c.text))
		var m yamlfile.Mistakes
		if !errors.As(err, &m) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got\n%v\nwant\n%s", err, c.want)
			continue
		}
		for _, one := range m {
			if strings.Contains(one.Error()+one.Excerpt(), "hush") {
				t.Errorf("a secret is shown: %v\n%s", one, one.Excerpt())
			}
		}
	}
}

// TestMissing: a missing file is distinguished from one that cannot be read, and the message names the setting.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(filepath.Join(dir, "archive.yaml"))
	if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "archive.config") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(dir); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("a directory: got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(small))
	f.Add([]byte("sources: &a {b: *a}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := parse("/", text); err == nil && (len(c.Sources) == 0 || len(c.Locations) == 0) {
			t.Errorf("%q was taken", text)
		}
	})
}

// TestExampleOfDocs reads the example of docs/archive.md.
func TestExampleOfDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/archive.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "\n## Configuration\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	if c, err := parse("/", []byte(text)); err != nil || !found || len(c.Locations) != 3 {
		t.Errorf("got %v", err)
	}
}
