package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// special addresses that no download may reach, by every block of the tables and a few inside them.
var forbidden4 = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.1.2.3",
	"127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1",
	"172.31.255.255",
	"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1",
	"198.19.255.255",
	"198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
}

var forbidden6 = []string{
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:8.8.8.8",
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1",
	"2001:0:7f00:1::80ff:fffe",
	"2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:a00:1::", "3fff::1", "4000::1", "5f00::1",
	"fc00::1", "fd00:ec2::254", "fd12:3456:789a::1", "fe80::1", "fec0::1", "ff02::1", "ff0e::1",
}

// spellings of 127.0.0.1 and of the metadata address that some resolver or parser understands.
var spellings = []string{
	"http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.0.0.1/",
	"http://0x7f.1/", "http://127.1/", "http://127.0.1/", "http://0/", "http://00000000177.0.0.1/",
	"http://127.0.0.01/",
	"http://127.0.0.1./", "http://127.0.0.0x1/", "http://0x7f.0x0.0x0.0x1/", "http://0X7F000001/",
	"http://127.0.0.1.:8080/",
	"http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.16689662/",
	"http://0xA9.0xFE.0xA9.0xFE/",
	"http://4294967295/", "http://256.256.256.256/", "http://1.2.3.4.5/", "http://127.0.0.1%2f/",
	"http://127%2e0%2e0%2e1/",
	"http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://ⓛocalhost/", "http://１２７.0.0.1/", "http://loc\u00adalhost/",
	"http://[::1%25eth0]/", "http://[fe80::1%25lo]/", "http://[::ffff:127.0.0.1]/", "http://[::1]:80%41/",
	"http://[127.0.0.1]/",
	"http://[::1/", "http://::1/", "http://[]/", "http://[v1.x]/",
	"http://example.org@127.0.0.1/", "http://example.org:80@127.0.0.1/", "http://example.org%40@127.0.0.1/",
	"http://user:pass@localhost/", "http://127.0.0.1#@example.org/", "http://127.0.0.1?@example.org/",
	"http://127.0.0.1\\@example.org/", "http://example.org\\@127.0.0.1/", "http:\\\\127.0.0.1/",
	"http://127.0.0.1:80\\/",
	"http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://sub.localhost/",
	"http://localhost.localdomain/",
	"http://metadata.google.internal/", "http://metadata/", "http://private.example.org/", "http://loop6.example.org/",
	"http://mapped.example.org/", "http://nat64.example.org/", "http://six-to-four.example.org/",
	"http://zoned.example.org/",
	"http://mixed-special.example.org/", "http://own.example.org/", "http://198.41.0.4/",
	"http://[2001:503:ba3e::2:30]/",
	"file:///etc/passwd", "file://127.0.0.1/etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL", "ftp://example.org/x",
	"dict://127.0.0.1:11211/stats", "ldap://127.0.0.1/", "unix:///var/run/docker.sock",
	"http+unix://%2fvar%2frun%2fdocker.sock/",
	"jar:http://example.org!/x", "data:text/plain,hi", "javascript:alert(1)", "ws://example.org/",
	"netdoc:///etc/passwd",
	"tftp://example.org/x", "sftp://example.org/x", "about:blank", "http:example.org", "http:/example.org",
	"http:///example.org",
	"//example.org/x", "/etc/passwd", "example.org", "", "http://", "https://:443/", "http://?", "http:// example.org/",
	"http://exam ple.org/", "http://example.org/\r\nHost: x", "http://example.org\t/", "http://example..org/",
	"http://.example.org/",
	"http://example.org:22/", "http://example.org:25/", "http://example.org:0/", "http://example.org:65536/",
	"http://example.org:-1/",
	"http://example.org:http/", "http://example.org:6 6/", "http://example.org:11/", "http://example.org:1023/",
	"https://example.org:53/",
	"http://exa!mple.org/", "http://exam'ple.org/", "http://a,b/", "http://*/", "http://" + "a." + longHost + "/",
	"http://example.org/" + longHost + longHost + longHost + longHost + longHost + longHost + longHost + longHost +
		longHost,
}

var longHost = strings.Repeat("abcdefghij.", 100)

