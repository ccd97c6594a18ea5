package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/source"
)

// TestSettings: presets complete a request, locked settings stand, and settings that no job can have are refused with
// what is accepted.
func TestSettings(t *testing.T) {
	yes, no := true, false
	preset := Preset{
		Settings: api.ArchiveSettings{Keep: "1095d", Sign: &yes, Locations: []string{"near"}},
		Locked:   []string{"keep", "sign"},
	}
	got, err := preset.Apply(api.ArchiveSettings{Attempts: 2})
	if err != nil || got.Keep != "1095d" || !*got.Sign || got.Attempts != 2 || got.Deadline != "2h" ||
		len(got.Locations) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := preset.Apply(api.ArchiveSettings{Keep: "1095d"}); err != nil {
		t.Errorf("the locked value itself: %v", err)
	}
	for name, s := range map[string]api.ArchiveSettings{
		"keep":      {Keep: "1d"},
		"sign":      {Sign: &no},
		"package":   {Package: "zip"},
		"pack":      {Pack: "rar"},
		"deadline":  {Deadline: "0s"},
		"attempts":  {Attempts: 101},
		"file_name": {FileName: "archive-${nothing}"},
		"quorum":    {Quorum: "some"},
	} {
		if _, err := preset.Apply(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := (Preset{Locked: []string{"nothing"}}).Apply(api.ArchiveSettings{}); err == nil {
		t.Error("a lock of no setting is accepted")
	}
	for name, c := range map[string]source.Settings{
		"content.folder_name": {FolderName: "${username}/.."}, "content.file_name": {FileName: "${username}/x"},
	} {
		if err := CheckContent(&api.ArchiveSettings{Content: c}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestKeptUntil: years are those of the calendar.
func TestKeptUntil(t *testing.T) {
	from := time.Date(2024, 2, 28, 12, 0, 0, 0, time.UTC)
	for keep, want := range map[string]time.Time{
		"10y": from.AddDate(10, 0, 0), "90d": from.Add(90 * 24 * time.Hour), "unlimited": {},
	} {
		if got, err := keptUntil(keep, from); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v", keep, got, err)
		}
	}
	for _, keep := range []string{"", "0s", "0y", "-1y", "1001y", "y", "1.5y", "long"} {
		if got, err := keptUntil(keep, from); err == nil {
			t.Errorf("%q was taken: %v", keep, got)
		}
	}
}
