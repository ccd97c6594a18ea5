package compute

import (
	"errors"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// addresses are what errors of the network name beside what happened: for the operators' log, not for users.
var addresses = regexp.MustCompile(
	`(dial |read |write )?\b(tcp|udp|unix)[46]? \S+: |\b(\d{1,3}\.){3}\d{1,3}(:\d+)?\b|` +
		`\[[0-9a-fA-F:.%a-z]*:[0-9a-fA-F:.%a-z]*\](:\d+)?|https?://\S+`)

// plain is an error of an executor for users: one line, what happened, and no address.
func plain(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var timeout net.Error
	var no *Refusal
	var file *os.PathError
	switch {
	case errors.As(err, &no):
		return oneLine(no.Reason)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses the connection"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection broke off"
	case errors.As(err, &dns):
		return "its name is not known to the network"
	case errors.As(err, &op) && op.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "it does not answer in time"
	case errors.As(err, &op) && op.Err != nil:
		return oneLine(op.Err.Error())
	case errors.As(err, &file):
		return oneLine(file.Err.Error()) // without the path
	case errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, errStalled):
		return "it does not answer in time"
	}
	text := err.Error()
	if rest, found := strings.CutPrefix(text, ErrNotSent.Error()); found && strings.Trim(rest, ": \n") != "" {
		text = strings.TrimLeft(rest, ": \n")
	}
	return oneLine(text)
}

// oneLine leaves out addresses, and bounds what is kept.
func oneLine(text string) string {
	text = addresses.ReplaceAllString(text, "")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.Trim(strings.Join(strings.Fields(lines[i]), " "), " :;")
	}
	return shorten(strings.Join(lines, "; "))
}
