// Package settings completes the settings of archive jobs by presets, and validates them.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// unlimited is the word for a duration without a bound.
const unlimited = "unlimited"

// Words of the setting content.pdf.
const (
	PDFOff      = "off"
	PDFOn       = "on"       // an attempt that cannot be printed has its HTML file alone
	PDFRequired = "required" // an attempt that cannot be printed fails the job
)

// Forms of packages.
const (
	PackageBag  = "bag"
	PackageOCFL = "bag+ocfl"

	PackTarGz = "tar.gz"
	PackZip   = "zip"
	PackNone  = "none"
)

// Preset is a named set of settings. Locked settings replace those of a request.
type Preset struct {
	Settings api.ArchiveSettings `json:"settings" doc:"Settings of jobs whose request does not set them."`
	// Locked has names of fields as in JSON; nested ones as content.file_name.
	Locked []string `json:"locked,omitempty" doc:"Settings that requests cannot change, by their keys: sign, content.file_name."`
}

// Builtin is the preset that completes every other one.
func Builtin() Preset {
	no, yes := false, true
	return Preset{Settings: api.ArchiveSettings{
		Content:      source.Settings{PDF: PDFOff},
		CourseBackup: &no, ActivityBackups: &no, DeleteBackups: &yes, ActivityOptional: &yes,
		Package: PackageBag, Pack: PackTarGz,
		FileName: "archive-${courseshortname}-${courseid}_${date}-${time}",
		Quorum:   "all", Sign: &yes, Keep: unlimited, Deadline: "2h", Attempts: 5,
	}}
}

// Apply gives the settings of a job: those of the request, completed by the preset and by [Builtin]. A request that
// sets a locked field to another value is of kind Refused.
func (p Preset) Apply(request api.ArchiveSettings) (api.ArchiveSettings, error) {
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
	return request, validate(&request)
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
func validate(s *api.ArchiveSettings) error {
	bad := func(field, value, want string) error {
		return job.Errorf(job.Invalid, "settings", "", "%s is %q: want %s", field, value, want)
	}
	switch {
	case s.Package != PackageBag && s.Package != PackageOCFL:
		return bad("package", s.Package, "bag or bag+ocfl")
	case s.Pack != PackTarGz && s.Pack != PackZip && s.Pack != PackNone:
		return bad("pack", s.Pack, "tar.gz, zip or none")
	case s.Content.PDF != PDFOff && s.Content.PDF != PDFOn && s.Content.PDF != PDFRequired:
		return bad("content.pdf", s.Content.PDF, "off, on or required")
	case s.Attempts < 1 || s.Attempts > 100:
		return bad("attempts", fmt.Sprint(s.Attempts), "1 to 100")
	}
	if n := len(s.Notify); n > notify.MostReceivers {
		return bad("notify", fmt.Sprintf("a list of %d addresses", n), fmt.Sprintf("at most %d", notify.MostReceivers))
	}
	for _, one := range s.Notify {
		if err := mail.CheckAddress(one); err != nil {
			return job.Errorf(job.Invalid, "settings", "", "notify: %w", err)
		}
	}
	if _, err := copies.ParseQuorum(s.Quorum); err != nil {
		return bad("quorum", s.Quorum, "all, majority or a number of the locations")
	}
	if _, err := pattern.Parse(pattern.File, s.FileName, pattern.JobVariables()); err != nil {
		return job.Errorf(job.Invalid, "settings", "", "file_name: %w", err)
	}
	if _, err := keptUntil(s.Keep, time.Now()); err != nil {
		return bad("keep", s.Keep, "years such as 10y, a duration such as 90d, or unlimited")
	}
	if d, err := duration(s.Deadline); err != nil || d == 0 {
		return bad("deadline", s.Deadline, "a duration such as 2h, or unlimited")
	}
	return nil
}

// CheckContent reports patterns of attempts that a request sets and that are invalid. Those of presets are checked
// with their file.
func CheckContent(s *api.ArchiveSettings) error {
	for _, one := range []struct {
		field, text string
		kind        pattern.Kind
	}{
		{"content.folder_name", s.Content.FolderName, pattern.Folder},
		{"content.file_name", s.Content.FileName, pattern.File},
	} {
		if _, err := pattern.Parse(one.kind, one.text, pattern.AttemptVariables()); one.text != "" && err != nil {
			return job.Errorf(job.Invalid, "settings", "", "%s: %w", one.field, err)
		}
	}
	return nil
}

// Deadline gives the time that a job has, from its first phase; zero: no limit.
func Deadline(s *api.ArchiveSettings) time.Duration {
	d, err := duration(s.Deadline)
	if err != nil {
		return 0
	}
	return max(d, 0)
}

// Retain gives the end of the retention time of an archive that is packaged at a time; zero: it is kept indefinitely.
func Retain(s *api.ArchiveSettings, packaged time.Time) time.Time {
	until, err := keptUntil(s.Keep, packaged)
	if err != nil {
		return time.Time{}
	}
	return until
}

// PackageName gives the name of the package of a job that began at a time, by the pattern of its settings.
func PackageName(
	s *api.ArchiveSettings, course source.Course, activities []source.Activity, began time.Time,
) (string, error) {
	p, err := pattern.Parse(pattern.File, s.FileName, pattern.JobVariables())
	if err != nil {
		return "", job.Errorf(job.Invalid, "archive", "", "file_name: %w", err)
	}
	var a source.Activity
	if len(activities) == 1 {
		a = activities[0]
	}
	return p.Name(pattern.JobValues(course, a, began)), nil
}

// maxYears bounds the years of a retention time.
const maxYears = 1000

// keptUntil gives the end of a retention time: years of the calendar (10y) or a duration; zero: unlimited.
func keptUntil(keep string, from time.Time) (time.Time, error) {
	if years, ok := strings.CutSuffix(keep, "y"); ok {
		n, err := strconv.Atoi(years)
		if err != nil || n < 1 || n > maxYears {
			return time.Time{}, fmt.Errorf("%q is not a number of years from 1 to %d", keep, maxYears)
		}
		return from.AddDate(n, 0, 0), nil
	}
	d, err := duration(keep)
	switch {
	case err != nil:
		return time.Time{}, err
	case d == 0:
		return time.Time{}, errors.New("the archive would be deleted at once")
	case d < 0:
		return time.Time{}, nil
	}
	return from.Add(d), nil
}

// duration parses a duration; negative: unlimited.
func duration(text string) (time.Duration, error) {
	if text == unlimited {
		return job.Unlimited, nil
	}
	return quantity.ParseDuration(text)
}
