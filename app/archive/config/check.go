package archiveconfig

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/internal/nearest"
)

// check notes what the schema does not find.
func (c *Config) check() {
	for name, s := range c.Sources {
		c.name("sources", name)
		c.one([]string{"sources", name}, "moodle, directory and web", s.Moodle != nil, s.Directory != nil, s.Web != nil)
		c.checkSource(name, s)
	}
	for name, l := range c.Locations {
		c.name("locations", name)
		c.one([]string{"locations", name}, "directory, s3 and sftp", l.Directory != nil, l.S3 != nil, l.SFTP != nil)
		if l.SFTP != nil {
			c.one([]string{"locations", name, "sftp"}, "key_file and password_file", l.SFTP.KeyFile != "",
				l.SFTP.PasswordFile != "")
		}
	}
	for group, n := range map[string]int{"sources": len(c.Sources), "locations": len(c.Locations)} {
		if n == 0 {
			c.wrong([]string{group}, "it must have at least one")
		}
	}
	for name := range c.Objects {
		c.name("objects", name)
	}
	seen := map[string]bool{}
	for i, a := range c.Authorities {
		key := []string{"authorities", strconv.Itoa(i), "name"}
		if !nameRule.MatchString(a.Name) {
			c.wrong(key, "%q: use up to 63 characters of a-z, 0-9, _ and -", a.Name)
		} else if seen[a.Name] {
			c.wrong(key, "another authority has the name %q", a.Name)
		}
		seen[a.Name] = true
	}
	for name, p := range c.Presets {
		c.name("presets", name)
		c.checkPreset(name, p)
	}
	for name, s := range c.Schedules {
		c.name("schedules", name)
		c.checkSchedule(name, &s)
	}
	for name, r := range c.Receivers {
		c.name("receivers", name)
		c.checkReceiver(name, r)
	}
	for name, w := range c.Webhooks {
		c.name("webhooks", name)
		c.checkWebhook(name, w)
	}
	c.checkQuizWorker()
	c.checkPrinters()
	if _, ok := c.Presets[defaultPreset]; !ok {
		c.checkPreset(defaultPreset, settings.Preset{})
	}
}

// name checks the name of a part of the file.
func (c *Config) name(group, name string) {
	if !nameRule.MatchString(name) {
		c.wrong([]string{group, name}, "the name %q: use up to 63 characters of a-z, 0-9, _ and -", name)
	}
}

// one requires that exactly one of several keys is given.
func (c *Config) one(key []string, words string, given ...bool) {
	n := 0
	for _, one := range given {
		if one {
			n++
		}
	}
	if n != 1 {
		c.wrong(key, "exactly one of %s must be given", words)
	}
}

func (c *Config) checkSource(name string, s Source) {
	if m := s.Moodle; m != nil && (m.Account == "") != (m.PasswordFile == "") {
		c.wrong([]string{"sources", name, "moodle"}, "account and password_file belong together")
	}
	if s.Web == nil {
		return
	}
	c.networks([]string{"sources", name, "web", "allow_networks"}, s.Web.AllowNetworks)
}

// checkPreset notes what would fail each job with a preset.
func (c *Config) checkPreset(name string, p settings.Preset) {
	key := func(field ...string) []string { return append([]string{"presets", name, "settings"}, field...) }
	s, err := p.Apply(archive.Settings{})
	if err != nil {
		c.wrong([]string{"presets", name}, "%v", err)
		return
	}
	c.known(key("locations"), "storage location", s.Locations, slices.Sorted(maps.Keys(c.Locations)))
	c.known(key("authorities"), "time-stamp authority", s.Authorities, c.authorityNames())
	if *s.Sign && len(c.Authorities) == 0 {
		c.wrong(key("sign"), "archives of the preset %s get a time stamp, and there is no authority: add one to "+
			"authorities, or set presets.%s.settings.sign to false", name, name)
	}
	if s.Package == settings.PackageOCFL && len(c.Objects) == 0 {
		c.wrong(key("package"), "it is %s, and there is no OCFL storage root: add one to objects", s.Package)
	}
	locations := len(s.Locations)
	if locations == 0 {
		locations = len(c.Locations)
	}
	if q, err := copies.ParseQuorum(s.Quorum); err != nil {
		c.wrong(key("quorum"), "%v", err)
	} else if int(q) > locations {
		c.wrong(key("quorum"), "it is %s, and there are %d storage locations", s.Quorum, locations)
	}
	for _, one := range []struct {
		key       []string
		kind      pattern.Kind
		text      string
		variables []string
	}{
		{key("file_name"), pattern.File, s.FileName, pattern.JobVariables()},
		{key("content", "folder_name"), pattern.Folder, s.Content.FolderName, pattern.AttemptVariables()},
		{key("content", "file_name"), pattern.File, s.Content.FileName, pattern.AttemptVariables()},
	} {
		if one.text == "" {
			continue
		}
		if _, err := pattern.Parse(one.kind, one.text, one.variables); err != nil {
			c.wrong(one.key, "%v", err)
		}
	}
}

