package archive

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// Settings state how a job archives. They are kept with the job and written into the package. The zero value of a field
// means that it is not set; [Preset.Apply] replaces it.
type Settings struct {
	Content source.Settings `json:"content,omitzero"`

	CourseBackup     *bool `json:"course_backup,omitempty"`     // a backup of the whole course
	ActivityBackups  *bool `json:"activity_backups,omitempty"`  // a backup of each activity
	ActivityOptional *bool `json:"activity_optional,omitempty"` // activities that cannot be archived are left out

	Package  string `json:"package,omitempty"`   // bag or ocfl
	Pack     string `json:"pack,omitempty"`      // of bags: tar.gz, zip or none
	FileName string `json:"file_name,omitempty"` // of the package: a pattern with variables

	Locations []string `json:"locations,omitempty"`
	Quorum    string   `json:"quorum,omitempty"` // all, majority, or a number of locations

	Sign        *bool    `json:"sign,omitempty"`
	Authorities []string `json:"authorities,omitempty"`

	Keep     string   `json:"keep,omitempty"` // retention: a duration, or unlimited
	Deadline string   `json:"deadline,omitempty"`
	Attempts int      `json:"attempts,omitempty"` // of a phase
	Notify   []string `json:"notify,omitempty"`   // mail addresses of the people who are notified of the end
}

// unlimited is the word for a duration without a bound.
const unlimited = "unlimited"

// Forms of packages.
const (
	PackageBag  = "bag"
	PackageOCFL = "ocfl"

	PackTarGz = "tar.gz"
	PackZip   = "zip"
	PackNone  = "none"
)

// Preset is a named set of settings. Locked settings replace those of a request.
type Preset struct {
	Settings Settings `json:"settings"`
	Locked   []string `json:"locked,omitempty"` // names of fields as in JSON; nested ones as content.file_name
}

// Builtin is the preset that completes every other one.
func Builtin() Preset {
	no, yes := false, true
	return Preset{Settings: Settings{
		CourseBackup: &no, ActivityBackups: &no, ActivityOptional: &yes,
		Package: PackageBag, Pack: PackTarGz,
		FileName: "archive-${courseshortname}-${courseid}_${date}-${time}",
		Quorum:   "all", Sign: &yes, Keep: unlimited, Deadline: "2h", Attempts: 5,
	}}
}

// Apply gives the settings of a job: those of the request, completed by the preset and by [Builtin]. A request that
// sets a locked field to another value is of kind Refused.
func (p Preset) Apply(request Settings) (Settings, error) {
	asked, preset := flat(reflect.ValueOf(&request).Elem()), flat(reflect.ValueOf(&p.Settings).Elem())
	builtin := Builtin().Settings
	last := flat(reflect.ValueOf(&builtin).Elem())
	for _, name := range p.Locked {
		field, ok := preset[name]
		if !ok {
			return request, job.Errorf(job.Invalid, "preset", "", "it locks %q, which is no setting (known: %s)", name,
				strings.Join(slices.Sorted(maps.Keys(preset)), ", "))
		}
		if field.IsZero() {
			field = last[name]
		}
		if a := asked[name]; !a.IsZero() && !reflect.DeepEqual(a.Interface(), field.Interface()) {
			return request, job.Errorf(job.Refused, "preset", "", "the preset locks %s: it is %s", name, shown(field))
		}
		asked[name].Set(field)
	}
	for name, field := range asked {
		for _, from := range []reflect.Value{preset[name], last[name]} {
			if field.IsZero() {
				field.Set(from)
			}
		}
	}
	return request, request.validate()
}

// flat gives the fields of settings by their names in JSON.
func flat(v reflect.Value) map[string]reflect.Value {
	all := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Field(i).Kind() != reflect.Struct {
			all[name] = v.Field(i)
			continue
		}
		for inner, f := range flat(v.Field(i)) {
			all[name+"."+inner] = f
		}
	}
	return all
}

func shown(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// validate reports settings that no job can have.
func (s *Settings) validate() error {
	bad := func(field, value, want string) error {
		return job.Errorf(job.Invalid, "settings", "", "%s is %q: want %s", field, value, want)
	}
	switch {
	case s.Package != PackageBag && s.Package != PackageOCFL:
		return bad("package", s.Package, "bag or ocfl")
	case s.Pack != PackTarGz && s.Pack != PackZip && s.Pack != PackNone:
		return bad("pack", s.Pack, "tar.gz, zip or none")
	case s.Attempts < 1 || s.Attempts > 100:
		return bad("attempts", fmt.Sprint(s.Attempts), "1 to 100")
	}
	if _, err := copies.ParseQuorum(s.Quorum); err != nil {
		return bad("quorum", s.Quorum, "all, majority or a number of the locations")
	}
	if _, err := pattern.Parse(pattern.File, s.FileName, pattern.JobVariables()); err != nil {
		return job.Errorf(job.Invalid, "settings", "", "file_name: %w", err)
	}
	if _, err := duration(s.Keep); err != nil {
		return bad("keep", s.Keep, "a duration such as 365d, or unlimited")
	}
	if d, err := duration(s.Deadline); err != nil || d == 0 {
		return bad("deadline", s.Deadline, "a duration such as 2h, or unlimited")
	}
	return nil
}

// deadline gives the time that a job has, from its first phase; zero: no limit.
func (s *Settings) deadline() time.Duration {
	d, err := duration(s.Deadline)
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// duration parses a duration; negative: unlimited.
func duration(text string) (time.Duration, error) {
	if text == unlimited {
		return job.Unlimited, nil
	}
	return quantity.ParseDuration(text)
}
