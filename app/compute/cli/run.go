package computecli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// ScriptName is the file that a compute job runs.
const ScriptName = "run.sh"

// computeRun are the flags of run.
type computeRun struct {
	client.ComputeOrder
	env, labels, limits []string
	priority            int
	keepInputs          bool
	detach              bool
	out                 string
}

// run runs files on a service, as if it were here: what the script writes comes out here as it writes it, and its exit
// code is that of the command.
func (c *commands) run() *cobra.Command {
	var r computeRun
	cmd := &cobra.Command{
		Use:   "run FILE... [-- COMMAND [ARGUMENT...]]",
		Short: "Run files on a service, and follow the job",
		Long: `Uploads files, runs run.sh among them or a command, and follows it: its standard output is written to standard output and its standard error to standard error at once.
With --out the results are unpacked into a new directory, also after a failure. A command follows after --; its words are passed unchanged, without a shell.

Uploads are flat: a file has the last part of its path as its name. A directory is refused, because its files would lose their paths: pack it, and unpack it in run.sh.
Large files are uploaded resumably; with --key the whole order can be sent again after a broken connection, and makes one job.

The first Ctrl-C cancels the job and waits for its end, a second one ends the command at once; the cancellation continues. With -o json each piece of output is a line of JSON, and
the last line is the job.

The exit code is that of the script, if it has one. Else it is 128+N after signal N; 124 when the limit of time was reached; 137 when it used more memory than it may; 122 when it wrote
more than it may; 143 when it was cancelled elsewhere, 130 after Ctrl-C here; 121 when the script ended with 0 and its results are incomplete; 123 when it was refused; 125 when
Stagepost could not run it, or its end is unknown. Wrong usage is 2, and --timeout 6, after which the job continues.`,
		Example: `  stagepost run data.csv --service python -- python3 -c 'print(sum(1 for _ in open("data.csv")))'
  stagepost run run.sh input.tar --limit wall=10m,memory=2GiB --out results
  stagepost run run.sh --detach --key nightly-2026-05-04`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			files, words := args, []string(nil)
			if dash >= 0 {
				files, words = args[:dash], args[dash:]
			}
			if err := r.complete(cmd, files, words); err != nil {
				return err
			}
			ctx, cancel := c.Patient(cmd)
			defer cancel()
			api, err := c.API()
			if err != nil {
				return outside(err)
			}
			return outside(c.runFiles(ctx, api, &r, files))
		},
	}
	r.bind(cmd)
	c.completeCompute(cmd)
	return cmd
}

func (r *computeRun) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Service, "service", "", "the service to run on; defaults to the only one there is")
	f.StringVar(&r.Name, "name", "", "a name for people")
	f.StringArrayVarP(&r.env, "env", "e", nil,
		"a variable for the script: NAME=VALUE, or NAME for its value here; may be given again")
	f.StringArrayVar(&r.limits, "limit", nil,
		"limits: wall=10m,cpu=5m,memory=2GiB,disk=10GiB,output=1MiB,processes=64,cores=2,files=256")
	f.StringArrayVar(&r.labels, "label", nil, "a label for lists: NAME=VALUE; may be given again")
	f.StringSliceVar(&r.Requires, "requires", nil,
		"labels that its agent must have, with commas between: NAME or NAME=VALUE")
	f.StringVar(&r.Key, "key", "", "idempotency key: a second order with it gives the job of the first")
	f.StringVar(&r.Owner, "owner", "", "whose it is; defaults to the owner of the token, else to the login name")
	f.IntVar(&r.priority, "priority", job.DefaultPriority, "0 goes first, 99 last")
	f.BoolVar(&r.keepInputs, "inputs", false,
		"the results hold the inputs, too; defaults to the setting of the service")
	f.StringVar(&r.Callback, "callback", "",
		"a URL that is notified of the job's end, signed; the service names the hosts to which it may lead")
	f.BoolVar(&r.detach, "detach", false, "print the job and do not follow it")
	f.StringVar(&r.out, "out", "", "unpack the results into this directory, which must not be there")
	cli.Recorded(cmd, &r.Note, &r.Actor)
}

