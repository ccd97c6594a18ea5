package config

import "strings"

// List gives the entries of a setting that is a list: they have commas between them, and may have blanks around them.
// In the configuration file such a setting may be a list of YAML.
func List(text string) []string {
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}
