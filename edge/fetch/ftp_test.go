package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/fetch/ftptest"
)

// ftpPolicy may use the servers of tests.
func ftpPolicy() Policy {
	p := local()
	p.FTP = true
	return p
}

// TestFTP downloads files, with and without a login, from servers that lack the newer commands too.
func TestFTP(t *testing.T) {
	data := string(payload(300_000))
	for name, c := range map[string]struct {
		server    *ftptest.Server
		user, end string
	}{
		"plain":            {&ftptest.Server{}, "", ""},
		"a type":           {&ftptest.Server{}, "", ";type=i"},
		"a login":          {&ftptest.Server{User: "ann", Password: "s3 cret"}, "ann:s3%20cret@", ""},
		"no EPSV":          {&ftptest.Server{Lacks: "EPSV"}, "", ""},
		"no SIZE, no MDTM": {&ftptest.Server{Lacks: "SIZE MDTM"}, "", ""},
		"a long greeting": {&ftptest.Server{Says: map[string]string{"": "120 soon\r\n220-a\r\n 220 b\r\n220 c"}}, "",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.server
			s.Files = map[string]string{"d/ä b.bin": data}
			address := s.Start(t)
			url := "ftp://" + c.user + address + "/d/%C3%A4%20b.bin" + c.end
			client := newClient(t, ftpPolicy())
			info, err := client.Head(t.Context(), url)
			if want := int64(len(data)); err != nil || info.Size != want && s.Lacks != "SIZE MDTM" {
				t.Errorf("got %+v, %v", info, err)
			}
			root := newRoot(t)
			got, err := client.Download(t.Context(), url, root, "f", Want{Algorithm: "sha256",
				Digest: sha([]byte(data)),
				Size:   int64(len(data))})
			if err != nil || got.Size != int64(len(data)) {
				t.Fatalf("got %+v, %v", got, err)
			}
			wantFile(t, root, "f", []byte(data))
			_, err = client.Download(t.Context(), url+"x", root, "g", Want{Size: UnknownSize})
			if kind := kindOf(t, err); kind != NotFound && c.end == "" {
				t.Errorf("a file that is not there: %v", err)
			}
			if _, err := client.Head(t.Context(), url+"x"); kindOf(t, err) != NotFound && c.end == "" &&
				s.Lacks != "SIZE MDTM" {
				t.Errorf("a file that is not there: %v", err)
			}
		})
	}
}

// TestFTPContinues continues a transfer that broke off, and does not take its end for that of the file.
func TestFTPContinues(t *testing.T) {
	data := string(payload(300_000))
	s := &ftptest.Server{Files: map[string]string{"f.bin": data}, Cut: 100_000}
	url := "ftp://" + s.Start(t) + "/f.bin"
	client := newClient(t, ftpPolicy())
	root := newRoot(t)
	want := Want{Size: UnknownSize}
	if _, err := client.Download(t.Context(), url, root, "f", want); kindOf(t, err) != Network {
		t.Fatalf("a transfer of 100,000 bytes: %v", err)
	}
	got, err := client.Download(t.Context(), url, root, "f", want)
	if err != nil || got.Resumed != 100_000 {
		t.Fatalf("got %+v, %v; %q", got, err, s.Commands())
	}
	wantFile(t, root, "f", []byte(data))
	s.Cut = len(data) / 2 // and without a size the end must be confirmed
	s.Lacks = "SIZE"
	if _, err := client.Download(t.Context(), url, root, "g", want); kindOf(t, err) != Network {
		t.Errorf("without a size: %v", err)
	}
}

