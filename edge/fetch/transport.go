package fetch

import "net/http"

// Transport gives the client's way out for requests that are no downloads, such as notifications: it judges the text of the URL, and every
// address at the moment of the dial, as for a download. It follows no redirects; whoever does asks it again for each hop.
func (c *Client) Transport() http.RoundTripper { return guarded{c} }

type guarded struct{ client *Client }

// RoundTrip does one request. A URL or an address that is refused is an *Error of kind Refused; what else goes wrong is the transport's own error.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if reason := g.client.policy.judge(r.URL); reason != "" {
		if r.Body != nil {
			_ = r.Body.Close() // as every RoundTripper must
		}
		return nil, &Error{Kind: Refused, Err: refusal(reason)} // without the URL: http.Client puts it in front, and a webhook's path may be secret
	}
	answer, err := g.client.transport.RoundTrip(r)
	if err != nil && isRefusal(err) { // at the dial: by the address that the name has now
		return nil, &Error{Kind: Refused, Err: err}
	}
	return answer, err
}

// CloseIdleConnections is for http.Client.
func (g guarded) CloseIdleConnections() { g.client.transport.CloseIdleConnections() }
