// Package archiveconfig reads archive.yaml: the sources, storage locations, time-stamp authorities and presets of the
// archive application.
//
// Secrets are in files of their own, which only their owner may read. Names of files and directories are relative to
// the directory of archive.yaml. [Config.Open] opens what the file names.
package archiveconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/format/yamlfile"
	"github.com/stagepost/stagepost/quantity"
)

// Config is the content of a file.
type Config struct {
	Organization string                       `json:"organization" doc:"Organization whose archives these are, for their metadata."`
	Sources      map[string]Source            `json:"sources" need:"true" doc:"Sources by name. Exactly one of moodle, directory and web is given."`
	Locations    map[string]Location          `json:"locations" need:"true" doc:"Storage locations by name. Exactly one of directory, s3 and sftp is given."`
	Objects      map[string]Directory         `json:"objects" doc:"OCFL storage roots by name, for packages of the form bag+ocfl: each activity is an object, and each archive a version of it."`
	Authorities  []Authority                  `json:"authorities" doc:"Time-stamp authorities (RFC 3161), in the order in which they are asked."`
	RetiredRoots []string                     `json:"retired_roots" doc:"Files with the root certificates (PEM) of authorities that are not asked any more. Earlier time stamps are verified with them."`
	RenewBefore  Duration                     `json:"renew_before" doc:"Time before a certificate expires at which its time stamps are renewed. Defaults to 90d."`
	Presets      map[string]settings.Preset   `json:"presets" doc:"Presets of settings by name. A request that names none has the preset default."`
	Schedules    map[string]trigger.Schedule  `json:"schedules" doc:"Schedules by name, which start archive jobs without a person."`
	Receivers    map[string]*trigger.Receiver `json:"receivers" doc:"Receivers by name, which start an archive job for each event of another system."`
	Webhooks     map[string]*notify.Webhook   `json:"webhooks" doc:"Webhooks by name, to which changes of archive jobs and their tasks are posted."`
	QuizWorker   *QuizWorker                  `json:"quiz_worker" doc:"This server as the quiz archive worker of Moodles with a quiz archiver plugin. The setting archive.quizworker.listen opens its address."`
	Printers     []Printer                    `json:"printers" doc:"Existing quiz archive workers, such as that of the plugin archivingmod_quiz, that print PDF files for this server. They change with the next start."`

	file *yamlfile.Source
	dir  string // of the file
}

// Source is a system that is archived.
type Source struct {
	Moodle    *Moodle    `json:"moodle" doc:"A Moodle, which is read by its web services."`
	Directory *Directory `json:"directory" doc:"A directory. Each directory in it is archived as a course."`
	Web       *Web       `json:"web" doc:"Lists of files on web servers. Each list is archived as a course."`
}

// Moodle is a Moodle with the account that reads it.
type Moodle struct {
	URL          string   `json:"url" need:"true" doc:"Address: https://moodle.example.org."`
	TokenFile    string   `json:"token_file" need:"true" doc:"File with the token of the web service."`
	Account      string   `json:"account" doc:"Login that starts backups. Defaults to none: no backups are made."`
	PasswordFile string   `json:"password_file" doc:"File with the password of the account."`
	Categories   []int    `json:"categories" doc:"Categories whose courses may be archived, with those below. Defaults to all."`
	Timeout      Duration `json:"timeout" doc:"Time for one request, a download included. Defaults to 1h."`
}

// Directory is a directory on this machine.
type Directory struct {
	Path string `json:"path" need:"true" doc:"An existing directory."`
}

// Web is a directory with lists of files.
type Web struct {
	Lists         string   `json:"lists" need:"true" doc:"Directory with the lists: NAME.checkm."`
	NeedDigests   bool     `json:"need_digests" doc:"Lists with a file without a digest are refused."`
	AllowNetworks []string `json:"allow_networks" doc:"Special networks that may be fetched from: 10.20.0.0/16. Defaults to none."`
	MaxFile       Size     `json:"max_file" doc:"The largest file. Defaults to 1TiB."`
}

// Location is where archives are stored.
type Location struct {
	Directory *Directory `json:"directory" doc:"A directory on this machine, such as the mount of a file server."`
	S3        *S3        `json:"s3" doc:"A bucket of an S3 service."`
	SFTP      *SFTP      `json:"sftp" doc:"A directory of an SFTP server."`

	Tier     string `json:"tier" enum:"local,fast,slow" doc:"How quickly it gives files: local, fast, or slow (it recalls them first). Defaults to local for a directory, else to fast."`
	Parallel int    `json:"parallel" min:"1" doc:"Files that are stored at once. Defaults to 2."`
}

