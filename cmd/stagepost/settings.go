package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// settings are all that can be configured. A value comes from the flag, else the environment, else the file, else the default, which
// stands in the tag. docs/config.md is made of the tags.
type settings struct {
	Data   string `name:"data" doc:"the data directory: store, logs, payloads, address of the server"`
	Server string `name:"server" doc:"the server to talk to, as a URL; defaults to the one that the data directory knows"`
	Token  string `name:"token.file" doc:"file with the token to send to the server, which must be readable by its owner alone; STAGEPOST_TOKEN, the token itself, goes before it; defaults to none"`
	Output string `name:"output" short:"o" doc:"how to print: table, plain (lines with tabs) or json; defaults to table on a terminal and plain in a pipe"`

	Listen        string        `name:"listen" for:"serve" default:"127.0.0.1:7433" doc:"the address to listen on; port 0 takes a free one; beyond loopback it wants tokens"`
	Store         string        `name:"store" for:"serve" choices:"sqlite mem" default:"sqlite" doc:"where jobs are kept: sqlite, or mem, which forgets all when the server ends"`
	Name          string        `name:"name" for:"serve" default:"engine" doc:"the name of this engine among those on the store"`
	Slots         int           `name:"slots" for:"serve" default:"16" doc:"steps that run at once"`
	Lease         time.Duration `name:"lease" for:"serve" default:"15s" doc:"how long a claim lasts without a sign of life"`
	Sweep         time.Duration `name:"sweep" for:"serve" default:"1s" doc:"between looks for what no event told"`
	Grace         time.Duration `name:"grace" for:"serve" default:"10s" doc:"that running steps get when the server stops"`
	Attempts      int           `name:"attempts" for:"serve" default:"8" doc:"deliveries of a mail or callback before it is given up"`
	RetainEvery   time.Duration `name:"retain.every" for:"serve" default:"1h" doc:"between looks for ended jobs that were kept long enough"`
	RetainShare   int           `name:"retain.share" for:"serve" default:"20" doc:"percent of a kind's ended jobs that one look may clear away"`
	ClockAway     time.Duration `name:"clock.away" for:"serve" default:"24h" doc:"how long the server may have been off until nothing is removed by its age before a person confirms the clock (stagepost admin clock)"`
	RecordsKeep   time.Duration `name:"records.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long the records of deleted jobs are kept before they are purged from the store; unlimited: they never are"`
	LogsKeep      time.Duration `name:"logs.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long the logs of ended jobs are kept; unlimited: as long as the records"`
	LogLevel      string        `name:"log.level" for:"serve" choices:"debug info warn error" default:"info" doc:"what the server logs to standard error: debug, info, warn or error"`
	LogFormat     string        `name:"log.format" for:"serve" choices:"text json" default:"text" doc:"text or json"`
	JobLogBytes   int64         `name:"joblog.bytes" for:"serve" unit:"bytes" default:"1MiB" doc:"size of one job's log; what comes later is left out"`
	JobLogFiles   int           `name:"joblog.files" for:"serve" default:"64" doc:"job logs kept open at once"`
	Hosts         string        `name:"hosts" for:"serve" doc:"names, with commas between them, by which requests may come, such as those that a proxy in front of the server passes on; defaults to none: addresses of the loopback and localhost only"`
	BackupDir     string        `name:"backup.dir" for:"serve" doc:"directory of backups, which must exist; defaults to backups in the data directory"`
	BackupEvery   time.Duration `name:"backup.every" for:"serve" zero:"off" default:"off" doc:"between scheduled backups; off: none are made"`
	BackupKeep    int           `name:"backup.keep" for:"serve" default:"7" doc:"scheduled backups that are kept, at least 1; older ones are removed after a new one was made"`
	BackupWithout string        `name:"backup.without" for:"serve" doc:"parts that scheduled backups leave out, with commas between them: compute, storage; defaults to none"`
	Connections   int           `name:"connections" for:"serve" default:"4096" doc:"connections at once; one address has a quarter of them"`
	Watchers      int           `name:"watchers" for:"serve" default:"1000" doc:"event streams at once"`
	Tokens        string        `name:"tokens" for:"serve" doc:"file of the tokens that may use the API (stagepost token new); defaults to none: whoever reaches the server may do everything"`
	Reasons       string        `name:"reasons" for:"serve" choices:"optional required" default:"optional" doc:"whether staff (operators and admins, without tokens everybody) must give a reason for each change: required refuses those without --note"`
	MetricsListen string        `name:"metrics.listen" for:"serve" doc:"an address of its own for /metrics; defaults to the main one"`
	MetricsGroups int           `name:"metrics.groups" for:"serve" default:"50" doc:"groups (collections) that metrics tell apart; the rest are \"other\""`
	UploadBytes   int64         `name:"upload.bytes" for:"serve" unit:"bytes" default:"64GiB" doc:"size of one payload"`

	Profiles         string        `name:"ingest.profiles" for:"serve" doc:"directory of ingest profiles (YAML); defaults to profiles in the data directory"`
	IngestKeep       time.Duration `name:"ingest.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long ended batches and jobs are kept; unlimited: they are never deleted"`
	IngestTrash      time.Duration `name:"ingest.trash.keep" for:"serve" zero:"off" default:"7d" doc:"how long working files that nobody needs stay in the trash; off: they are removed at once"`
	IngestWork       time.Duration `name:"ingest.work.keep" for:"serve" zero:"unlimited" default:"30d" doc:"how long the working files of failed jobs stay before they go to the trash; unlimited: they stay"`
	IngestReserve    int64         `name:"ingest.reserve" for:"serve" zero:"off" unit:"bytes" default:"512MiB" doc:"bytes of the disk that uploads and jobs of ingest leave free; off: none"`
	FixityEvery      time.Duration `name:"fixity.every" for:"serve" zero:"off" default:"90d" doc:"after which a stored file is read again and compared with its digest; off: only by stagepost fixity run"`
	FixityRate       int64         `name:"fixity.rate" for:"serve" unit:"bytes" zero:"unlimited" default:"20MiB" doc:"bytes of stored files that these checks read in a second; unlimited: as fast as the disk"`
	AccessSmall      int64         `name:"access.small.bytes" for:"serve" unit:"bytes" default:"500MB" doc:"content of a package above which it goes to the queue of large ones"`
	AccessWorkers    int           `name:"access.small.workers" for:"serve" default:"4" doc:"small packages that are made at once"`
	AccessLarge      int           `name:"access.large.workers" for:"serve" default:"1" doc:"large packages that are made at once"`
	AccessFiles      int           `name:"access.max.files" for:"serve" default:"1000000" doc:"files of one package"`
	AccessBytes      int64         `name:"access.max.bytes" for:"serve" zero:"unlimited" unit:"bytes" default:"unlimited" doc:"content of one package; unlimited: any"`
	AccessKeep       time.Duration `name:"access.keep" for:"serve" zero:"unlimited" default:"7d" doc:"how long packages can be fetched, and failures are kept; unlimited: they are never deleted"`
	FlowWorkers      int           `name:"flow.workers" for:"serve" default:"8" doc:"tasks of flows that run at once"`
	FlowSlots        int           `name:"flow.slots" for:"serve" default:"64" doc:"flows that are at work at once; those that only wait do not count"`
	FlowKeep         time.Duration `name:"flow.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long ended flows are kept before they are deleted with their values, such as 30d; unlimited: they are never deleted"`
	FlowCommands     bool          `name:"flow.commands" for:"serve" default:"false" doc:"flow files may run commands, confined as flow.sandbox says. Without tokens there is no login: whoever reaches the server, which is every user of this machine, may then run them"`
	FlowSandbox      string        `name:"flow.sandbox" for:"serve" choices:"auto native bwrap none require off" default:"auto" doc:"what confines the commands of flows: auto takes the best that works, require the same but never none; off: they run as the user of the server and see what it sees"`
	FlowDirs         string        `name:"flow.dirs" for:"serve" doc:"directories, with colons between them, in or below which a flow file may have a confined command run (dir) and write; defaults to none: each has an empty one of its own"`
	FlowHTTP         bool          `name:"flow.http" for:"serve" default:"false" doc:"flow files may send HTTP requests to public addresses, from this machine"`
	ComputeLocal     int           `name:"compute.local" for:"serve" zero:"0" default:"0" doc:"jobs (users' scripts) that this server runs itself at once, in its sandbox; 0: it runs none, and has agents for them or does not compute"`
	ComputeSandbox   string        `name:"compute.sandbox" for:"serve" choices:"auto native bwrap none require" default:"require" doc:"what confines the jobs that this server runs itself: auto takes the best that works, require the same but never none"`
	ComputeServices  string        `name:"compute.services" for:"serve" doc:"file of the services and the agents that serve them (YAML); defaults to one service, default, with compute.local"`
	ComputeListen    string        `name:"compute.listen" for:"serve" doc:"an address for users of job-orchestrator, such as 127.0.0.1:5000; defaults to none, or to PORT if its variables SERVICE_... are set"`
	ComputeUpload    int64         `name:"compute.upload.bytes" for:"serve" unit:"bytes" default:"400MiB" doc:"size of one upload by users of job-orchestrator; uploads of the own API are bounded by upload.bytes"`
	ComputeStrict    bool          `name:"compute.strict" for:"serve" default:"false" doc:"answers to users of job-orchestrator have exactly the fields and statuses of the original"`
	ComputeKeep      time.Duration `name:"compute.keep" for:"serve" zero:"unlimited" default:"48h" doc:"how long the files of a job are kept after its end (MAX_AGE); unlimited: until somebody cleans the job"`
	ComputeUserBytes int64         `name:"compute.user.bytes" for:"serve" zero:"unlimited" unit:"bytes" default:"unlimited" doc:"files that one user may have here; unlimited: any number of bytes"`
	ComputeRetries   int           `name:"compute.retries" for:"serve" default:"5" doc:"attempts to hand a job over to an agent; 1: the job fails after the first, as with job-orchestrator"`
	ComputeRetryFor  time.Duration `name:"compute.retry.for" for:"serve" default:"2m" doc:"time over which these attempts are spread"`
	ComputeLost      time.Duration `name:"compute.lost" for:"serve" default:"1h" doc:"how long an agent may be silent before a job that it has counts as lost"`
	ComputeTESImages string        `name:"compute.tes.images" for:"serve" doc:"images of GA4GH TES tasks and the services that run them, such as ubuntu:24.04=small,*=default; defaults to none: no such tasks are taken"`
	ComputeTESOutput string        `name:"compute.tes.outputs" for:"serve" doc:"directories, with commas between them, to which any TES task may have outputs copied by file://, over what is there; defaults to none"`
	ComputeTESRoots  string        `name:"compute.tes.roots" for:"serve" doc:"directories, with commas between them, from which any TES task may take inputs by file://; defaults to none"`
	MailFrom         string        `name:"mail.from" for:"serve" doc:"sender of reports; defaults to stagepost@ and mail.host"`
	MailSMTP         string        `name:"mail.smtp" for:"serve" doc:"mail server, host:port; defaults to none: mails are .eml files in the data directory"`
	MailTLS          string        `name:"mail.tls" for:"serve" choices:"starttls tls none" default:"starttls" doc:"how mail.smtp is spoken to: starttls, tls or none"`
	MailUser         string        `name:"mail.user" for:"serve" doc:"login at mail.smtp; defaults to none"`
	MailPassword     string        `name:"mail.passwordfile" for:"serve" doc:"file with the password of mail.user"`
	MailHost         string        `name:"mail.host" for:"serve" default:"localhost" doc:"name of this machine in the ids of mails"`
	MailLink         string        `name:"mail.link" for:"serve" doc:"where depositors find this server, as a URL, for the links in mails; defaults to none: mails have no links"`

	file    string            // --config
	read    string            // the file that was read, if any
	origins map[string]string // by name: "flag --x", "env X", "file F:LINE", "default"
}