func networkNames() map[string][]netip.Addr {
	one := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	names := map[string][]netip.Addr{
		"example.org": one("93.184.216.34"), "localhost": one("127.0.0.1"), "LOCALHOST": one("127.0.0.1"),
		"sub.localhost":         one("::1"),
		"localhost.localdomain": one("127.0.0.1"), "metadata.google.internal": one("169.254.169.254"),
		"metadata":            one("169.254.169.254"),
		"private.example.org": one("192.168.1.1"), "loop6.example.org": one("::1"),
		"mapped.example.org": one("::ffff:10.0.0.1"),
		"nat64.example.org":  one("64:ff9b::a00:1"), "six-to-four.example.org": one("2002:a00:1::1"),
		"zoned.example.org":         one("fe80::1%lo"),
		"mixed-special.example.org": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		"own.example.org":           one("198.41.0.4"),
		"six.example.org":           one("2606:2800:220:1::1"),
		"some.example.org":          {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("93.184.216.34")},
	}
	for _, odd := range spellings { // the resolver of a C library understands more than ours: be worse than it
		if u, err := url.Parse(odd); err == nil && names[strings.TrimSuffix(u.Hostname(), ".")] == nil {
			names[strings.TrimSuffix(u.Hostname(), ".")] = one("127.0.0.1")
		}
	}
	return names
}

func ownPublic() ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.41.0.4"), netip.MustParseAddr("2001:503:ba3e::2:30")}, nil
}

func hostileURLs() []string {
	urls := append([]string(nil), spellings...)
	for _, a := range forbidden4 {
		urls = append(urls, "http://"+a+"/", "https://"+a+":8443/x?y=http://example.org/")
	}
	for _, a := range forbidden6 {
		urls = append(urls, "http://["+a+"]/", "https://["+a+"]:8080/")
	}
	return urls
}

// refusedByForm are refused by their form or scheme or port, whatever addresses are allowed.
func refusedByForm(c *Client, u string) bool { return c.Check(u) != nil }

func TestHostileURLsAreRefusedWithoutADial(t *testing.T) {
	urls := hostileURLs()
	if len(urls) < 120 {
		t.Fatalf("%d URLs, want at least 120", len(urls))
	}
	t.Logf("%d hostile URLs", len(urls))
	root := newRoot(t)
	for _, u := range urls {
		fake := &network{names: networkNames()}
		c := New(Policy{Retries: -1, Lookup: fake.lookup, Dial: fake.dial, OwnAddresses: ownPublic})
		_, err := c.Head(context.Background(), u)
		if got := kindOf(t, err); got != Refused {
			t.Errorf("Head(%.80q): kind %q (%v), want refused", u, got, err)
		}
		_, err = c.Download(context.Background(), u, root, "f", Want{Size: UnknownSize})
		if got := kindOf(t, err); got != Refused {
			t.Errorf("Download(%.80q): kind %q (%v), want refused", u, got, err)
		}
		if len(fake.dialled) > 0 {
			t.Errorf("%.80q: dialled %q", u, fake.dialled)
		}
	}
	wantNames(t, root)
}

// The control: in a network without the address rule the same URLs are dialled, and good URLs are dialled under the
// rule.
func TestHostileURLsControl(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	dialled := 0
	for _, u := range hostileURLs() {
		fake := &network{names: networkNames()}
		c := New(Policy{Allow: everything, Retries: -1, Lookup: fake.lookup, Dial: fake.dial, OwnAddresses: ownPublic})
		_, err := c.Head(context.Background(), u)
		if refusedByForm(c, u) {
			wantKind(t, err, Refused)
			continue
		}
		if len(fake.dialled) > 0 {
			dialled++
		} else if kindOf(t, err) != Refused {
			t.Errorf("%q: neither refused nor dialled: %v", u, err)
		}
	}
	if dialled < 100 {
		t.Errorf("without the address rule %d URLs are dialled, want at least 100", dialled)
	}
	for u, want := range map[string]string{
		"http://example.org/":                "93.184.216.34:80",
		"https://EXAMPLE.org.:8443/a?b#c":    "93.184.216.34:8443",
		"https://user:secret@example.org/":   "93.184.216.34:443",
		"http://six.example.org/":            "[2606:2800:220:1::1]:80",
		"http://8.8.8.8/":                    "8.8.8.8:80",
		"http://[2606:4700:4700::1111]:1024": "[2606:4700:4700::1111]:1024",
		"http://some.example.org/":           "93.184.216.34:80",
	} {
		fake := &network{names: networkNames()}
		fake.names["EXAMPLE.org"] = fake.names["example.org"]
		c := New(Policy{Retries: -1, Lookup: fake.lookup, Dial: fake.dial, OwnAddresses: ownPublic})
		_, err := c.Head(context.Background(), u)
		wantKind(t, err, Network)
		if got := strings.Join(fake.dialled, " "); got != want {
			t.Errorf("%q: dialled %q, want %q", u, got, want)
		}
	}
}

