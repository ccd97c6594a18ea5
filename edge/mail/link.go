package mail

import (
	"fmt"
	"net/url"
	"strings"
)

// CheckLink gives the URL of a server, for links in mails, without a final slash. It must be one of http or https
// without a query, fragment and user. An empty URL is none.
func CheckLink(link string) (string, error) {
	if link == "" {
		return "", nil
	}
	u, err := url.Parse(strings.TrimRight(link, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("the address for links in mails, %q, is no http or https URL", link)
	}
	return u.String(), nil
}
