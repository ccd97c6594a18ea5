package pattern

import (
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
)

// The patterns that apply if none is set.
const (
	DefaultArchive = "archive-${courseshortname}-${courseid}-${cmtype}-${cmname}-${cmid}_${date}-${time}"
	DefaultFolder  = "${username}/${attemptid}-${date}_${time}"
	DefaultFile    = "attempt-${attemptid}-${username}_${date}-${time}"
)

var courseVariables = []string{"courseid", "coursename", "courseshortname", "cmid"}

var timeVariables = []string{"date", "time", "timestamp"}

// JobVariables are the variables of the names of archives.
func JobVariables() []string {
	return slices.Concat(courseVariables, []string{"cmtype", "cmname"}, timeVariables)
}

// AttemptVariables are the variables of the names of attempts and of their folders.
func AttemptVariables() []string {
	return slices.Concat(courseVariables, []string{"groupids", "groupidnumbers", "groupnames", "quizid", "quizname",
		"attemptid", "username", "firstname", "lastname", "idnumber", "timestart", "timefinish"}, timeVariables)
}

// JobValues are the values of the variables of an archive: at is when its job began.
func JobValues(c source.Course, a source.Activity, at time.Time) map[string]string {
	v := map[string]string{
		"courseid": c.ID, "coursename": c.Name, "courseshortname": c.ShortName,
		"cmid": a.ID, "cmtype": a.Module, "cmname": a.Name,
	}
	SetTime(v, at)
	return v
}

// SetTime sets the variables date, time and timestamp: in UTC, so that a name does not depend on the time zone of the
// server.
func SetTime(values map[string]string, at time.Time) {
	at = at.UTC()
	values["date"], values["time"] = at.Format("2006-01-02"), at.Format("15-04-05")
	values["timestamp"] = strconv.FormatInt(at.Unix(), 10)
}