// isDefault tells whether nobody set a setting.
func (s *settings) isDefault(name string) bool { return s.origins[name] == "default" }

// shared marks the settings that every command takes as flags.
const shared = ""

// setting is one field with what its tags say.
type setting struct {
	Name, Short, For, Default, Doc string
	unit                           string   // "bytes" for a size
	zero                           string   // of a number: the word for 0, or "0" if that means the number; empty: it must be more
	choices                        []string // the only values there are; empty: any
	secret                         bool     // the value is shown to nobody
	value                          reflect.Value
}

func (s setting) flag() string { return strings.ReplaceAll(s.Name, ".", "-") }

func (s setting) env() string {
	return "STAGEPOST_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// String gives the value as it would stand in the environment.
func (s setting) String() string {
	if s.zero != "" && s.value.IsZero() {
		return s.zero
	}
	switch v := s.value.Interface().(type) {
	case time.Duration:
		return quantity.FormatDuration(v)
	case int64:
		if s.unit == "bytes" {
			return quantity.FormatBytes(v)
		}
	}
	return fmt.Sprint(s.value.Interface())
}

// shown gives the value for people: a secret is only said to be there.
func (s setting) shown() string {
	text := s.String()
	if s.secret && text != "" {
		return "***"
	}
	if u, err := url.Parse(text); err == nil && u.User != nil && u.Host != "" {
		return u.Redacted()
	}
	return text
}

// set reads a value from text.
func (s setting) set(text string) error {
	if s.zero != "" && text == s.zero {
		s.value.SetZero()
		return nil
	}
	var err error
	switch s.value.Interface().(type) {
	case string:
		if len(s.choices) > 0 && !slices.Contains(s.choices, text) {
			last := len(s.choices) - 1
			return fmt.Errorf("%s must be %s or %s, not %q", s.Name, strings.Join(s.choices[:last], ", "), s.choices[last], text)
		}
		s.value.SetString(text)
	case bool:
		var yes bool
		if yes, err = strconv.ParseBool(text); err != nil {
			err = errors.New("it must be true or false")
		}
		s.value.SetBool(yes)
	case time.Duration:
		var d time.Duration
		d, err = quantity.ParseDuration(text)
		s.value.SetInt(int64(d))
	default:
		var n int64
		if n, err = strconv.ParseInt(text, 10, s.value.Type().Bits()); err != nil {
			err = errors.New("it is not a whole number, or too large")
		}
		if s.unit == "bytes" {
			n, err = quantity.ParseBytes(text)
		}
		s.value.SetInt(n)
		if err == nil && n < 0 {
			err = errors.New("it must not be negative")
		}
	}
	if err == nil {
		err = s.checkZero()
	}
	if err != nil {
		return fmt.Errorf("%s: %q: %w", s.Name, text, err)
	}
	return nil
}

// checkZero refuses a number of 0, which would mean the default of one setting, no limit of the next and nothing of a third.
func (s setting) checkZero() error {
	switch kind := s.value.Kind(); {
	case kind == reflect.String || kind == reflect.Bool || s.value.Int() > 0 || s.zero == "0" && s.value.Int() == 0:
		return nil
	case s.zero == "" || s.zero == "0":
		return errors.New("it must be more than 0")
	}
	return fmt.Errorf("it must be more than 0, or %s", s.zero)
}

// hosts lists the names by which requests may come, as they are compared: in lower case, without a port.
func (s *settings) hosts() []string {
	var names []string
	for name := range strings.SplitSeq(s.Hosts, ",") {
		if name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), ".")); name != "" {
			names = append(names, name)
		}
	}
	return names
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
			one := setting{Name: name, Short: tag.Get("short"), For: tag.Get("for"), Default: tag.Get("default"), Doc: tag.Get("doc"), value: v.Field(i)}
			one.unit, one.zero, one.secret = tag.Get("unit"), tag.Get("zero"), hides(name)
			if c := tag.Get("choices"); c != "" {
				one.choices = strings.Split(c, " ")
			}
			all = append(all, one)
		}
	}
	return all
}

