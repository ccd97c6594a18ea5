package fetch

import (
	"io"
	"net/http"
)

// Transport is for requests that are not downloads, such as notifications. It checks the text of the URL, and every
// address at the moment of the dial, as for a download. It follows no redirects; the caller calls it for each hop.
func (c *Client) Transport() http.RoundTripper { return guarded{c} }

type guarded struct{ client *Client }

// RoundTrip executes one request. A refused URL or address is an *Error of kind Refused; other errors, and those of the
// body, are the transport's own. None names an address that is not in the URL.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	reason := g.client.policy.refuses(r.URL)
	if reason == "" && r.URL.Scheme == "ftp" {
		reason = "scheme is not http or https"
	}
	if reason != "" {
		if r.Body != nil {
			_ = r.Body.Close() // required of every RoundTripper
		}
		// without the URL: http.Client prepends it, and a webhook's path may be secret
		return nil, &Error{Kind: Refused, Err: refusal(reason)}
	}
	answer, err := g.client.transport.RoundTrip(r)
	if err != nil && isRefusal(err) { // at the dial: by the current address of the name
		return nil, &Error{Kind: Refused, Err: err}
	}
	if err != nil {
		return nil, withoutAddresses(err)
	}
	answer.Body = privateBody{answer.Body}
	return answer, nil
}

// privateBody is the body of an answer, whose errors name no address.
type privateBody struct{ io.ReadCloser }

func (b privateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, withoutAddresses(err)
}

// CloseIdleConnections is for http.Client.
func (g guarded) CloseIdleConnections() { g.client.transport.CloseIdleConnections() }
