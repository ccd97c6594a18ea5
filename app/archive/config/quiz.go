package archiveconfig

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/stagepost/stagepost/internal/secretfile"
)

// minToken is the least length of a token that Moodles send.
const minToken = 16

// QuizWorker is this server as the quiz archive worker of Moodles.
type QuizWorker struct {
	TokenFiles    []string `json:"token_files" doc:"Files with the tokens of the Moodles, one of at least 16 characters each. Defaults to none: only Moodles on this machine may order."`
	Moodles       []string `json:"moodles" doc:"Addresses of the Moodles that may order: https://moodle.example.org. Defaults to every one that sends a token."`
	AllowNetworks []string `json:"allow_networks" doc:"Special networks in which Moodles may be: 10.20.0.0/16. Defaults to none. It changes with the next start."`
	Parallel      int      `json:"parallel" min:"1" doc:"Orders that are worked on at once. Defaults to 4. It changes with the next start."`
	Queue         int      `json:"queue" min:"1" doc:"Orders that may wait. Defaults to 8. It changes with the next start."`
	Timeout       Duration `json:"timeout" doc:"Time for one order, without its time in the queue. Defaults to 1h. It changes with the next start."`
}

// Tokens reads the tokens.
func (q *QuizWorker) Tokens() (all []string, err error) {
	for _, name := range q.TokenFiles {
		text, err := secretfile.Read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// Networks are the special networks that are allowed.
func (q *QuizWorker) Networks() (all []netip.Prefix) {
	for _, text := range q.AllowNetworks {
		if p, err := netip.ParsePrefix(text); err == nil { // the others are mistakes
			all = append(all, p)
		}
	}
	return all
}

func (c *Config) checkQuizWorker() {
	if c.QuizWorker == nil {
		return
	}
	c.networks([]string{"quiz_worker", "allow_networks"}, c.QuizWorker.AllowNetworks)
	for i, text := range c.QuizWorker.Moodles {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			c.wrong([]string{"quiz_worker", "moodles", strconv.Itoa(i)}, "%q is no address such as "+
				"https://moodle.example.org", text)
		}
	}
}

// networks notes what is no network.
func (c *Config) networks(key, all []string) {
	for i, text := range all {
		if _, err := netip.ParsePrefix(text); err != nil {
			c.wrong(append(key, strconv.Itoa(i)), "%q is no network such as 10.20.0.0/16", text)
		}
	}
}

// checkQuizTokens notes tokens that cannot be used.
func (c *Config) checkQuizTokens() {
	if c.QuizWorker == nil {
		return
	}
	for i, name := range c.QuizWorker.TokenFiles {
		text, err := secretfile.Read(name)
		if err == nil && len(text) < minToken {
			err = fmt.Errorf("%s: a token has %d characters or more", name, minToken)
		}
		if err != nil {
			c.wrong([]string{"quiz_worker", "token_files", strconv.Itoa(i)}, "%v", err)
		}
	}
}

// Printer is an existing quiz archive worker.
type Printer struct {
	URL       string `json:"url" need:"true" doc:"Address of the worker: http://worker.example.org:8080."`
	Callback  string `json:"callback" need:"true" doc:"Address under which the worker reaches that of archive.quizworker.listen: http://10.20.0.2:8081."`
	TokenFile string `json:"token_file" doc:"File with a bearer token, for a proxy before the worker. Defaults to none: the worker has no authentication."`
	Parallel  int    `json:"parallel" min:"1" doc:"PDF files that it prints at once. Defaults to 4."`
}

func (c *Config) checkPrinters() {
	for i, p := range c.Printers {
		for key, text := range map[string]string{"url": p.URL, "callback": p.Callback} {
			u, err := url.Parse(text)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				c.wrong([]string{"printers", strconv.Itoa(i), key}, "%q is no address such as "+
					"http://worker.example.org:8080", text)
			}
		}
	}
}