// hides tells whether a setting is a secret by its name. One that names a file with the secret is none.
func hides(name string) bool {
	return slices.ContainsFunc([]string{"password", "secret", "token", "key"}, func(word string) bool { return strings.HasSuffix(name, word) })
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
		if one.unit == "bytes" {
			kind = "size"
		}
		f := flags.VarPF(&textFlag{text: one.Default, kind: kind}, one.flag(), one.Short, one.Doc)
		if kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
}

// load takes the values from flags, environment and file, and remembers where each came from. The error names every mistake.
func (s *settings) load(flags *pflag.FlagSet, env func(string) (string, bool)) error {
	var mistakes []error
	taken := map[string]bool{}
	take := func(one setting, text, origin string) {
		if err := one.set(text); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", strings.TrimPrefix(origin, "file "), err))
		}
		s.origins[one.Name], taken[one.Name] = origin, true
	}
	for _, one := range s.all() {
		if f := flags.Lookup(one.flag()); f != nil && f.Changed {
			take(one, f.Value.String(), "flag --"+one.flag())
		} else if text, ok := env(one.env()); ok && text != "" {
			take(one, text, "env "+one.env())
		}
	}
	if s.read = s.findFile(env); s.read == "" {
		return errors.Join(mistakes...)
	}
	entries, err := readEntries(s.read)
	mistakes = append(mistakes, err)
	all := s.all()
	for _, e := range entries {
		i := slices.IndexFunc(all, func(one setting) bool { return one.Name == e.Name })
		switch {
		case i < 0:
			mistakes = append(mistakes, s.unknown(s.read, e))
		case !taken[e.Name]:
			take(all[i], e.Text, fmt.Sprintf("file %s:%d", s.read, e.Line))
		default: // it does not count, but a mistake in it is one
			if err := newSettings().all()[i].set(e.Text); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", s.read, e.Line, err))
			}
		}
	}
	return errors.Join(mistakes...)
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