// complete makes the order of the flags.
func (r *computeRun) complete(cmd *cobra.Command, files, words []string) error {
	var err error
	if r.Env, err = variables(r.env); err != nil {
		return err
	}
	if r.Labels, err = pairs("label", r.labels); err != nil {
		return err
	}
	if len(r.limits) > 0 {
		if r.Limits, err = api.ParseComputeLimits(strings.Join(r.limits, ",")); err != nil {
			return cli.Usagef("--limit: %w", err)
		}
	}
	if cmd.Flags().Changed("priority") {
		r.Priority = &r.priority
	}
	if cmd.Flags().Changed("inputs") {
		r.Inputs = &r.keepInputs
	}
	r.Actor = cli.Whoami(r.Actor)
	if r.Owner == "" {
		r.Owner = cli.Whoami("")
	}
	script := false
	for _, name := range files {
		if _, err := os.Stat(name); err != nil { // first: without it nothing else about the files is sure
			return cli.Usage(err)
		}
		script = script || filepath.Base(name) == ScriptName
	}
	switch {
	case len(words) > 0 && script:
		return cli.Usagef("both %s and a command are given, and one can run: leave out one of them", ScriptName)
	case len(words) > 0:
		r.Command = &client.ComputeCommand{Words: words}
	case !script:
		return cli.Usagef("it needs %s among the files, or a command after --", ScriptName)
	case r.detach && r.out != "":
		return cli.Usagef("--detach does not wait for results: stagepost compute results ID --out %s fetches "+
			"them later", r.out)
	}
	return cli.Free(r.out)
}

// variables reads --env: NAME=VALUE, or NAME for what it is here.
func variables(given []string) (map[string]string, error) {
	var all []string
	for _, one := range given {
		if !strings.Contains(one, "=") {
			value, ok := os.LookupEnv(one)
			if !ok {
				return nil, cli.Usagef("--env %s: there is no such variable here", one)
			}
			one += "=" + value
		}
		all = append(all, one)
	}
	return pairs("env", all)
}

// pairs reads NAME=VALUE; of two with one name the last counts.
func pairs(flag string, given []string) (map[string]string, error) {
	all := map[string]string{}
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("--%s must be NAME=VALUE, not %q", flag, one)
		}
		all[name] = value
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// sourcesOf opens the files that go with an order. The caller calls end.
func sourcesOf(names []string) (files []client.ComputeSource, end func(), err error) {
	var open []io.Closer
	end = func() {
		for _, f := range open {
			_ = f.Close() // they were only read
		}
	}
	seen := map[string]string{}
	for _, name := range names {
		info, err := os.Stat(name) // first: opening a pipe waits for its writer
		var f *os.File
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			if f, err = os.Open(name); err == nil {
				open = append(open, f)
				info, err = f.Stat()
			}
		}
		switch {
		case err != nil:
			err = cli.Usage(err)
		case info.IsDir():
			err = cli.Usagef("%s is a directory, and uploads are flat: pack it (tar -czf %s.tgz %s), and unpack "+
				"it in %s", name, filepath.Base(name), name, ScriptName)
		case !info.Mode().IsRegular():
			err = cli.Usagef("%s is %s and no regular file: what comes out of it cannot be read twice, as an upload "+
				"may need; copy it into a file first", name, kindOf(info.Mode()))
		case seen[filepath.Base(name)] != "":
			err = cli.Usagef("%s and %s would be one file: uploads are flat", seen[filepath.Base(name)], name)
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		seen[filepath.Base(name)] = name
		files = append(files, client.ComputeSource{Name: filepath.Base(name), Size: info.Size(), Content: f})
	}
	return files, end, nil
}