// known notes names that do not exist.
func (c *Config) known(key []string, what string, names, all []string) {
	for i, name := range names {
		if !slices.Contains(all, name) {
			c.unknown(append(key, strconv.Itoa(i)), what, name, all)
		}
	}
}

// unknown notes a name that does not exist.
func (c *Config) unknown(key []string, what, name string, all []string) {
	hint := fmt.Sprintf(" (known: %s)", strings.Join(all, ", "))
	if best := nearest.Word(name, all); best != "" {
		hint = "; is it " + best + "?"
	}
	c.wrong(key, "there is no %s %q%s", what, name, hint)
}

func (c *Config) authorityNames() (names []string) {
	for _, a := range c.Authorities {
		names = append(names, a.Name)
	}
	return names
}

// resolve makes the names of files and directories absolute.
func (c *Config) resolve() {
	for name, d := range c.Objects {
		if d.Path != "" && !filepath.IsAbs(d.Path) {
			c.Objects[name] = Directory{filepath.Join(c.dir, d.Path)}
		}
	}
	for _, name := range c.files() {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(c.dir, *name)
		}
	}
}

// files gives the names of all files and directories of this machine.
func (c *Config) files() []*string {
	all := c.secrets()
	for _, s := range c.Sources {
		if s.Directory != nil {
			all = append(all, &s.Directory.Path)
		}
		if s.Web != nil {
			all = append(all, &s.Web.Lists)
		}
	}
	for _, l := range c.Locations {
		if l.Directory != nil {
			all = append(all, &l.Directory.Path)
		}
		if l.SFTP != nil {
			all = append(all, &l.SFTP.KnownHosts)
		}
	}
	for i := range c.Authorities {
		for k := range c.Authorities[i].Roots {
			all = append(all, &c.Authorities[i].Roots[k])
		}
	}
	for i := range c.RetiredRoots {
		all = append(all, &c.RetiredRoots[i])
	}
	return all
}

// secrets gives the names of the files with secrets. Some may be empty.
func (c *Config) secrets() (all []*string) {
	for _, s := range c.Sources {
		if s.Moodle != nil {
			all = append(all, &s.Moodle.TokenFile, &s.Moodle.PasswordFile)
		}
	}
	for _, l := range c.Locations {
		if l.S3 != nil {
			all = append(all, &l.S3.AccessKeyFile, &l.S3.SecretKeyFile)
		}
		if l.SFTP != nil {
			all = append(all, &l.SFTP.KeyFile, &l.SFTP.PasswordFile)
		}
	}
	for i := range c.Authorities {
		all = append(all, &c.Authorities[i].PasswordFile, &c.Authorities[i].TokenFile)
	}
	for _, r := range c.Receivers {
		all = append(all, &r.SecretFile)
	}
	for _, w := range c.Webhooks {
		all = append(all, &w.SecretFile)
	}
	if q := c.QuizWorker; q != nil {
		for i := range q.TokenFiles {
			all = append(all, &q.TokenFiles[i])
		}
	}
	for i := range c.Printers {
		all = append(all, &c.Printers[i].TokenFile)
	}
	return all
}

// SecretFiles lists the files with secrets, absolute.
func (c *Config) SecretFiles() (names []string) {
	for _, name := range c.secrets() {
		if *name != "" {
			names = append(names, *name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Roots lists the directories of OCFL storage roots, absolute.
func (c *Config) Roots() (names []string) {
	for _, d := range c.Objects {
		names = append(names, d.Path)
	}
	slices.Sort(names)
	return names
}

// Directories lists the directories of storage locations on this machine, absolute.
func (c *Config) Directories() (names []string) {
	for _, l := range c.Locations {
		if l.Directory != nil {
			names = append(names, l.Directory.Path)
		}
	}
	slices.Sort(names)
	return names
}
