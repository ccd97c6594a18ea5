package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of the replies of an FTP server.
const (
	ftpLine  = 4 << 10 // bytes of a line
	ftpLines = 200     // of one reply
)

// ftp makes a request for an ftp URL (RFC 959, 2428 and 3659) and answers as an http server would: 200 or 206 with the
// file, 404, 401, 403, or 502 and 503 for other refusals. Size and time of the file make an entity tag, so that a
// download can be continued. The data connection goes to the address of the control connection, whatever the server
// names.
func (c *Client) ftp(ctx context.Context, method string, u *url.URL, user *url.Userinfo, header http.Header) (
	*http.Response, error) {
	name, err := ftpName(u)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), portOf(u)))
	if err != nil {
		return nil, err
	}
	f := &ftpSession{client: c, ctx: ctx, conn: conn, in: bufio.NewReaderSize(conn, ftpLine)}
	f.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	answer, err := f.ask(method, name, user, header)
	if err != nil || answer.Body == http.NoBody {
		f.close()
	}
	return answer, err
}

// CheckFTP checks what the path of an ftp URL names: one file, in binary form. Other URLs pass.
func CheckFTP(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "ftp" {
		return nil
	}
	_, err = ftpName(u)
	return err
}

// ftpName gives the name of a file, relative to the directory of the login.
func ftpName(u *url.URL) (string, error) {
	name := strings.TrimPrefix(u.Path, "/")
	if before, typ, ok := strings.Cut(name, ";type="); ok {
		if name = before; !strings.EqualFold(typ, "i") {
			return "", refusal("only ;type=i is allowed in an ftp URL")
		}
	}
	switch {
	case name == "" || strings.HasSuffix(name, "/"):
		return "", refusal("ftp URL names no file")
	case unsafeFTP(name):
		return "", refusal("ftp URL has a control character")
	}
	return name, nil
}

// unsafeFTP reports whether a text would be more than one argument of a command.
func unsafeFTP(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) ||
		strings.Contains(text, "\xff")
}

// ftpSession is a control connection.
type ftpSession struct {
	client *Client
	ctx    context.Context
	conn   net.Conn
	in     *bufio.Reader
	stop   func() bool
	data   net.Conn
}

func (f *ftpSession) close() {
	f.stop()
	_ = f.conn.Close()
	if f.data != nil {
		_ = f.data.Close()
	}
}

// do sends a command and reads its reply; an empty one reads only.
func (f *ftpSession) do(command string) (code int, text string, err error) {
	if err := f.conn.SetDeadline(time.Now().Add(f.client.policy.HeaderTimeout)); err != nil {
		return 0, "", err
	}
	if command != "" {
		if _, err := io.WriteString(f.conn, command+"\r\n"); err != nil {
			return 0, "", err
		}
	}
	end := ""
	for n := 0; n < ftpLines; n++ {
		raw, err := f.in.ReadSlice('\n')
		if err != nil {
			return 0, "", fmt.Errorf("ftp server: %w", unexpected(err))
		}
		line := strings.TrimRight(string(raw), "\r\n")
		switch {
		case end == "" && ftpReply.MatchString(line) && line[3:] != "" && line[3] == '-':
			end = line[:3] + " "
		case end == "" && ftpReply.MatchString(line) || end != "" && strings.HasPrefix(line, end):
			code, _ = strconv.Atoi(line[:3]) // three digits
			return code, strings.TrimSpace(line[3:]), nil
		case end == "":
			return 0, "", errors.New("ftp server: a reply of another form")
		}
	}
	return 0, "", errors.New("ftp server: an endless reply")
}

var ftpReply = regexp.MustCompile(`^[1-5][0-9][0-9](?:$|[ -])`)

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ask logs in and begins to retrieve the file.
func (f *ftpSession) ask(method, name string, user *url.Userinfo, header http.Header) (*http.Response, error) {
	if status, err := f.login(user); status != 0 || err != nil {
		return ftpAnswer(status), err
	}
	size, tag, err := f.about(name)
	if err != nil {
		return nil, err
	}
	if method == http.MethodHead {
		if size == UnknownSize {
			return f.list(name, tag)
		}
		answer := ftpAnswer(http.StatusOK)
		answer.ContentLength = size
		answer.Header.Set("ETag", tag)
		answer.Header.Set("Accept-Ranges", "bytes")
		return answer, nil
	}
	from := ftpFrom(header, tag)
	if from > 0 && size >= 0 && from >= size {
		return ftpAnswer(http.StatusRequestedRangeNotSatisfiable), nil
	}
	return f.retrieve(name, size, from, tag)
}

// login gives the status of a refusal, or 0.
func (f *ftpSession) login(user *url.Userinfo) (status int, err error) {
	name, password := "anonymous", "stagepost@"
	if user != nil {
		name = user.Username()
		password, _ = user.Password()
	}
	if unsafeFTP(name) || unsafeFTP(password) {
		return 0, refusal("user or password has a control character")
	}
	for _, step := range []struct {
		command string
		good    int
	}{{"", 220}, {"USER " + name, 230}, {"PASS " + password, 230}, {"TYPE I", 200}} {
		if step.command == "PASS "+password && status == 230 { // no password was asked for
			continue
		}
		code, _, err := f.do(step.command)
		for err == nil && code/100 == 1 {
			code, _, err = f.do("")
		}
		switch {
		case err != nil:
			return 0, err
		case code == step.good || code == 331 && strings.HasPrefix(step.command, "USER "),
			code == 202 && strings.HasPrefix(step.command, "PASS "):
			status = code
		default:
			return ftpStatus(code), nil
		}
	}
	return 0, nil
}

