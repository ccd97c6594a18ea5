// Package ezid registers identifiers with EZID (API version 2): it mints ARKs on a shoulder, and sends and updates what
// EZID keeps about them. Requests and answers are metadata in ANVL, with % and line ends in percent-encoding.
//
// EZID has no idempotency keys: a request to mint whose answer is lost may have made an identifier. Mint reserves, so
// that such an identifier is never public; Update publishes.
package ezid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/internal/retryafter"
)

// Element is a name with its value. Names that begin with an underscore are EZID's own.
type Element struct{ Name, Value string }

// Names of EZID's own elements.
const (
	Target  = "_target"  // URL to which resolvers redirect
	Status  = "_status"  // Public or Reserved
	Owner   = "_owner"   // user who owns the identifier
	Profile = "_profile" // how the citation is described: erc
	Export  = "_export"  // yes or no: whether harvesters see it
)

// Values of Status.
const (
	Public   = "public"
	Reserved = "reserved" // known to EZID alone
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 10

// Error is a refusal by EZID, or an answer that is none of EZID's.
type Error struct {
	Status int    // of HTTP
	Reason string // behind "error:", or what is odd about the answer
}

func (e *Error) Error() string { return fmt.Sprintf("EZID answers %d: %s", e.Status, e.Reason) }

// Temporary reports whether a later request may be answered otherwise.
func (e *Error) Temporary() bool { return retryafter.Passes(e.Status) }

// unknown reports whether EZID has no such identifier.
func (e *Error) unknown() bool {
	return e.Status == http.StatusNotFound || strings.Contains(strings.ToLower(e.Reason), "no such identifier")
}

// Client makes requests to EZID. Shoulder is the URL at which identifiers are minted, such as
// https://user:password@ezid.cdlib.org/shoulder/ark:/99999/fk4.
type Client struct {
	Shoulder string
	HTTP     *http.Client
}

// Mint makes an identifier on the shoulder, reserved, and returns its ARK: that of the answer, or the shadow ARK of an
// identifier of another kind.
func (c *Client) Mint(ctx context.Context, about []Element) (string, error) {
	about = append([]Element{{Status, Reserved}}, without(about, Status)...)
	return c.send(ctx, http.MethodPost, c.Shoulder, about)
}

// Update sends what EZID is to keep about an ARK. Elements that are left out stay. An identifier that EZID does not
// have is created.
func (c *Client) Update(ctx context.Context, ark string, about []Element) error {
	address, err := c.identifier(ark)
	if err != nil {
		return err
	}
	got, err := c.send(ctx, http.MethodPost, address.String(), about)
	var refused *Error
	if errors.As(err, &refused) && refused.unknown() {
		address.RawQuery = "update_if_exists=yes"
		got, err = c.send(ctx, http.MethodPut, address.String(), about)
	}
	if err == nil && got != ark {
		err = &Error{http.StatusOK, fmt.Sprintf("it updated %.200q, not %s", got, ark)}
	}
	return err
}

// identifier returns the address of an ARK: that of the shoulder with /id/ instead.
func (c *Client) identifier(ark string) (*url.URL, error) {
	u, err := url.Parse(c.Shoulder)
	if err != nil {
		return nil, errors.New("the URL of the shoulder cannot be read") // its text may have a password
	}
	before, _, found := strings.Cut(u.Path, "/shoulder/")
	if !found {
		return nil, errors.New("the URL has no /shoulder/")
	}
	u.Path, u.RawPath, u.RawQuery = before+"/id/"+ark, "", ""
	return u, nil
}

// send makes a request and returns the ARK of the status line.
func (c *Client) send(ctx context.Context, method, address string, about []Element) (string, error) {
	body, err := Encode(about)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return "", errors.New("the URL of EZID cannot be used")
	}
	r.Header.Set("Content-Type", "text/plain; charset=UTF-8")
	r.Header.Set("Accept", "text/plain")
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	return result(answer.StatusCode, string(text))
}

// result reads the status line of an answer. The word success counts with a status of success only.
func result(status int, text string) (string, error) {
	line, _, _ := strings.Cut(text, "\n")
	word, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
	rest = strings.TrimSpace(rest)
	switch {
	case word == "error":
		return "", &Error{status, clipped(rest)}
	case word != "success" || status/100 != 2:
		return "", &Error{status, fmt.Sprintf("it is no answer of EZID: %.200q", line)}
	}
	for one := range strings.SplitSeq(rest, "|") {
		if one = strings.TrimSpace(one); strings.HasPrefix(one, "ark:") {
			return one, nil
		}
	}
	return "", &Error{status, fmt.Sprintf("it gave no ARK: %.200q", rest)}
}

func clipped(text string) string { return fmt.Sprintf("%.300s", text) }

func without(all []Element, name string) []Element {
	var rest []Element
	for _, e := range all {
		if e.Name != name {
			rest = append(rest, e)
		}
	}
	return rest
}

var (
	valueEncoder = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D")
	nameEncoder  = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D", ":", "%3A")
)

// Encode writes elements in ANVL, one on each line. A name that is blank is an error.
func Encode(about []Element) (string, error) {
	var b strings.Builder
	for _, e := range about {
		if strings.TrimSpace(e.Name) == "" {
			return "", errors.New("an element without a name")
		}
		b.WriteString(nameEncoder.Replace(e.Name) + ": " + valueEncoder.Replace(e.Value) + "\n")
	}
	return b.String(), nil
}