// S3 is a bucket.
type S3 struct {
	Endpoint      string `json:"endpoint" need:"true" doc:"Host of the service, or HOST:PORT."`
	Insecure      bool   `json:"insecure" doc:"The service is reached by http."`
	Region        string `json:"region" doc:"Region of the bucket."`
	Bucket        string `json:"bucket" need:"true" doc:"Name of the bucket."`
	Prefix        string `json:"prefix" doc:"Folder in the bucket. Defaults to none."`
	AccessKeyFile string `json:"access_key_file" need:"true" doc:"File with the access key."`
	SecretKeyFile string `json:"secret_key_file" need:"true" doc:"File with the secret key."`
	PathStyle     bool   `json:"path_style" doc:"The bucket is in the path of URLs, not in the name of the host."`
	StorageClass  string `json:"storage_class" doc:"Storage class of the files. Defaults to that of the bucket."`
	PartSize      Size   `json:"part_size" doc:"Size of the parts of an upload, at least 5MiB. Defaults to 64MiB."`
	ObjectLock    string `json:"object_lock" enum:"governance,compliance" doc:"The service refuses to delete a copy before the retention time of its archive: governance or compliance. Defaults to no lock."`
	LegalHold     bool   `json:"legal_hold" doc:"Legal holds of archives are also set in the service, for each copy. The bucket needs object lock. Defaults to false: Stagepost alone enforces them."`
}

// SFTP is a directory of an SFTP server.
type SFTP struct {
	Address      string `json:"address" need:"true" doc:"HOST:PORT."`
	User         string `json:"user" need:"true" doc:"Login."`
	KeyFile      string `json:"key_file" doc:"File with the private key (OpenSSH), without a passphrase."`
	PasswordFile string `json:"password_file" doc:"File with the password. Exactly one of key_file and password_file is given."`
	KnownHosts   string `json:"known_hosts" need:"true" doc:"File with the key of the host, in the form of known_hosts of OpenSSH."`
	Dir          string `json:"dir" need:"true" doc:"An existing directory."`
}

// Authority is a time-stamp authority.
type Authority struct {
	Name         string   `json:"name" need:"true" doc:"Name in settings and records."`
	URL          string   `json:"url" need:"true" doc:"Address, http or https."`
	Roots        []string `json:"roots" need:"true" doc:"Files with the root certificates (PEM) that are trusted, and with intermediate ones."`
	Policy       string   `json:"policy" doc:"Object identifier that its time stamps must have. Defaults to any."`
	Hash         string   `json:"hash" enum:"sha256,sha384,sha512" doc:"Digest algorithm: sha256, sha384 or sha512 (the default)."`
	User         string   `json:"user" doc:"User for basic authentication."`
	PasswordFile string   `json:"password_file" doc:"File with the password of the user."`
	TokenFile    string   `json:"token_file" doc:"File with a bearer token."`
	Timeout      Duration `json:"timeout" doc:"Time for one request. Defaults to 30s."`
}

// Size is a number of bytes: 512MiB, 2GB, 1024.
type Size int64

// UnmarshalText is part of [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	n, err := quantity.ParseBytes(string(text))
	*s = Size(n)
	return err
}

// MarshalText gives the number of bytes.
func (s Size) MarshalText() ([]byte, error) { return fmt.Append(nil, int64(s)), nil }

// Duration is a time: 90s, 2h, 7d.
type Duration struct{ time.Duration }

// UnmarshalText is part of [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = quantity.ParseDuration(string(text))
	return err
}

// MarshalText gives the time in nanoseconds.
func (d Duration) MarshalText() ([]byte, error) { return fmt.Append(nil, int64(d.Duration)), nil }

// SchemaID names the schema.
const SchemaID = "urn:stagepost:schema:archive"

var form = yamlfile.New(SchemaID, reflect.TypeFor[Config]())

// Schema gives the JSON Schema (Draft 2020-12) of the file, indented, as docs/archive.schema.json has it.
func Schema() []byte {
	return form.Schema("Stagepost archive configuration", "The file that the setting archive.config names.")
}

// ErrNone is a configuration that does not exist.
var ErrNone = errors.New("there is no configuration of archives")

// Load reads a file. The error is [yamlfile.Mistakes] with all of them, or wraps [ErrNone].
func Load(name string) (*Config, error) {
	c := &Config{dir: filepath.Dir(name)}
	var err error
	if c.file, err = form.Load(name, c); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s (setting archive.config)", ErrNone, name)
	}
	return c.checked(err)
}

func (c *Config) checked(err error) (*Config, error) {
	if err != nil {
		return nil, err
	}
	c.check()
	if err := c.file.Err(); err != nil {
		return nil, err
	}
	c.resolve()
	return c, nil
}

// Preset gives a preset. The preset default is there even if the file has none: it is [settings.Builtin].
func (c *Config) Preset(name string) (settings.Preset, bool) {
	p, ok := c.Presets[name]
	return p, ok || name == defaultPreset
}

const defaultPreset = "default"

// names of sources, locations, authorities and presets.
var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// wrong notes a mistake at a key, whose parts are joined with dots.
func (c *Config) wrong(key []string, format string, args ...any) {
	c.file.Wrong(strings.Join(key, "."), format, args...)
}
