package listen

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// CheckNames refuses values of the settings hosts, labels and url that could have no effect. Errors name the setting.
func CheckNames(hosts, labels []string, public string) error {
	u, err := url.Parse(public)
	if public != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("url: %q is not an http or https URL, such as https://jobs.example.org", public)
	}
	for _, name := range hosts {
		if net.ParseIP(name) == nil && strings.ContainsAny(name, "/: \t") {
			return fmt.Errorf("hosts: %q is not the name of a host: leave out scheme, port and path", name)
		}
	}
	for _, l := range labels {
		if !job.IsLabel(l) {
			return fmt.Errorf("labels: %q is not NAME or NAME=VALUE of letters, digits, hyphens, underscores and dots",
				l)
		}
	}
	return nil
}