// TestFTPRefusals refuses URLs and answers that are dangerous or of no use.
func TestFTPRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		server *ftptest.Server
		url    string // ADDR is replaced
		kind   Kind
		has    string
	}{
		"control":          {&ftptest.Server{}, "ftp://ADDR/f", "", ""},
		"a line end":       {&ftptest.Server{}, "ftp://ADDR/f%0D%0ADELE%20f", Refused, "control character"},
		"a line end, user": {&ftptest.Server{}, "ftp://a%0D%0Ab:c@ADDR/f", Refused, "control character"},
		"a directory":      {&ftptest.Server{}, "ftp://ADDR/d/", Refused, "names no file"},
		"no name":          {&ftptest.Server{}, "ftp://ADDR/", Refused, "names no file"},
		"text mode":        {&ftptest.Server{}, "ftp://ADDR/f;type=a", Refused, ";type=i"},
		"a low port":       {&ftptest.Server{}, "ftp://127.0.0.1:25/f", Refused, "port 25"},
		"a port of http":   {&ftptest.Server{}, "ftp://127.0.0.1:80/f", Refused, "port 80"},
		"an address":       {&ftptest.Server{}, "ftp://10.1.2.3/f", Refused, "private"},
		"a wrong login":    {&ftptest.Server{User: "ann", Password: "x"}, "ftp://ann:y@ADDR/f", Status, "401"},
		"busy": {&ftptest.Server{Says: map[string]string{"": "421 too many"}}, "ftp://ADDR/f", Server,
			"503"},
		"no server of FTP": {&ftptest.Server{Says: map[string]string{"": "SSH-2.0-x"}}, "ftp://ADDR/f", Network,
			"another form"},
		"a data port of others": {&ftptest.Server{Says: map[string]string{"EPSV": "229 (|||25|)"}}, "ftp://ADDR/f",
			Refused, "data port 25"},
		"no passive mode": {&ftptest.Server{Lacks: "EPSV PASV"}, "ftp://ADDR/f", Server, "502"},
		"PASV of another form": {&ftptest.Server{Lacks: "EPSV", Says: map[string]string{"PASV": "227 here"}},
			"ftp://ADDR/f", Server, "502"},
		"not allowed": {&ftptest.Server{Says: map[string]string{"RETR": "553 name"}}, "ftp://ADDR/f", Status,
			"403"},
		"an endless reply": {&ftptest.Server{Says: map[string]string{"": "220-" + strings.Repeat("\r\nx", 300)}},
			"ftp://ADDR/f",
			Network, "endless"},
		"a long line": {&ftptest.Server{Says: map[string]string{"": "220 " + strings.Repeat("x", 10_000)}},
			"ftp://ADDR/f",
			Network, "buffer full"},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.server
			s.Files = map[string]string{"f": "text"}
			url := strings.Replace(c.url, "ADDR", s.Start(t), 1)
			_, err := newClient(t, ftpPolicy()).Download(t.Context(), url, newRoot(t), "f", Want{Size: UnknownSize})
			if kindOf(t, err) != c.kind || err != nil && !strings.Contains(err.Error(), c.has) {
				t.Errorf("got %v, want %s with %q", err, c.kind, c.has)
			}
			for _, command := range s.Commands() {
				if strings.HasPrefix(command, "DELE") {
					t.Errorf("the server got %q", command)
				}
			}
		})
	}
	s := &ftptest.Server{Files: map[string]string{"f": "text"}}
	address := s.Start(t)
	if err := New(local()).Check("ftp://" + address + "/f"); kindOf(t, err) != Refused {
		t.Errorf("a policy without FTP: %v", err)
	}
	from := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "ftp://"+address+"/f", http.StatusFound)
	})
	_, err := newClient(t, ftpPolicy()).Download(t.Context(), from, newRoot(t), "f", Want{Size: UnknownSize})
	if kindOf(t, err) != Refused || !strings.Contains(err.Error(), "redirect to ftp") {
		t.Errorf("a redirect: %v", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "ftp://"+address+"/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := newClient(t, ftpPolicy()).Transport().RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	if kindOf(t, err) != Refused {
		t.Errorf("a notification: %v", err)
	}
}

// TestFTPDataGoesToTheServer connects to the address of the control connection, whatever PASV names: the server of the
// test names 10.1.2.3.
func TestFTPDataGoesToTheServer(t *testing.T) {
	s := &ftptest.Server{Files: map[string]string{"f": "text"}, Lacks: "EPSV"}
	p := ftpPolicy()
	p.Allow = append(p.Allow, netip.MustParsePrefix("10.0.0.0/8"))
	var dialled []string
	p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	got, err := newClient(t, p).Download(t.Context(), "ftp://"+s.Start(t)+"/f", newRoot(t), "f", Want{Size: 4})
	if err != nil || got.Size != 4 || len(dialled) != 2 || !strings.HasPrefix(dialled[1], "127.0.0.1:") {
		t.Errorf("got %+v, %v; dialled %q", got, err, dialled)
	}
}

// TestFTPCancelled ends with the context while the server is silent.
func TestFTPCancelled(t *testing.T) {
	s := &ftptest.Server{Files: map[string]string{"f": "text"}, Says: map[string]string{"RETR": "150 wait"}}
	p := ftpPolicy()
	p.IdleTimeout = 100 * time.Millisecond
	_, err := newClient(t, p).Download(t.Context(), "ftp://"+s.Start(t)+"/f", newRoot(t), "f", Want{Size: UnknownSize})
	if !errors.Is(err, ErrIdle) {
		t.Errorf("got %v after %s", err, strconv.Quote(strings.Join(s.Commands(), ",")))
	}
}