// ftpStatus maps a refusal to a status of http.
func ftpStatus(code int) int {
	switch {
	case code == 430, code == 530, code == 532:
		return http.StatusUnauthorized
	case code == 550:
		return http.StatusNotFound
	case code/100 == 4:
		return http.StatusServiceUnavailable
	case code == 553:
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// about asks for size and time. Servers may know neither command.
func (f *ftpSession) about(name string) (size int64, tag string, err error) {
	size = UnknownSize
	code, text, err := f.do("SIZE " + name)
	if err != nil {
		return size, "", err
	}
	if n, bad := strconv.ParseUint(text, 10, 63); code == 213 && bad == nil {
		size = int64(n)
	}
	code, text, err = f.do("MDTM " + name)
	if err == nil && code == 213 && size >= 0 && ftpTime.MatchString(text) {
		tag = fmt.Sprintf(`"%s-%d"`, text, size)
	}
	return size, tag, err
}

var ftpTime = regexp.MustCompile(`^[0-9]{14}(?:\.[0-9]{1,9})?$`)

// list answers a request for the header of a file whose size is unknown: whether it is there is known only when it is
// retrieved.
func (f *ftpSession) list(name, tag string) (*http.Response, error) {
	answer, err := f.retrieve(name, UnknownSize, 0, tag)
	if err != nil {
		return nil, err
	}
	answer.Body = http.NoBody // the session is closed with it
	return answer, nil
}

// ftpFrom is the first byte that a request is for; 0 if the file changed since.
func ftpFrom(header http.Header, tag string) int64 {
	text, ok := strings.CutPrefix(header.Get("Range"), "bytes=")
	from, err := strconv.ParseUint(strings.TrimSuffix(text, "-"), 10, 63)
	if condition := header.Get("If-Range"); !ok || err != nil || condition != "" && condition != tag {
		return 0
	}
	return int64(from)
}

// retrieve opens the data connection and asks for the file.
func (f *ftpSession) retrieve(name string, size, from int64, tag string) (*http.Response, error) {
	code, err := f.open()
	if code != 0 || err != nil {
		return ftpAnswer(code), err
	}
	if from > 0 {
		code, _, err := f.do("REST " + strconv.FormatInt(from, 10))
		if err != nil {
			return nil, err
		}
		if code != 350 {
			from = 0
		}
	}
	code, _, err = f.do("RETR " + name)
	if err != nil {
		return nil, err
	}
	if code/100 != 1 {
		return ftpAnswer(ftpStatus(code)), nil
	}
	answer := ftpAnswer(http.StatusOK)
	answer.Body, answer.ContentLength = &ftpBody{session: f}, size
	if tag != "" {
		answer.Header.Set("ETag", tag)
	}
	if from > 0 {
		answer.StatusCode = http.StatusPartialContent
		last, total := "", "*"
		if size >= 0 {
			answer.ContentLength = size - from
			last, total = strconv.FormatInt(size-1, 10), strconv.FormatInt(size, 10)
		} else {
			last = strconv.FormatInt(from, 10) // the end is not known
		}
		answer.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%s/%s", from, last, total))
	}
	return answer, nil
}

var (
	ftpEPSV = regexp.MustCompile(`\(\|\|\|([0-9]{1,5})\|\)`)
	ftpPASV = regexp.MustCompile(`[0-9]{1,3},[0-9]{1,3},[0-9]{1,3},[0-9]{1,3},([0-9]{1,3}),([0-9]{1,3})`)
)

// open makes the data connection. The status is that of a refusal, or 0.
func (f *ftpSession) open() (status int, err error) {
	code, text, err := f.do("EPSV")
	if err != nil {
		return 0, err
	}
	port := 0
	if m := ftpEPSV.FindStringSubmatch(text); code == 229 && m != nil {
		port, _ = strconv.Atoi(m[1])
	} else {
		if code, text, err = f.do("PASV"); err != nil {
			return 0, err
		}
		m := ftpPASV.FindStringSubmatch(text)
		if code != 227 || m == nil {
			return ftpStatus(code), nil
		}
		high, _ := strconv.Atoi(m[1])
		low, _ := strconv.Atoi(m[2])
		port = high<<8 + low
	}
	if port < 1024 || port > 65535 {
		return 0, refusal(fmt.Sprintf("ftp server names the data port %d", port))
	}
	peer, err := netip.ParseAddrPort(f.conn.RemoteAddr().String())
	if err != nil {
		return 0, fmt.Errorf("address of the ftp server: %w", err)
	}
	to := net.JoinHostPort(peer.Addr().Unmap().String(), strconv.Itoa(port))
	if f.data, err = f.client.dial(f.ctx, "tcp", to); err != nil {
		return 0, &private{"data connection: " + reason(err), err}
	}
	f.stop()
	data := f.data
	f.stop = context.AfterFunc(f.ctx, func() { _ = errors.Join(f.conn.Close(), data.Close()) })
	return 0, nil
}

func ftpAnswer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, ContentLength: 0,
		TransferEncoding: []string{"ftp"}} // the end of a body is confirmed
}

// ftpBody reads the data connection. Its end counts only when the server confirms it.
type ftpBody struct {
	session *ftpSession
	done    bool
}

func (b *ftpBody) Read(p []byte) (int, error) {
	n, err := b.session.data.Read(p)
	if !errors.Is(err, io.EOF) || b.done {
		return n, err
	}
	code, _, confirm := b.session.do("")
	if confirm != nil {
		return n, confirm
	}
	if code/100 != 2 {
		return n, fmt.Errorf("ftp server ends the transfer with %d: %w", code, io.ErrUnexpectedEOF)
	}
	b.done = true
	return n, io.EOF
}

// Close ends the session.
func (b *ftpBody) Close() error {
	b.session.close()
	return nil
}
