// Package profile holds what an operator decides for a collection: who owns it, what may be fetched for it, where its
// objects are kept, how they are named and who is notified. A profile is a YAML file; a depositor names it with each
// submission.
//
// The struct [Profile] is the only definition of these files: its tags define what is allowed and what a field means,
// and from them come the JSON Schema, the checks, the defaults and the view of the effective values.
package profile

import (
	"net/netip"
	"slices"

	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/format/tree"
)

// Default is the id of the built-in profile.
const Default = "default"

// Profile is one file of the profile directory. Fields that are left out take the value of the built-in profile.
//
// Tags: yaml is the name; doc one sentence; need:"true" a field that must be there; enum, min, max, pattern, format
// and default as in JSON Schema (of a list, those of its items); short the key of a mapping for which a text alone
// stands. A zero field with a default takes it.
type Profile struct {
	ID           string   `yaml:"id" need:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"Its name in submissions: letters, digits, dot, hyphen and underscore, at most 64."`
	Description  string   `yaml:"description" doc:"For people."`
	Owner        string   `yaml:"owner" doc:"Local ids are unique within an owner. Defaults to the collection."`
	Collection   string   `yaml:"collection" doc:"The group of its jobs, by which they are listed, held and limited. Defaults to the id."`
	Collections  []string `yaml:"collections" doc:"Further collections of its objects, which mrt-membership.txt lists after the collection."`
	Notification []string `yaml:"notification" format:"email" doc:"Addresses of the mails, where the depositor names none."`

	NotifyAlso    []string `yaml:"notification_additional" format:"email" doc:"Addresses that get every mail, besides those of the depositor or of notification."`
	NotifyFailure []string `yaml:"notification_failure" format:"email" doc:"Addresses that get a mail only when something failed."`
	NotifyAdmins  []string `yaml:"notification_bcc" format:"email" doc:"Addresses that get every mail as blind copies."`

	ReplyTo string `yaml:"reply_to" doc:"Address for answers to its mails (Reply-To). Defaults to their sender."`
	Reports Form   `yaml:"reports" enum:"stagepost,merritt" default:"stagepost" doc:"Keys of failed.json and completed.json, which mails carry: merritt has those of Merritt's job configuration, with status and message."`

	Submitters []string `yaml:"submitters" default:"*" pattern:"^[^ ]+$" doc:"Owners of user tokens that may submit. Defaults to *, which is all of them. To others the profile is unknown."`
	Updaters   []string `yaml:"updaters" pattern:"^[^ ]+$" doc:"Owners of user tokens that may fetch and update every object of the profile, or * for all. Defaults to none: depositors have their own objects, which are unknown to others."`

	Networks  []string  `yaml:"allow_networks" format:"cidr" doc:"Special networks, such as 10.1.0.0/16, that may be fetched from and notified. Defaults to none."`
	Minter    Minter    `yaml:"minter" doc:"Makes the identifiers of new objects."`
	Storage   []string  `yaml:"storage" default:"storage" doc:"Storage locations (OCFL storage roots), relative to the data directory. Each has a copy of every version."`
	Callback  *Callback `yaml:"callback" short:"url" doc:"Receives a call at the end of each job, whether its object was stored or not. A text is the url."`
	Webhooks  []Webhook `yaml:"webhooks" doc:"Receivers of notifications about batches and jobs: events of CloudEvents 1.0, signed as Standard Webhooks 1.0 states."`
	Priority  *int      `yaml:"priority" min:"0" max:"99" doc:"Priority of its jobs; 0 goes first. Defaults to a number that grows with the size of the batch."`
	Suppress  Suppress  `yaml:"suppress" enum:"none,partial,full" default:"none" doc:"Which mails are not sent: partial leaves out the mail that a submission is queued, full leaves out all."`
	Names     Names     `yaml:"names" enum:"portable,as-given" default:"portable" doc:"Which names of files are accepted: portable refuses names that some common system could not store or would show as another name, as-given accepts what a POSIX file system and OCFL can store."`
	Type      string    `yaml:"type" default:"MRT-curatorial" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"Type of its objects in mrt-mom.txt."`
	Role      string    `yaml:"role" default:"MRT-content" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"Role of its objects in mrt-mom.txt."`
	Aggregate string    `yaml:"aggregate" default:"MRT-none" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"What its objects aggregate, in mrt-mom.txt. MRT-collection, MRT-owner and MRT-service-level-agreement are administrative: their identifiers are reserved at EZID and not harvested."`

	Strict bool   `yaml:"strict" doc:"Manifests must pass the checks of the validator of the California Digital Library, and a file whose digest is right must also have the size in the manifest."`
	Limits Limits `yaml:"limits" doc:"Bounds of one object."`

	networks []netip.Prefix
	file     string                   // that it was read from
	given    map[string]tree.Position // by key: where a value stands in the file
}