// kindOf names what is no file and no directory.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// runFiles submits an order and follows it to its end.
func (c *commands) runFiles(ctx context.Context, api *client.Client, r *computeRun, names []string) error {
	files, end, err := sourcesOf(names)
	if err != nil {
		return err
	}
	defer end()
	if r.Service == "" {
		if r.Service, err = onlyService(ctx, api); err != nil {
			return err
		}
	}
	progress := newUploadBar(c)
	j, err := api.SubmitCompute(ctx, r.ComputeOrder, files, progress.show)
	progress.end()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if p := client.ProblemOf(err); p != nil &&
			(p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity) {
			err = cli.Usage(err) // the server checks the order as the flags are checked here
		}
		return err
	}
	if r.detach {
		return c.jobLine(&j, nil)
	}
	if c.Err.Terminal {
		c.Err.Line("%s", j.ID)
	}
	f := &following{cli: c, api: api, id: j.ID}
	if j, err = f.toEnd(ctx); err != nil {
		return err
	}
	c.sayNote(&j)
	c.sayCut(&j)
	c.sayLeft(&j)
	if c.Out.Mode == cli.ModeJSON {
		if err := c.Message(struct {
			Job *client.ComputeJob `json:"job"`
		}{&j}); err != nil {
			return err
		}
	}
	if r.out != "" {
		if err := c.unpackResults(context.WithoutCancel(ctx), api, &j, r.out); err != nil {
			return errors.Join(resultsLost{err}, endOf(&j, f.interrupted()))
		}
	}
	return endOf(&j, f.interrupted())
}

// onlyService gives the name of the service if there is only one.
func onlyService(ctx context.Context, api *client.Client) (string, error) {
	all, err := api.ComputeServices(ctx)
	if err != nil {
		return "", err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	if len(names) != 1 {
		return "", cli.Usagef("--service is needed: one of %s", strings.Join(names, ", "))
	}
	return names[0], nil
}

// uploadBar shows on a terminal how far an upload is; in a pipe standard error is the script's.
type uploadBar struct {
	bar  *cli.Bar
	last time.Time
}

func newUploadBar(c *commands) *uploadBar {
	out := c.Err
	if !out.Terminal {
		return &uploadBar{}
	}
	return &uploadBar{bar: &cli.Bar{Out: out}}
}

func (u *uploadBar) show(done, total int64) {
	if u.bar == nil || done != total && time.Since(u.last) < 100*time.Millisecond {
		return
	}
	u.last = time.Now()
	_ = u.bar.Show(done, total, "uploading") // it is only decoration
}

func (u *uploadBar) end() {
	if u.bar != nil {
		u.bar.Clear()
	}
}

// following follows a compute job to its end, and cancels it when it is interrupted.
type following struct {
	cli *commands
	api *client.Client
	id  job.ID

	mu      sync.Mutex // guards stopped
	stopped bool
}

func (f *following) interrupted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// errAbandoned ends the following after a second interruption.
var errAbandoned = errors.New("the command was ended; the cancellation continues")

// toEnd passes on what the job writes until it has ended, and gives the job.
func (f *following) toEnd(ctx context.Context) (client.ComputeJob, error) {
	ctx, leave := context.WithCancelCause(client.Persistent(ctx))
	defer leave(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go f.interrupt(ctx, signals, leave)
	at := client.ComputePlace{}
	err := f.api.FollowCompute(ctx, f.id, client.Both, &at, f.cli.pass)
	if err == nil {
		var j client.ComputeJob
		if j, err = f.api.ComputeJob(ctx, f.id); err == nil {
			return j, nil
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return client.ComputeJob{}, err
}

// interrupt calls the job off at the first signal, and leaves it at the second.
func (f *following) interrupt(ctx context.Context, signals <-chan os.Signal, leave context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-signals:
	}
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.cli.Err.Line("stagepost: cancelling %s; a second Ctrl-C ends this command alone", f.id)
	go func() {
		if _, err := f.api.CancelCompute(ctx, f.id, client.Act{As: "owner", Actor: cli.Whoami(""),
			Note: "interrupted"}); err != nil && ctx.Err() == nil {
			f.cli.Err.Line("stagepost: %v", err)
		}
	}()
	select {
	case <-ctx.Done():
	case <-signals:
		leave(errAbandoned)
	}
}

// pass passes on a piece of output: as it is, or in JSON as a line of its own.
func (c *commands) pass(o *client.ComputeOutput) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Message(o)
	}
	to := io.Writer(c.Out)
	if o.Stream == client.Stderr {
		to = c.Err
	}
	if _, err := to.Write(o.Data()); err != nil {
		return fmt.Errorf("the output cannot be passed on: %w", err)
	}
	return nil
}
