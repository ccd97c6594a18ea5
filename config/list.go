package config

import "strings"

// List gives the entries of a setting that is a list: separated by commas, with optional blanks around them.
// In the configuration file such a setting may be a YAML list.
func List(text string) []string {
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}
