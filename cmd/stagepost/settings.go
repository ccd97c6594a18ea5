package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/job"
)

// settings are all that can be configured. A value comes from the flag, else the environment, else the file, else the default, which
// stands in the tag. docs/config.md is made of the tags.
type settings struct {
	Data   string `name:"data" doc:"the data directory: store, logs, payloads, address of the server"`
	Server string `name:"server" doc:"the server to talk to, as a URL; defaults to the one that the data directory knows"`
	Output string `name:"output" short:"o" doc:"how to print: table, plain (lines with tabs) or json; defaults to table on a terminal and plain in a pipe"`

	Listen      string        `name:"listen" for:"serve" default:"127.0.0.1:7433" doc:"the address to listen on; port 0 takes a free one; loopback only until there is authentication"`
	Store       string        `name:"store" for:"serve" default:"sqlite" doc:"where jobs are kept: sqlite, or mem, which forgets all when the server ends"`
	Name        string        `name:"name" for:"serve" default:"engine" doc:"the name of this engine among those on the store"`
	Slots       int           `name:"slots" for:"serve" default:"16" doc:"steps that run at once"`
	Lease       time.Duration `name:"lease" for:"serve" default:"15s" doc:"how long a claim lasts without a sign of life"`
	Sweep       time.Duration `name:"sweep" for:"serve" default:"1s" doc:"between looks for what no event told"`
	Grace       time.Duration `name:"grace" for:"serve" default:"10s" doc:"that running steps get when the server stops"`
	Attempts    int           `name:"attempts" for:"serve" default:"8" doc:"deliveries of a mail or callback before it is given up"`
	RetainEvery time.Duration `name:"retain.every" for:"serve" default:"1h" doc:"between looks for ended jobs that were kept long enough"`
	RetainShare int           `name:"retain.share" for:"serve" default:"20" doc:"percent of a kind's ended jobs that one look may clear away"`
	LogLevel    string        `name:"log.level" for:"serve" default:"info" doc:"what the server logs to standard error: debug, info, warn or error"`
	LogFormat   string        `name:"log.format" for:"serve" default:"text" doc:"text or json"`
	JobLogBytes int64         `name:"joblog.bytes" for:"serve" default:"1048576" doc:"size of one job's log; what comes later is left out"`
	JobLogFiles int           `name:"joblog.files" for:"serve" default:"64" doc:"job logs kept open at once"`
	Connections int           `name:"connections" for:"serve" default:"4096" doc:"connections at once"`
	Watchers    int           `name:"watchers" for:"serve" default:"1000" doc:"event streams at once"`
	UploadBytes int64         `name:"upload.bytes" for:"serve" default:"68719476736" doc:"size of one payload"`

	Profiles      string        `name:"ingest.profiles" for:"serve" doc:"directory of ingest profiles (YAML); defaults to profiles in the data directory"`
	IngestKeep    time.Duration `name:"ingest.keep" for:"serve" default:"0s" doc:"how long ended batches and jobs are kept; 0s means for ever"`
	IngestReserve int64         `name:"ingest.reserve" for:"serve" default:"536870912" doc:"bytes of the disk that ingest promises to nobody"`
	MailFrom      string        `name:"mail.from" for:"serve" doc:"sender of reports; defaults to stagepost@ and mail.host"`
	MailSMTP      string        `name:"mail.smtp" for:"serve" doc:"mail server, host:port; defaults to none: mails are .eml files in the data directory"`
	MailTLS       string        `name:"mail.tls" for:"serve" default:"starttls" doc:"how mail.smtp is spoken to: starttls, tls or none"`
	MailUser      string        `name:"mail.user" for:"serve" doc:"login at mail.smtp; defaults to none"`
	MailPassword  string        `name:"mail.passwordfile" for:"serve" doc:"file with the password of mail.user"`
	MailHost      string        `name:"mail.host" for:"serve" default:"localhost" doc:"name of this machine in the ids of mails"`

	file    string            // --config
	read    string            // the file that was read, if any
	origins map[string]string // by name: "flag --x", "env X", "file F", "default"
}

// shared marks the settings that every command takes as flags.
const shared = ""

// setting is one field with what its tags say.
type setting struct {
	Name, Short, For, Default, Doc string
	value                          reflect.Value
}

func (s setting) flag() string { return strings.ReplaceAll(s.Name, ".", "-") }

