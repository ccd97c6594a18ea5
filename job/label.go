package job

import (
	"regexp"
	"slices"
)

// MostRequired is how many labels one job requires at most.
const MostRequired = 8

var label = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}(=[A-Za-z0-9._-]{1,100})?$`)

// IsLabel reports whether a job or a state can require the label: NAME or NAME=VALUE, such as "gpu" or "zone=b", each
// of up to 100 letters, digits, -, _ and .
func IsLabel(l string) bool { return label.MatchString(l) }

// Required returns the labels that a job requires in the order of records: sorted, each once. Too many, and what is no
// label, are Invalid.
func Required(labels ...string) ([]string, error) {
	all := slices.Clone(labels)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > MostRequired {
		return nil, Errorf(Invalid, "create", "", "%d labels are required; a job requires at most %d", len(all),
			MostRequired)
	}
	for _, l := range all {
		if !IsLabel(l) {
			return nil, Errorf(Invalid, "create", "",
				"the label %.100q is not NAME or NAME=VALUE of letters, digits, -, _ and .", l)
		}
	}
	return all, nil
}

// Lacking returns the required labels that are not among labels.
func Lacking(required, labels []string) (lacking []string) {
	for _, l := range required {
		if !slices.Contains(labels, l) {
			lacking = append(lacking, l)
		}
	}
	return lacking
}