// Minter makes the identifiers of new objects: our own from a NOID template, or a service.
type Minter struct {
	Template string `yaml:"template" doc:"NOID template of the ARKs that the server mints, such as ark:/99999/fk4.reedeedk, which is the default. Not together with url."`
	URL      string `yaml:"url" format:"uri" doc:"A service that mints; it gets a POST with the job as Idempotency-Key. With the form ezid the address of a shoulder: https://USER@ezid.cdlib.org/shoulder/ark:/99999/fk4."`

	PasswordFile string `yaml:"password_file" doc:"File with the password for Basic authentication at url, which has the user: https://USER@HOST. Its mode is 600; relative to the profile."`

	Form    MinterForm `yaml:"form" enum:"stagepost,ezid" default:"stagepost" doc:"What the service at url speaks: ezid is version 2 of the API of EZID, which also gets the description and the target of each version."`
	Target  string     `yaml:"target" format:"uri" doc:"Beginning of the target URLs at EZID, to which the ARK is added in percent-encoding: https://archive.example.org/m/. Defaults to none: targets are not changed."`
	Coowner string     `yaml:"coowner" doc:"User of EZID who owns the identifiers (_owner), which Merritt calls the co-owner. Defaults to the user of url."`
	Status  string     `yaml:"status" enum:"public,reserved" default:"public" doc:"Status of the identifiers at EZID once their objects are described. Those of administrative aggregates are always reserved."`

	noid *noid.Template
}

// MinterForm is the protocol of a service that mints.
type MinterForm string

// Protocols of services that mint.
const (
	MinterStagepost MinterForm = "stagepost"
	MinterEZID      MinterForm = "ezid"
)

// Callback is notified of the end of each job.
type Callback struct {
	URL      string `yaml:"url" need:"true" format:"uri" doc:"Where it is called, with the user for Basic authentication if it needs one: https://USER@HOST."`
	Form     Form   `yaml:"form" enum:"stagepost,merritt" default:"stagepost" doc:"Address and body of a call: merritt posts job:jobState to the url with /mc/ and the id of the job behind it, as Merritt does."`
	Resolver string `yaml:"resolver" format:"uri" doc:"Beginning of job:persistentURL in the form merritt, to which the ARK is added: https://n2t.net/. Defaults to none: the call has no such member."`
	Required bool   `yaml:"required" doc:"A job waits in Notify until its callback was delivered, and fails when the callback is abandoned. Defaults to false: the job completes, and the outbox delivers."`

	PasswordFile string `yaml:"password_file" doc:"File with the password of the user in url. Its mode is 600; relative to the profile. Read for each call."`
	SecretFile   string `yaml:"secret_file" doc:"File with the secrets that sign each call, one on a line: whsec_ and base64 as in Standard Webhooks, or any text, whose bytes are the key then. Its mode is 600; relative to the profile. Read for each call."`
}

// Form is the form of callbacks and reports.
type Form string

// Forms of callbacks and reports.
const (
	FormStagepost Form = "stagepost"
	FormMerritt   Form = "merritt"
)

// Webhook is a receiver of notifications.
type Webhook struct {
	Name   string   `yaml:"name" pattern:"^[a-z0-9][a-z0-9-]{0,63}$" doc:"Its name in the list of deliveries: small letters, digits and hyphens. Defaults to the host. Waiting deliveries go to the hook of their name, so an address can be corrected."`
	URL    string   `yaml:"url" need:"true" format:"uri" doc:"Where notifications are sent."`
	Events []string `yaml:"events" enum:"batch.queued,batch.held,batch.released,batch.completed,batch.failed,batch.updated,batch.deleted,job.held,job.released,job.completed,job.failed,job.retried,job.deleted" doc:"The events that are sent. Defaults to all."`

	PasswordFile string `yaml:"password_file" doc:"File with the password of the user in url, if it has one. Its mode is 600; relative to the profile."`
	SecretFile   string `yaml:"secret_file" need:"true" doc:"File with the secrets, one on a line: whsec_ and the base64 of 24 to 64 bytes. Its mode is 600; relative to the profile. Every one signs: to exchange one, list both until the receiver has the new one. Read for each notification."`
}

// Selects reports whether the hook is notified of a type of event.
func (w *Webhook) Selects(event string) bool {
	return len(w.Events) == 0 || slices.Contains(w.Events, event)
}

// Webhook gives the hook of a name.
func (p *Profile) Webhook(name string) (*Webhook, bool) {
	i := slices.IndexFunc(p.Webhooks, func(w Webhook) bool { return w.Name == name })
	if i < 0 {
		return nil, false
	}
	return &p.Webhooks[i], true
}

// Suppress defines which mails are not sent.
type Suppress string

// Degrees of silence.
const (
	SuppressNone    Suppress = "none"
	SuppressPartial Suppress = "partial" // no mail that a submission was queued
	SuppressFull    Suppress = "full"    // no mail
)

// Names defines which names of files are accepted. They are stored as they were given in either case.
type Names string

// Rules for names.
const (
	NamesPortable Names = "portable"
	NamesAsGiven  Names = "as-given"
)

// Rules gives the rules for the names of files.
func (n Names) Rules() safename.Rules {
	if n == NamesAsGiven {
		return safename.AsGiven
	}
	return safename.Portable
}

// Limits bound one object.
type Limits struct {
	Files    int   `yaml:"files" min:"0" default:"100000" doc:"Files of an object."`
	Bytes    int64 `yaml:"bytes" min:"0" default:"1099511627776" doc:"Bytes of an object."`
	Manifest int64 `yaml:"manifest" min:"0" doc:"Bytes of a manifest. Defaults to 1 GiB, in strict profiles to 5,000,000 as in Merritt."`
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

// Administrative reports whether the objects are about the archive itself.
func (p *Profile) Administrative() bool {
	return slices.Contains([]string{"MRT-collection", "MRT-owner", "MRT-service-level-agreement"}, p.Aggregate)
}

// Group is what holds and limits call the profile's jobs.
func (p *Profile) Group() string { return p.Collection }

// File gives the file that the profile was read from, empty for one that was not.
func (p *Profile) File() string { return p.file }

// NOID gives the template, or nil when a service mints.
func (m Minter) NOID() *noid.Template { return m.noid }