func (s setting) env() string {
	return "STAGEPOST_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// String gives the value as it would stand in the environment.
func (s setting) String() string {
	if d, ok := s.value.Interface().(time.Duration); ok {
		return d.String()
	}
	return fmt.Sprint(s.value.Interface())
}

// set reads a value from text.
func (s setting) set(text string) error {
	var err error
	switch s.value.Interface().(type) {
	case string:
		s.value.SetString(text)
	case time.Duration:
		var d time.Duration
		d, err = time.ParseDuration(text)
		s.value.SetInt(int64(d))
		if err == nil && d < 0 {
			err = errors.New("it must not be negative")
		}
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		s.value.SetInt(n)
		if err == nil && n < 0 {
			err = errors.New("it must not be negative")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %q: %w", s.Name, text, err)
	}
	return nil
}

func newSettings() *settings {
	s := &settings{origins: map[string]string{}}
	for _, one := range s.all() {
		if one.Default != "" {
			if err := one.set(one.Default); err != nil {
				panic(err) // a wrong tag: a program that could never work
			}
		}
		s.origins[one.Name] = "default"
	}
	s.Data = defaultData()
	return s
}

// all lists the settings in the order of the struct.
func (s *settings) all() []setting {
	var all []setting
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if name := tag.Get("name"); name != "" {
			all = append(all, setting{name, tag.Get("short"), tag.Get("for"), tag.Get("default"), tag.Get("doc"), v.Field(i)})
		}
	}
	return all
}

// textFlag is a flag whose text is read with the other sources, in load.
type textFlag struct {
	text string
	kind string
}

func (f *textFlag) String() string     { return f.text }
func (f *textFlag) Set(t string) error { f.text = t; return nil }
func (f *textFlag) Type() string       { return f.kind }

// bind adds the flags of the settings for a command.
func (s *settings) bind(flags *pflag.FlagSet, command string) {
	for _, one := range s.all() {
		if one.For != command {
			continue
		}
		kind := one.value.Type().Name()
		switch kind {
		case "Duration":
			kind = "duration"
		case "int64":
			kind = "int"
		}
		flags.VarP(&textFlag{text: one.Default, kind: kind}, one.flag(), one.Short, one.Doc)
	}
}

// load takes the values from flags, environment and file, and remembers where each came from.
func (s *settings) load(flags *pflag.FlagSet, env func(string) (string, bool)) error {
	var mistakes []error
	take := func(one setting) (origin string, ok bool) {
		if f := flags.Lookup(one.flag()); f != nil && f.Changed {
			mistakes = append(mistakes, one.set(f.Value.String()))
			return "flag --" + one.flag(), true
		}
		if text, ok := env(one.env()); ok && text != "" {
			mistakes = append(mistakes, one.set(text))
			return "env " + one.env(), true
		}
		return "", false
	}
	taken := map[string]bool{}
	for _, one := range s.all() {
		if origin, ok := take(one); ok {
			s.origins[one.Name], taken[one.Name] = origin, true
		}
	}
	values, err := s.readFile(env)
	mistakes = append(mistakes, err)
	for _, one := range s.all() {
		if text, ok := values[one.Name]; ok && !taken[one.Name] {
			mistakes = append(mistakes, one.set(text))
			s.origins[one.Name] = "file " + s.read
		}
		delete(values, one.Name)
	}
	unknown := []string{}
	for name := range values {
		unknown = append(unknown, name)
	}
	if slices.Sort(unknown); len(unknown) > 0 {
		mistakes = append(mistakes, fmt.Errorf("%s: there is no setting %s (stagepost config lists all)", s.read, strings.Join(unknown, ", ")))
	}
	return errors.Join(mistakes...)
}

// readFile finds the configuration file and flattens it: {retain: {every: 1h}} is retain.every.
func (s *settings) readFile(env func(string) (string, bool)) (map[string]string, error) {
	candidates := []string{"stagepost.yaml", filepath.Join(s.Data, "stagepost.yaml")}
	named := s.file
	if named == "" {
		named, _ = env("STAGEPOST_CONFIG")
	}
	if named != "" {
		candidates = []string{named}
	}
	for _, name := range candidates {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) && named == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.read = name
		var tree map[string]any
		if err := yaml.Unmarshal(text, &tree); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		flat := map[string]string{}
		flatten(flat, "", tree)
		return flat, nil
	}
	return nil, nil
}

func flatten(into map[string]string, prefix string, tree map[string]any) {
	for name, value := range tree {
		if branch, ok := value.(map[string]any); ok {
			flatten(into, prefix+name+".", branch)
			continue
		}
		into[prefix+name] = fmt.Sprint(value)
	}
}

func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stagepost")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "stagepost")
	}
	return "stagepost-data"
}

// addressFile is where a server leaves its address for those who know its data directory.
func (s *settings) addressFile() string { return filepath.Join(s.Data, "address") }

// findServer gives the address of the server to talk to.
func (s *settings) findServer() (string, error) {
	if s.Server != "" {
		return s.Server, nil
	}
	text, err := os.ReadFile(s.addressFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", job.Errorf(job.Unavailable, "request", "", "no server works on %s (name one with --server URL or --data DIR)", s.Data)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