func TestAllowedNetworkStillChecksTheEmbeddedAddress(t *testing.T) {
	p := (Policy{Allow: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16")},
		OwnAddresses: noOwn}).withDefaults()
	for addr, want := range map[string]bool{
		"64:ff9b::808:808": true, "64:ff9b::7f00:1": false, "2002:808:808::1": true, "2002:a00:1::1": false,
	} {
		if got := p.checkAddress(netip.MustParseAddr(addr)) == nil; got != want {
			t.Errorf("%s allowed: %v, want %v", addr, got, want)
		}
	}
}

func TestPorts(t *testing.T) {
	c := New(Policy{Ports: []uint16{443, 22}})
	for u, want := range map[string]bool{"https://example.org/": true, "http://example.org/": false,
		"http://example.org:22/": true, "http://example.org:8080/": false} {
		if got := c.Check(u) == nil; got != want {
			t.Errorf("%s allowed: %v, want %v", u, got, want)
		}
	}
}

// The name answers publicly first and with a loopback address afterwards; the second connection must not be made.
func TestRebindingResolver(t *testing.T) {
	hits := 0
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		w.Header().Set("Connection", "close")
	})
	address := strings.TrimPrefix(target, "http://")
	lookups := 0
	p := Policy{Retries: -1, OwnAddresses: noOwn}
	p.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		lookups++
		if lookups%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	var dialled []string
	p.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
		dialled = append(dialled, to)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c := newClient(t, p)
	_, err := c.Head(context.Background(), "http://rebind.example.org/")
	wantKind(t, err, "")
	_, err = c.Head(context.Background(), "http://rebind.example.org/")
	wantKind(t, err, Refused)
	if hits != 1 || fmt.Sprint(dialled) != "[93.184.216.34:80]" {
		t.Errorf("%d hits, dialled %q; want one of the public address", hits, dialled)
	}
}

// The socket checks last: even a dialer with a forbidden address does not connect.
func TestSocketControl(t *testing.T) {
	p := (Policy{OwnAddresses: noOwn}).withDefaults()
	address := strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://")
	if _, err := p.dialOne(context.Background(), "tcp", address, 1); !isRefusal(err) {
		t.Errorf("dial %s: %v, want a refusal", address, err)
	}
	p.Allow = loopback
	conn, err := p.dialOne(context.Background(), "tcp", address, 1)
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	conn.Close()
	for _, c := range [][2]string{{"unix", "/run/x.sock"}, {"udp4", "8.8.8.8:53"}, {"tcp4", "localhost:80"},
		{"tcp6", "[fe80::1%lo]:80"}} {
		if err := p.control(c[0], c[1], nil); !isRefusal(err) {
			t.Errorf("control%q: %v, want a refusal", c, err)
		}
	}
}

func TestOneDeadAddressIsNotTheEnd(t *testing.T) {
	address := strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://")
	p := Policy{Retries: -1, OwnAddresses: noOwn}
	p.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("2606:2800:220:1::1"), netip.MustParseAddr("93.184.216.34")}, nil
	}
	p.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
		if strings.HasPrefix(to, "[") {
			return nil, fmt.Errorf("no route to %s", to)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	_, err := newClient(t, p).Head(context.Background(), "http://two.example.org/")
	wantKind(t, err, "")
}
