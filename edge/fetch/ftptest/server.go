// Package ftptest has an FTP server for tests, on the loopback: passive mode, SIZE, MDTM and REST.
package ftptest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server serves files. Its fields are set before the first request.
type Server struct {
	Files    map[string]string // by name, relative to the directory of the login
	User     string            // with Password; any user without
	Password string
	Lacks    string            // commands that it does not know, separated by blanks
	Says     map[string]string // replies to commands instead of its own
	Cut      int               // bytes after which the next transfer ends without success; 0: none

	listener net.Listener
	mu       sync.Mutex // guards the rest
	commands []string
	conns    []net.Conn
	work     sync.WaitGroup
}

// Start serves until the test ends, and returns the address.
func (s *Server) Start(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listener = l
	s.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.keep(conn)
			s.work.Go(func() { (&session{s: s, conn: conn}).serve() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
	})
	return l.Addr().String()
}

func (s *Server) keep(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
}

// Commands lists what was asked.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.commands...)
}

// cut gives the bytes of the next transfer after which it ends.
func (s *Server) cut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.Cut
	s.Cut = 0
	return n
}

type session struct {
	s    *Server
	conn net.Conn
	data net.Listener
	rest int
	user string
	in   bool
}

func (c *session) say(text string) { _, _ = io.WriteString(c.conn, text+"\r\n") }

func (c *session) serve() {
	defer c.conn.Close()
	greeting := c.s.Says[""]
	if greeting == "" {
		greeting = "220-welcome\r\n220-of two lines\r\n220 ready"
	}
	c.say(greeting)
	lines := bufio.NewScanner(c.conn)
	for lines.Scan() {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		c.s.mu.Lock()
		c.s.commands = append(c.s.commands, lines.Text())
		c.s.mu.Unlock()
		switch reply, odd := c.s.Says[command]; {
		case odd:
			c.say(reply)
		case strings.Contains(" "+c.s.Lacks+" ", " "+command+" "):
			c.say("502 not implemented")
		default:
			c.answer(command, argument)
		}
	}
	if c.data != nil {
		_ = c.data.Close()
	}
}

func (c *session) answer(command, argument string) {
	switch command {
	case "USER":
		c.user = argument
		c.say("331 password")
		return
	case "PASS":
		if c.in = c.s.User == "" || c.user == c.s.User && argument == c.s.Password; !c.in {
			c.say("530 login incorrect")
			return
		}
		c.say("230 logged in")
		return
	}
	if !c.in {
		c.say("530 log in first")
		return
	}
	text, there := c.s.Files[argument]
	switch command {
	case "TYPE":
		c.say("200 type set")
	case "SIZE", "MDTM":
		switch {
		case !there:
			c.say("550 no such file")
		case command == "SIZE":
			c.say("213 " + strconv.Itoa(len(text)))
		default:
			c.say("213 20260504120000")
		}
	case "REST":
		c.rest, _ = strconv.Atoi(argument)
		c.say("350 restarting")
	case "EPSV", "PASV":
		c.passive(command)
	case "RETR":
		c.retrieve(text, there)
	default:
		c.say("500 unknown")
	}
}

func (c *session) passive(command string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		c.say("425 no port")
		return
	}
	c.data = l
	port := l.Addr().(*net.TCPAddr).Port
	if command == "EPSV" {
		c.say(fmt.Sprintf("229 entering (|||%d|)", port))
		return
	}
	c.say(fmt.Sprintf("227 entering (10,1,2,3,%d,%d)", port>>8, port&255)) // as behind a translator of addresses
}

func (c *session) retrieve(text string, there bool) {
	if !there || c.data == nil {
		c.say("550 no such file")
		return
	}
	conn, err := c.data.Accept()
	_ = c.data.Close()
	if err != nil {
		c.say("425 no connection")
		return
	}
	c.s.keep(conn)
	c.say("150 here it comes")
	text, c.rest = text[min(c.rest, len(text)):], 0
	n := c.s.cut()
	if n > 0 {
		text = text[:min(n, len(text))]
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
	if n > 0 {
		c.say("426 transfer aborted")
		return
	}
	c.say("226 done")
}
